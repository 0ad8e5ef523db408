"""Keys typed while the model works."""

import pytest

from src.cli.chat.input.keys import TypedInput


def typed(*chunks):
    line = TypedInput()
    for chunk in chunks:
        line.feed(chunk)
    return line


@pytest.mark.parametrize(
    ("keys", "text", "queue"),
    [
        ("abc", "abc", []),
        ("abc\r", "", ["abc"]),
        ("a\rb\rc", "c", ["a", "b"]),
        ("  \r", "  ", []),
        ("ab\x7f", "a", []),
        ("e\u0301\x7fx", "x", []),
        ("日本\x7f", "日", []),
        ("one two \x17", "one ", []),
        ("one two\x15", "", []),
        ("a\nb", "a\nb", []),
        ("a\x1b\rb\r", "", ["a\nb"]),
        ("a\\\rb\r", "", ["a\nb"]),
        ('"""\ra\rb"""\r', "", ['"""\na\nb"""']),
        ("a\r\x1b[A", "a", []),
        ("a\rb\x1b[A", "b", ["a"]),
        ("\x04", "", ["/exit"]),
        ("x\x04", "x", []),
        ("\x1b[200~a\r\nb\rc\x1b[201~", "a\nb\nc", []),
        ("\x1b[200~a\x1b[31mb\x1b[201~\r", "", ["a\x1b[31mb"]),
        ("\x1b[12;40Ra\x1b[1;5Cb\x1bOPc\x1b[15~d", "abcd", []),
        ("a\x00\x02b", "ab", []),
    ],
)
def test_what_keys_do(keys, text, queue):
    line = typed(keys)
    assert (line.text, line.queue) == (text, queue)
    one_by_one = typed(*keys)
    assert (one_by_one.text, one_by_one.queue) == (text, queue)


def test_a_lone_escape_is_a_wish_to_stop_and_the_start_of_a_sequence_is_not():
    line = typed("\x1b")
    line.end_escape()
    line.end_escape()
    assert line.actions == ["stop"]
    line = typed("\x1b[")
    line.end_escape()
    assert line.actions == []


def test_other_wishes():
    assert typed("\x0f\x0c").actions == ["expand", "redraw"]


def test_all_is_taken_back_in_order():
    line = typed("one\rtwo\rthr")
    assert line.take_unsent() == "one\ntwo\nthr"
    assert (line.text, line.queue) == ("", [])


def test_shift_tab_is_an_action_and_no_text():
    typed = TypedInput()
    typed.feed("a\x1b[Zb")
    assert (typed.text, typed.actions) == ("ab", ["mode"])
