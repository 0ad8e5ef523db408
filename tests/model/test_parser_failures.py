"""A chat's turns on whose answers the server's parser fails."""

from __future__ import annotations

import json

import pytest

from src.errors import ParserFailed
from src.negotiation.call_path import ASKED_IN_TEXT
from src.negotiation.parser_record import MAX_FAILURES
from src.types.events import ReasoningDelta
from src.types.messages import UserMessage
from tests.model.test_model import CALL_TEXT, HELLO, NATIVE_CALL, READ, Served

MESSAGE = "Failed to parse input at pos 0: <tool_call>\n<function=read>"
REFUSED = (500, {"error": {"message": MESSAGE, "code": 500}})
BROKEN = b'data: {"error": {"message": "%s", "code": 500}}\n\n' % MESSAGE.replace("\n", " ").encode()
THOUGHT = b'data: {"choices": [{"index": 0, "delta": {"reasoning_content": "Let me see."}}]}\n\n'
TEXT = b'data: {"choices": [{"index": 0, "delta": {"content": "It is."}}]}\n\n'
HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
IN_TEXT = [{"content": CALL_TEXT}, {"finish": "stop"}]


@pytest.mark.parametrize("failure", [REFUSED, BROKEN, THOUGHT + BROKEN])
def test_the_turn_is_asked_once_more_in_text_and_the_next_one_natively(failure):
    served = Served(failure, IN_TEXT, NATIVE_CALL)
    assert [call.arguments for call in served.ask().calls] == [{"path": "a.txt"}]
    assert "tools" not in served.sent
    assert ASKED_IN_TEXT in served.notices
    assert served.client.slept == []
    assert served.model.path.mode == "native"
    served.ask()
    assert "tools" in served.sent


def test_thoughts_before_the_failure_are_shown():
    served = Served(THOUGHT + BROKEN, IN_TEXT)
    served.ask()
    assert [event.text for event in served.events if isinstance(event, ReasoningDelta)] == ["Let me see."]


def test_a_text_that_was_shown_is_not_asked_for_again():
    served = Served(TEXT + BROKEN, IN_TEXT)
    with pytest.raises(ParserFailed) as raised:
        served.ask()
    assert raised.value.was_shown
    assert len(served.client.requests) == 1


def test_a_turn_that_fails_in_text_as_well_ends_in_the_error():
    served = Served(REFUSED, REFUSED)
    with pytest.raises(ParserFailed):
        served.ask()
    assert len(served.client.requests) == 2


def test_a_required_call_is_not_asked_in_text():
    served = Served(REFUSED, REFUSED, REFUSED)
    with pytest.raises(ParserFailed):
        list(served.model.respond([UserMessage("go")], [READ], "required"))
    assert all("tools" in sent for sent in served.client.requests if "max_tokens" not in sent)


def test_the_setting_turns_it_off():
    served = Served(REFUSED, HELLO, recovers_parser_errors=False)
    served.ask()
    assert "tools" in served.sent  # retried, as any status 500


def test_after_three_failures_turns_are_asked_in_text_at_once():
    served = Served(*[REFUSED, IN_TEXT] * MAX_FAILURES, IN_TEXT)
    for _ in range(MAX_FAILURES + 1):
        served.ask()
    assert ["tools" in sent for sent in served.client.requests] == [True, False] * MAX_FAILURES + [False]
    assert served.notices == []


def test_turns_that_need_no_tools_fail_as_before():
    served = Served(REFUSED, HELLO)
    served.ask(tools=())
    assert ASKED_IN_TEXT not in served.notices


def test_llama_cpp_is_asked_for_the_text_behind_its_own_prompt():
    asked = []
    text = {"choices": [{"index": 0, "text": HERMES, "finish_reason": "stop"}], "object": "text_completion"}
    served = Served(REFUSED, completions=lambda body: asked.append(body) or text)
    served.client.aside["apply-template"] = lambda body: {"prompt": f"<|im_start|>{json.dumps(body.get('tools'))}"}
    (call,) = served.ask().calls
    assert (call.arguments, call.origin) == ({"path": "a.txt"}, "hermes")
    assert asked[-1]["prompt"].startswith('<|im_start|>[{"type": "function"')
    assert "messages" not in asked[-1]
    assert served.model.path.mode == "native"
