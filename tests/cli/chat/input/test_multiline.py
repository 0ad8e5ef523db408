import pytest

from src.cli.chat.input.multiline import finished, is_open, with_more


@pytest.mark.parametrize("text", ["a\\", '"""', '"""a', ' """a\nb', "a\\\nb\\"])
def test_it_goes_on(text):
    assert is_open(text)


@pytest.mark.parametrize("text", ["", "a", '"""a"""', '"""\na\n"""', 'say """x', "a\\b"])
def test_it_is_finished(text):
    assert not is_open(text)


@pytest.mark.parametrize(
    ("typed", "meant"), [(" a ", "a"), ('"""a\nb"""', "a\nb"), ('"""\na\n\nb\n"""', "a\n\nb"), ('""', '""')]
)
def test_what_is_meant(typed, meant):
    assert finished(typed) == meant


def test_enter_takes_the_backslash():
    assert with_more("a\\") == "a\n"
    assert with_more('"""a\\') == '"""a\\\n'
