"""How a block begins: each format's marker is known, whole and begun."""

import pytest

from src.parsing import ParsedCall
from src.parsing.formats.table import FORMATS, MORE_OPENERS
from src.parsing.stream import openers
from tests.parsing.laws import events_of

WRAPPERS = sorted({row.opener for row in FORMATS if row.opener[:1] == "<" and row.opener[-1] in ">"} | {*MORE_OPENERS})


@pytest.mark.parametrize("opener", WRAPPERS)
def test_a_wrapping_marker_is_known_in_any_case(opener):
    assert openers.OPENER_RUN.match(opener, 0)
    assert openers.OPENER_RUN.match(opener.upper(), 0)


@pytest.mark.parametrize("opener", WRAPPERS)
def test_a_call_behind_it_is_found_whole_and_piece_by_piece(opener):
    text = f'So: {opener} {{"name": "read", "arguments": {{"path": "a"}}}}'
    for cuts in ((), range(1, len(text))):
        found = [event for event in events_of(text, cuts) if isinstance(event, ParsedCall)]
        assert [event.call.name for event in found] == ["read"]


@pytest.mark.parametrize("opener", WRAPPERS)
def test_its_beginnings_are_known_as_such(opener):
    assert all(openers.OPENER.is_prefix(opener[:end], 0) for end in range(1, len(opener)))


@pytest.mark.parametrize(
    "text", ["<invoke name=", "<function=", "<function name=", '<tool_call name="', '<call tool="', "<invoke>"]
)
def test_an_element_that_names_the_tool_itself_is_begun_or_there(text):
    assert openers.LONE_ELEMENT.match(text, 0) or openers.LONE_ELEMENT.is_prefix(text, 0)


@pytest.mark.parametrize("text", ["<invoker name=", "<functional=", "<div name=", "<tool_call names="])
def test_another_element_is_neither(text):
    assert not openers.LONE_ELEMENT.match(text, 0)
    assert not openers.LONE_ELEMENT.is_prefix(text, 0)
