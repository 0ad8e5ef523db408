from src.cli.chat.input.multiline import is_open, start_next_line, strip_quotes
from tests.each import check_rows


@check_rows("text", ["a\\", '"""', '"""a', ' """a\nb', "a\\\nb\\"])
def test_it_goes_on(text):
    assert is_open(text)


@check_rows("text", ["", "a", '"""a"""', '"""\na\n"""', 'say """x', "a\\b"])
def test_it_is_finished(text):
    assert not is_open(text)


@check_rows("typed, meant", [(" a ", "a"), ('"""a\nb"""', "a\nb"), ('"""\na\n\nb\n"""', "a\n\nb"), ('""', '""')])
def test_what_is_meant(typed, meant):
    assert strip_quotes(typed) == meant


def test_enter_takes_the_backslash():
    assert start_next_line("a\\") == "a\n"
    assert start_next_line('"""a\\') == '"""a\\\n'
