"""Answers in the shapes that the providers document, as data: tests/cases/providers/answers holds a file of bytes
and what it means for each. What an answer became is also sent back, as the next turn does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from src import errors
from src.providers.base import ChatRequest
from src.providers.server_errors import read_refusal
from src.types.events import ReasoningDelta, TextDelta, ToolCallDelta
from src.types.messages import MalformedCall, Reasoning, Response, Text, ToolCall, Usage, UserMessage
from tests.each import check_each, check_rows

from .doubles import codec, decoded

CASES = Path(__file__).resolve().parents[1] / "cases" / "providers"
ANSWERS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("answers/*.json"))}
WHOLE = [name for name, case in ANSWERS.items() if "response" in case]
BROKEN = [name for name, case in ANSWERS.items() if "error" in case]

EVENTS = {"text": TextDelta, "reasoning": ReasoningDelta, "call": ToolCallDelta}
BLOCKS = {
    "text": Text,
    "reasoning": Reasoning,
    "call": lambda id, name, arguments, metadata: ToolCall(id, name, arguments, metadata=metadata),
    "malformed": MalformedCall,
}


def answer(case: dict[str, Any]) -> bytes:
    return (CASES / "answers" / case["answer"]).read_bytes()


def response(case: dict[str, Any]) -> Response:
    said = case["response"]
    content = tuple(BLOCKS[kind](*fields) for kind, *fields in said["content"])
    usage = Usage(*said["usage"]) if said["usage"] else None
    return Response(content, said["stop_reason"], usage, said["model"], said.get("provider_stop_reason", ""))


def chunked(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@check_each(name=WHOLE, size=[1, 7, 64, 1 << 20])
def test_an_answer_gives_its_events_and_its_response_however_it_is_cut_into_chunks(name, size):
    case = ANSWERS[name]
    events, got = decoded(codec(case["provider"]), chunked(answer(case), size), case["content_type"])
    assert events == [EVENTS[kind](*fields) for kind, *fields in case["events"]]
    assert got == response(case)


@check_each(name=WHOLE)
def test_an_answer_goes_back_as_the_provider_wants_it(name):
    case = ANSWERS[name]
    _, got = decoded(codec(case["provider"]), [answer(case)], case["content_type"])
    sent = codec(case["provider"]).encode(ChatRequest("any", [UserMessage("Go on."), got]))
    turns = json.loads(sent.body)
    assert (turns.get("messages") or turns["contents"])[1:] == case["sent_back"]


@check_rows("name", BROKEN)
def test_an_answer_that_breaks_off_is_an_error_and_nothing_of_it_a_response(name):
    case = ANSWERS[name]
    kind, says = case["error"]
    with pytest.raises(errors.BotError, match=says) as caught:
        decoded(codec(case["provider"]), [answer(case)], case["content_type"])
    assert type(caught.value) is getattr(errors, kind)


@check_rows("case", json.loads((CASES / "refusals.json").read_text(encoding="utf-8")))
def test_a_refusal_is_told_by_its_status_and_its_words(case):
    refused = read_refusal(case["status"], json.dumps(case["body"]).encode())
    assert type(refused) is getattr(errors, case["kind"])
    assert case["says"] in refused.message
