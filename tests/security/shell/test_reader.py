"""What the strict reader accepts of a command line, and how it reads it."""

from __future__ import annotations

import pytest

from src.security.shell.reader import UnsafeToParse, parse_line, split_words
from tests.each import check_rows


@check_rows(
    "line, commands",
    [
        ("ls -l 'a b' \"c d\"", [("ls", "-l", "a b", "c d")]),
        ("to\\\nuch x", [("touch", "x")]),
        ("g\\i't' st\"at\"us", [("git", "status")]),
        ('echo "a\\"b\\\\c\\d"', [("echo", 'a"b\\c\\d')]),
        ("a && b || c; d | e |& f & g\nh", [(each,) for each in "abcdefgh"]),
        ("(a; (b && c)) | d", [("a",), ("b",), ("c",), ("d",)]),
        ("! a # b; c\nd", [("a",), ("d",)]),
        ("a |\n\n b", [("a",), ("b",)]),
        ("LC_ALL=C TZ=UTC sort a", [("sort", "a")]),
        ("cat <<'E' | wc\n$(x) `y`\nE\nls", [("cat",), ("wc",), ("ls",)]),
        ("cat <<-'E'\n\tE\nls", [("cat",), ("ls",)]),
        ("find . -exec rm {} +", [("find", ".", "-exec", "rm", "{}", "+")]),
        ("curl -w %{http_code}{a} b", [("curl", "-w", "%{http_code}{a}", "b")]),
        ("a {b} >c {d}&>e f{g}>h", [("a", "{b}", "{d}", "f{g}")]),
        ("[ -f a ] && cat <<< x", [("[", "-f", "a", "]"), ("cat",)]),
        ("a 1&>b x2&>>c", [("a", "1", "x2")]),
        ("! time LC_ALL=C a; time ! (b)", [("a",), ("b",)]),
        ("cat <<\\\n-'E'\n\tE\nls", [("cat",), ("ls",)]),
        ("a &\\\n>b c", [("a", "c")]),
    ],
)
def test_a_line_is_read_as_its_commands(line, commands):
    assert [each.texts for each in parse_line(line)] == commands


def test_files_of_redirections_are_told_from_words():
    (command,) = parse_line("a <b >c 2>>d &>e 2>&1 2>/dev/null f")
    assert command.texts == ("a", "f")
    assert [word.text for word in command.reads] == ["b"]
    assert [word.text for word in command.writes] == ["c", "d", "e", "/dev/null"]


@check_rows(
    "line, words, writes",
    [
        ("a 2>&- b >&- c <&-", ("a", "b", "c"), []),
        ("a >&-push", ("a", "push"), []),
        ("a >&--b", ("a", "-b"), []),
        ("a <&-'b' 2>&- -c", ("a", "b", "-c"), []),
        ("a >&\\\n-b", ("a", "b"), []),
        (">&-a b", ("a", "b"), []),
        ("a >&-#b", ("a",), []),
        ("a >&-2>b", ("a",), ["b"]),
        ("a 2>&1 >& 1- >&2\\\n", ("a",), []),
        ("a >&1b >&1-b >&b-c", ("a",), ["1b", "1-b", "b-c"]),
        ("a >&b >&'c d/e-1.txt'", ("a",), ["b", "c d/e-1.txt"]),
    ],
)
def test_a_descriptor_is_told_from_a_word_and_a_file(line, words, writes):
    (command,) = parse_line(line)
    assert command.texts == words
    assert [word.text for word in command.writes] == writes


def test_only_what_is_not_quoted_is_a_pattern():
    (command,) = parse_line("ls *.py '*' [ab]c [ \\? ['a'] '[a]'")
    assert [word.is_glob for word in command.words] == [False, True, False, True, False, False, True, False]


@check_rows("line",
    [
        "", " ", "# a", ";", "a (b)", "a {b..c}", "a {b},c}", "a {{b},c}", "f() { a; }", "f() (a)", "f () (a)", "{ a; }", "((1))", "( (a); b)", "a; > b",
        "$a", "a $b", 'a "$b"', "a `b`", 'a "`b`"', "a $(b)", "a <(b)", "a {b,c}", "a ~/b", "a b=~/c", "x=1 a", "x=1",
        "if a; then b; fi", "for a in b; do c; done", "[[ a ]]", "function f", "coproc a", "a 'b", 'a "b', "a \\",
        "a <<E\nb\nE", "a <<E\\\nF\n$(b)\nEF", "a <<'E'\nb", "a >", "a > *", "> a", "a 10>b", "a {}b", "l? a",
        "a\rb", "a\xa0b", "a\u200bb", "a\0b", "\ud800", "x" * 20_000, "! !", "a $'b'", "PATH=. ls", "a[0]=1 b",
        "a >&'$(b)'", "a >&'`b`'", "a >&\".g'i't\"", "a >&'b\\c'", "a >&'*'", "a >&'<(b)'", "a >&'~'", "a >&$'b'", "a >&'b\\\nc'", "a >&''",
        "a 1\\\n>b", "a b=\\\n~", "a \"$\\\n(b)\"", "a $\\\n'b'", "time", "a | \\time b", "time if a; then b; fi",
        "a {PATH}>/dev/null; b", "a {PATH}<<<b", "a {b} {PATH}>&1", "a {PA\\\nTH}\\\n>b",
    ])  # fmt: skip
def test_everything_else_is_refused(line):
    with pytest.raises(UnsafeToParse):
        parse_line(line)


@check_rows("line", ["a;;b", "| a; b", "a && b &&", "(a; b", "a; b)", "(a) b"])
def test_of_a_line_that_a_shell_refuses_the_commands_are_read(line):
    assert [each.texts for each in parse_line(line)] == [("a",), ("b",)]


def test_the_words_of_a_rule_are_split_as_a_shell_does_it():
    assert split_words("git 'a b'") == ("git", "a b")
    assert split_words("git $x") == ("git", "$x")
