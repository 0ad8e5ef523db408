"""A command line as commands and words without quotes, and the lines that are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.security.shell.parse import parse_line
from src.security.shell.scanner import UnsafeToParse, read_literal, split_words


def words(line: str) -> list[tuple[str, ...]]:
    return [command.texts for command in parse_line(line)]


def why(line: str) -> str:
    with pytest.raises(UnsafeToParse) as unclear:
        parse_line(line)
    return str(unclear.value)


@pytest.mark.parametrize(
    ("line", "read_as"),
    [
        ("ls -la src", [("ls", "-la", "src")]),
        ("echo 'a b' \"c  d\" e\\ f ''", [("echo", "a b", "c  d", "e f", "")]),
        ("echo it\\'s a'b'\"c\"", [("echo", "it's", "abc")]),
        ('echo "a\\"b\\$c\\d"', [("echo", 'a"b$c\\d')]),
        ("ls|wc -l&&pwd||echo;echo", [("ls",), ("wc", "-l"), ("pwd",), ("echo",), ("echo",)]),
        ("ls # all; of this\npwd", [("ls",), ("pwd",)]),
        ("cat a.txt \\\n  b.txt", [("cat", "a.txt", "b.txt")]),
        ("ls 2>/dev/null >&2", [("ls",)]),
        ("cat <<'E' | wc\n$(x)\nE\npwd", [("cat",), ("wc",), ("pwd",)]),
        ("(ls; pwd) | wc", [("ls",), ("pwd",), ("wc",)]),
        ("! grep x a && ! (ls)", [("grep", "x", "a"), ("ls",)]),
        ("LC_ALL=C TZ=UTC date", [("date",)]),
        ("[ ! -f 'a b' ]", [("[", "!", "-f", "a b", "]")]),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(line, read_as):
    assert words(line) == read_as


def test_a_file_that_input_comes_from_is_kept():
    (command,) = parse_line("wc -l < 'my file.txt'")
    assert [word.text for word in command.reads] == ["my file.txt"]


def test_a_glob_is_one_only_where_it_is_not_quoted():
    (command,) = parse_line("ls *.py '*' \\* \"?\" a[b]")
    assert [word.is_glob for word in command.words] == [False, True, False, False, False, True]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo $(ls)", "$( ) runs a command"),
        ("echo `ls`", "backquotes run a command"),
        ("echo $HOME", "$ is replaced"),
        ("echo {a,b}", "braces may turn one word into several"),
        ("ls ~", "~ stands for a home folder"),
        ("ls > a", "> writes a file"),
        ("ls &", "& leaves a command running"),
        ("(ls) (pwd)", "( makes it more than simple commands"),
        ("((ls))", "(( begins arithmetic"),
        ("()", "there is no command before )"),
        ("(ls", "it ends too early"),
        ("ls )", ") makes it more than simple commands"),
        ("(ls) pwd", "a word follows )"),
        ("!(ls)", "may be a pattern"),
        ("! ! ls", "! is not at the beginning of a pipeline"),
        ("LC_ALL=C", "a variable is set"),
        ("LC_ALL=../x ls", "a variable is set"),
        ("LC_ALL=ja_JP.SJIS sed p a", "a variable is set"),
        ("[ a = b ]", "it tests more than whether a file exists"),
        ("cd a b", "where that cd leads"),
        ("cd a | ls", "where that cd leads"),
        ("! cd a", "where that cd leads"),
        ("cd a; cd b; cd c; cd d; ls", "it changes folders too often"),
        ("X=1 ls", "a variable is set that may change what runs: 'X=1'"),
        ("'ls'", "is not a plain command name"),
        ("if ls", "if makes it more than simple commands"),
        ("ls \x1b[2J", "U+001B"),
        ("ls \u202e", "U+202E"),
        ("ls" + " " * 10_000, "longer than"),
        ("", "it contains no command"),
        ("ls |", "it ends too early"),
    ],
)
def test_the_reason_names_what_is_more_than_plain_commands(line, said):
    assert said in why(line)


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        ("ls", ["."]),
        ("cd a && ls | wc", ["./a"]),
        ("cd a && cd b && ls", ["./a/b"]),
        ("cd /a && ls", ["/a"]),
        ("cd a; ls", [".", "./a"]),
        ("cd a\nls", [".", "./a"]),
        ("cd a || ls", [".", "./a"]),
        ("cd a && pwd; ls", [".", "./a"]),
        ("cd a && pwd || ls", [".", "./a"]),
        ("cd a &&\n\n ls", ["./a"]),
        ("(cd a && pwd) && ls", ["."]),
        ("(cd a; pwd)\nls", ["."]),
        ("cd a && (cd b && pwd) && ls", ["./a"]),
        ("cd a && (cd b; ls)", ["./a", "./a/b"]),
        ("cd a && (pwd); ls", [".", "./a"]),
    ],
)
def test_a_command_may_run_in_every_folder_that_a_change_before_it_may_have_led_to(line, folders):
    assert sorted(parse_line(line)[-1].folders) == folders


@given(st.text("ls acd'\"\\$`{}~*?[]#;&|<>()\n\t-=!%é\u200b", max_size=25))
def test_whatever_it_is_it_is_read_or_unclear(line):
    try:
        commands = parse_line(line)
    except UnsafeToParse:
        return
    assert all(command.words for command in commands)


@pytest.mark.parametrize(
    ("source", "text"), [("a", "a"), ("'a b'", "a b"), ("a\\b", "ab"), ("$a", None), ("a*", None), ("a b", None)]
)
def test_a_word_is_literal_or_not(source, text):
    assert read_literal(source) == text


def test_a_rules_words_are_those_a_shell_sees():
    assert split_words("git  commit -m 'a b'") == ("git", "commit", "-m", "a b")
    assert split_words("git 'log") == ("git", "'log")
