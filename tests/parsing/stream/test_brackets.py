"""Where a block ends, whole and in pieces."""

import re

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.stream.brackets import BracketMatcher, UntilMarker
from tests.each import check_rows

ENDS = {
    "a prefix of strings before a backtick": ("{b`]", -1),
    "an object": ('{"a": 1} rest', 8),
    "braces in a string": ('{"a": "}{"}x', 11),
    "an escaped quote": ('{"a": "\\"}"}x', 12),
    "backslashes before a quote": ('{"a": "\\\\"}x', 11),
    "single quotes": ("{'a': '}'}x", 10),
    "an apostrophe in a bare word": ("{a: it's} x", 9),
    "python": ("(a='(', b=[1, (2)])x", 19),
    "triple quotes": ('{"a": """}"{"""}x', 16),
    "triple quotes behind a quote of the value": ('{"a": """say "b""""}x', 20),
    "gemma's quotes": ('{a:<|"|>}<|"|>}x', 15),
    "a closing marker before the last brace": ('{"a": {"b": 1}</tool_call>', 14),
    "a fence before the last brace": ('{"a": 1\n```', 8),
}


def find_end(text, cuts=()):
    """How far the block reached, fed in pieces; what is not passed is seen again."""
    follower, rest = BracketMatcher(), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        rest += text[start:end]
        at, ended = follower.feed(rest, 0)
        rest = rest[at:]
        if ended:
            return len("".join(follower.parts))
    return -1


@check_rows("text, end", ENDS.values())
def test_the_end_is_found_wherever_the_text_is_split(text, end):
    assert find_end(text) == end
    assert find_end(text, range(1, len(text))) == end
    assert {find_end(text, [cut]) for cut in range(len(text))} == {end}


@check_rows("count", range(12))
def test_a_run_of_quotes_is_the_same_wherever_it_is_split(count):
    text = '{"a": ' + '"' * count + "}x"
    assert {find_end(text, [cut]) for cut in range(len(text))} == {find_end(text)}


@given(st.text(alphabet="{}[]()\"'\\,: ab<|>`\n"), st.data())
def test_any_split_finds_the_same_end(body, data):
    text = "{" + body
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    assert find_end(text, cuts) == find_end(text)


def test_a_string_s_quote_is_told_so_that_the_rest_of_it_can_be_kept_unread():
    follower = BracketMatcher()
    follower.feed('{"a": "x', 0)
    assert follower.quote == '"'
    assert follower.feed("y" * 10 + '"}', 0) == (12, True)
    assert follower.size == 20


@check_rows("text", [text for text, end in ENDS.values() if end > 0])
def test_a_block_ends_at_a_character_that_may_end_it(text):
    before = text[: find_end(text)][:-1]
    assert any(BracketMatcher.may_end(piece) for piece in text[len(before) :][:2])


def test_closing_waits_for_its_marker_across_pieces():
    follower = UntilMarker(re.compile("</f>"), 8)
    assert follower.feed("text </", 0)[1] is False
    assert follower.feed("ext </f> rest", 0) == (8, True)
