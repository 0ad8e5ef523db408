"""What shows that an answer stopped halfway."""

from __future__ import annotations

from src.model.stalls import announces, find_stall
from src.types.messages import Reasoning, Response, Text, ToolCall
from tests.each import check_rows

THOUGHT = Reasoning("Hm.")


@check_rows(
    "content, stop_reason, stall",
    [
        ((THOUGHT,), "end_turn", "empty"),
        ((THOUGHT, Text(" \n")), "end_turn", "empty"),
        ((THOUGHT,), "max_tokens", ""),
        ((), "end_turn", ""),
        ((THOUGHT, Text("Done.")), "end_turn", ""),
        ((THOUGHT, ToolCall("c", "read", {})), "tool_use", ""),
        ((Text("Now I will read it."),), "end_turn", "announced"),
        ((Text("Now I will read it."), ToolCall("c", "read", {})), "tool_use", ""),
    ],
)
def test_behind_results(content, stop_reason, stall):
    assert find_stall(Response(content, stop_reason), is_behind_results=True) == stall


def test_an_announcement_counts_behind_results_only():
    assert find_stall(Response((Text("Let me look."),)), is_behind_results=False) == ""


@check_rows(
    "text",
    ["Let me read the file.", "It is empty.\nOkay, now I'll look:", "That failed. I’m going to try b", "The files:"],
)
def test_an_announcement(text):
    assert announces(text)


@check_rows(
    "text",
    [
        "It says hello.",
        "Done. Let me know if you need more.",
        "I'll be glad to help.",
        "Shall I go on? I will wait for your answer, or do you want it now?",
        "I will not read it. The file is secret.",
        "The list: a, b",
    ],
)
def test_no_announcement(text):
    assert not announces(text)
