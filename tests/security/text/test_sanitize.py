"""Text from others cannot steer a terminal, whatever the chunks; readable text stays."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from src.security.text.sanitize import MAX_STRING_CHARS, ControlRemover, Sanitizer, reveal, sanitize
from tests.each import check_each, check_rows

FACTS = Path(__file__).resolve().parents[4] / "shared" / "facts" / "io_cases.json"
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
LEFT = {
    "cursor and screen": ("\x1b[2J\x1b[Hx", "x"),
    "colours": ("\x1b[31;1mred\x1b[0m", "red"),
    "question to the terminal": ("a\x1b[6nb\x1b[cc", "abc"),
    "private modes": ("\x1b[?1049hx\x1b[?25l", "x"),
    "title": ("\x1b]0;title\x07x", "x"),
    "title ended by ST": ("\x1b]0;title\x1b\\x", "x"),
    "clipboard": ("\x1b]52;c;cHduZWQ=\x07x", "x"),
    "hidden link": ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
    "device control": ("\x1bP$q...\x1b\\x", "x"),
    "application command": ("\x1b_Ga=T;AAAA\x1b\\x", "x"),
    "privacy message": ("\x1b^secret\x1b\\x", "x"),
    "start of string": ("\x1bXhidden\x1b\\x", "x"),
    "C1 control sequence": ("\x9b2Jx", "x"),
    "C1 string": ("\x9d52;c;AAAA\x9cx", "x"),
    "reset": ("\x1bcx", "x"),
    "character set": ("\x1b(0x", "x"),
    "keypad": ("\x1b=x\x1b>", "x"),
    "an escape in an escape": ("\x1b\x1b[2Jx", "x"),
    "a sequence cut by a string's end": ("\x1b]0;a\x1b[2Jx", "x"),
    "a string with a bell in a sequence": ("\x1b[2\x07x", "x"),
    "an unended title hides no line after it": ("\x1b]0;gone\nx", "\nx"),
    "an unended control sequence": ("\x1b[12\nx", "\nx"),
    "a lone escape at the end": ("x\x1b", "x"),
    "backspace": ("safe\b\b\b\bevil", "safeevil"),
    "return": ("safe\rrm -rf /", "safe\nrm -rf /"),
    "return and line feed are one line end": ("a\r\nb\r\n", "a\nb\n"),
    "every kind of line end": ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf"),
    "bell and null": ("a\x07\x00b", "ab"),
    "bidi": ("a\u202eb\u2066c\u200fd\u061ce", "abcde"),
    "zero width": ("a\u200bb\u2060c\ufeffd\u00ade", "abcde"),
    "tags": ("a\U000e0041\U000e0001b", "ab"),
    "lone surrogate": ("a\ud800b", "a\ufffdb"),
    "a joiner hidden in a word": ("pass\u200dword", "password"),
    "selectors in a row": ("a\ufe0f\ufe0fb", "ab"),
}
KEPT = [
    "Plain text,\ttabs\nand lines.\n",
    "日本語 café 🙂 Ελλάδα",
    "שלום عربي",
    "می\u200cخواهم",  # Persian needs its non-joiner
    "क्\u200dष",
    "❤\ufe0f",
    "e\u0301",
    "葛\U000e0100",
]


@check_rows("text, shown", LEFT.values())
def test_what_steers_a_terminal_is_left_out_and_the_rest_stays(text, shown):
    assert sanitize(text) == shown


@check_each(text=KEPT)
def test_what_can_be_read_is_untouched(text):
    assert sanitize(text) == text


@check_each(text=[*(text for text, _ in LEFT.values()), *KEPT])
def test_one_character_at_a_time_is_the_same(text):
    sanitizer = Sanitizer()
    assert "".join(map(sanitizer.feed, text)) == sanitize(text)


def test_an_unended_string_does_not_hide_the_text_for_ever():
    assert sanitize("\x1b]" + "x" * (MAX_STRING_CHARS + 10)) == "x" * 10


NASTY = st.sampled_from([*"\x1b[]P_^X\\\x07\x9b\x9d\x9c\r\n\b;0m 2Jx漢", "\u202e", "\u200d", "\ufe0f", "\ud800", "é"])
TEXT = st.lists(st.one_of(NASTY, st.characters()), max_size=60).map("".join)


@given(TEXT, st.lists(st.integers(0, 60), max_size=8))
def test_any_chunks_give_the_same(text, cuts):
    sanitizer = Sanitizer()
    edges = [0, *sorted(cuts), len(text)]
    assert "".join(sanitizer.feed(text[a:b]) for a, b in pairwise(edges)) == sanitize(text)


@given(TEXT)
def test_no_control_survives(text):
    assert not FORBIDDEN.search(sanitize(text))


@given(TEXT)
@example("\ud800\u200d")
def test_what_is_plain_stays_as_it_is(text):
    assert sanitize(sanitize(text)) == sanitize(text)


@given(TEXT)
def test_what_is_revealed_can_all_be_seen(text):
    assert not FORBIDDEN.search(reveal(text))
    assert all(each.isprintable() or each == "\n" for each in reveal(text))


@given(TEXT, TEXT)
def test_what_differs_is_revealed_differently(one, other):
    if one != other and reveal(one) == reveal(other):
        assert reveal(one) in (one, other)  # one of them is written as the other is shown


class TestWhatIsApproved:
    def test_a_payload_behind_thousands_of_blanks_is_beside_what_is_before_them(self):
        assert reveal("ls" + " " * 12_000 + "; rm x") == "ls\\x20{12000}; rm x"

    def test_a_payload_behind_empty_lines_is_beside_what_is_before_them(self):
        assert reveal("ls" + "\n" * 500 + "rm x") == "ls\\n{500}\nrm x"

    @check_rows("blank", [" ", "\t", "\xa0", "\u2003", "\u3000", "\u200b", "\u2800", "\ufeff", "\r", " \u200d "])
    def test_lines_of_blanks_of_any_kind_are_counted(self, blank):
        padding = f"\n{blank}" * 24 + "\n"
        assert reveal(f"ls{padding}  rm x") == f"ls\\s{{{len(padding)}}}\n  rm x"

    def test_many_blanks_of_any_kind_are_counted(self):
        assert reveal("ls" + "\u3000\t" * 300 + "; rm x") == "ls\\s{600}; rm x"

    def test_padding_is_counted_on_one_line_too(self):
        assert reveal("ls" + " \n" * 24 + "rm x", on_one_line=True) == "ls\\s{48}rm x"

    def test_an_indented_text_is_as_it_is(self):
        text = "def f():\n    return 1\n\n\n# end  \\x20{40}"
        assert reveal(text) == text


@pytest.mark.skipif(not FACTS.exists(), reason="the cases in ../shared are not part of this repository")
def test_the_given_cases():
    expected = {
        "stripped": lambda text: not FORBIDDEN.search(sanitize(text)),
        "text-only": lambda text: sanitize(text) == "click",
        "visible": lambda text: "\n" in sanitize(text) if "\r" in text else "\\u202e" in reveal(text),
    }
    cases = [case for case in json.loads(FACTS.read_text()) if case["kind"] == "terminal"]
    checked = [case for case in cases if case["expected"] in expected]
    assert len(checked) >= 6
    assert [case["class"] for case in checked if not expected[case["expected"]](case["input"])] == []


@given(st.text(st.sampled_from("ab\x1b[]P\x07\x9b\x9c0;m\r\n\u2028\x85\u200b\x00")), st.integers(0, 20))
def test_for_a_pipe_what_a_terminal_obeys_is_removed_and_the_rest_stays(text, cut):
    remover = ControlRemover()
    removed = remover.feed(text[:cut]) + remover.feed(text[cut:])
    assert removed == ControlRemover().feed(text)
    assert not set(removed) & set("\x00\x07\x1b\x9b\x9c\r")
    plain = text.translate(dict.fromkeys(map(ord, "\x00\x07\x1b\x9b\x9c\r")))
    assert ControlRemover().feed(plain) == plain


@check_rows(
    "text, shown",
    [
        ("a\x08b", "ab"),
        ("one\rtwo\r\nend", "one\ntwo\nend"),
        ("a\u202eb\u2066c", "abc"),
        ("a\u200db\u00ad\t", "a\u200db\u00ad\t"),
    ],
)
def test_for_a_pipe_no_text_overwrites_or_turns_other_text(text, shown):
    assert ControlRemover().feed(text) == shown


def test_what_is_revealed_on_one_line_has_one_line():
    assert reveal("read\nok\r\x08\\", on_one_line=True) == "read\\nok\\r\\x08\\\\"
