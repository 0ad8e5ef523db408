"""Reasoning in the text: neither shown nor searched, unless nothing follows it."""

import pytest

from src.parsing import ParsedCall, extract_tool_calls
from src.parsing.formats.table import REASONING
from src.types.events import ReasoningDelta
from tests.parsing.laws import TOOLS, events_of, join_text

CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'


def list_calls(events):
    return [event.call for event in events if isinstance(event, ParsedCall)]


class TestReasoning:
    def test_reasoning_is_neither_shown_nor_searched(self):
        events = events_of(f"<think>I could {CALL}</think>Hello.")
        assert (list_calls(events), join_text(events)) == ([], "Hello.")
        assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == f"I could {CALL}"

    @pytest.mark.parametrize(
        "text", [f"<think>So:\n{CALL}</think>\n", f"<think>So:\n{CALL}", f"So:\n{CALL}\n</think>\n"]
    )
    def test_a_call_at_the_end_of_reasoning_counts_where_nothing_was_answered(self, text):
        found = extract_tool_calls(text, TOOLS)
        assert [call.name for call in found.calls] == ["read"]
        assert found.content.strip() == ""

    def test_a_call_in_the_middle_of_reasoning_does_not(self):
        assert not extract_tool_calls(f"<think>{CALL}\nNo, not that.</think>", TOOLS).calls

    def test_a_closing_marker_alone_makes_all_before_it_reasoning(self):
        found = extract_tool_calls(f"Let me {CALL} or not.</think>Hello.", TOOLS)
        assert (found.content, found.calls) == ("Hello.", ())

    @pytest.mark.parametrize(("opener", "closer"), REASONING)
    def test_every_kind_of_marker_is_cut(self, opener, closer):
        events = events_of(f"{opener}Let me see.{closer}Hello.", range(1, 60))
        assert join_text(events) == "Hello."

    def test_a_marker_in_the_middle_of_a_line_is_text(self):
        assert join_text(events_of("The tag <think> opens a thought.")) == "The tag <think> opens a thought."
