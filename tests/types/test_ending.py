"""How an answer ended is decided once, and each front end says it in its own words."""

import pytest

pytest.importorskip("acp", reason="the SDK of editors is not installed: pip install agent-client-protocol")

from src.acp.editor_session import find_stop_reason
from src.app.library.result import RunRecord
from src.batch.task_run import STATUSES
from src.cli.oneshot.run_report import RunReport
from src.types.ending import describe_ending, find_ending
from src.types.events import Completed, LimitHit
from src.types.messages import MalformedCall, Reasoning, Response, Text, ToolCall
from tests.each import check_rows

TEXT, THOUGHT = Text("Half"), Reasoning("Hm.")
BAD, LOOK = MalformedCall("1", "look", "{", "cut"), ToolCall("1", "look", {})
# The last response, then how it ended, the exit code, the editor's word and the batch's.
ENDINGS = {
    "an answer": (Response((THOUGHT, TEXT)), "end_turn", 0, "end_turn", "answered"),
    "a filtered answer": (
        Response((TEXT,), "other", provider_stop_reason="content_filter"), "other", 1, "refusal", "error",
    ),
    "one that the server gave up": (Response((TEXT,), "other"), "other", 1, "max_tokens", "error"),
    "one cut at its tokens": (Response((TEXT,), "max_tokens"), "max_tokens", 3, "max_tokens", "limit"),
    "one that repeats itself": (Response((TEXT,), "repetition"), "repetition", 3, "max_tokens", "limit"),
    "calls that cannot be run": (Response((TEXT, BAD)), "stuck", 1, "max_turn_requests", "no_answer"),
    "calls and no answer": (Response((TEXT, LOOK), "tool_use"), "stuck", 1, "max_turn_requests", "no_answer"),
    "a thought alone": (Response((THOUGHT,)), "no_answer", 1, "end_turn", "no_answer"),
    "nothing": (Response((Text(" \n"),)), "no_answer", 1, "end_turn", "no_answer"),
    "the empty word of a tool": (Response((Text(""),)), "end_turn", 0, "end_turn", "answered"),
}  # fmt: skip


@check_rows("response, ending, exit_code, editor, status", ENDINGS.values())
def test_the_front_ends_agree_on_how_an_answer_ended(response, ending, exit_code, editor, status):
    report, record = RunReport(), RunRecord()
    report.take(Completed(response))
    record.add(Completed(response))
    assert find_ending(response) == ending
    assert report.compute_exit_code() == exit_code
    assert record.make_result().stop_reason == ending
    assert find_stop_reason(response, has_hit_limit=False) == editor
    expected = "answered"
    if ending != "end_turn":
        expected = STATUSES.get(ending, "limit")
    assert expected == status


def test_a_limit_of_turns_counts_more_than_how_the_last_answer_ended():
    report, record, last = RunReport(), RunRecord(), Response((TEXT,), "max_tokens")
    for event in (LimitHit("agent.max_tool_turns"), Completed(last)):
        report.take(event)
        record.add(event)
    assert (report.limit, report.compute_exit_code()) == ("agent.max_tool_turns", 3)
    assert record.make_result().stop_reason == "max_tool_turns"
    assert find_stop_reason(last, has_hit_limit=True) == "max_turn_requests"


def test_a_turn_that_was_cut_is_forgotten_when_the_next_one_is_whole():
    report = RunReport()
    for response in (Response((TEXT,), "max_tokens"), Response((TEXT,))):
        report.take(Completed(response))
    assert (report.limit, report.compute_exit_code()) == (None, 0)


@pytest.mark.parametrize(("word", "reason"), [("abort", "abort"), ("", "it gave no reason")])
def test_an_answer_that_the_server_stopped_is_described_with_its_reason(word, reason):
    assert describe_ending("other", word) == f"The server stopped the answer: {reason}."
