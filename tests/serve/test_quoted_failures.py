"""Every failure of a parser that the projects' issues quote, said by a server behind the gateway: each call lands."""

from __future__ import annotations

import json

import pytest

from tests.providers.test_parser_errors import QUOTED
from tests.thorough import sample, take_turns

from .test_gateway import find_arguments
from .test_rescue import CHAT, PATHS, TEXT_CALL, chunk, drive, end, fail, has_tools, is_error, read_events, write

THOUGHT = chunk({"role": "assistant", "reasoning_content": "Let me see."})


def make_error(message: str) -> dict[str, object]:
    return {"error": {"code": 500, "message": message, "type": "server_error"}}


PLACES = ["refused", "in the stream", "behind a thought"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("issue", "message", "when"), [(*row, when) for row, when in take_turns(sample(QUOTED, 2), PLACES)]
)
def test_it_lands_in_every_api(tmp_path, issue, message, when):
    failures = {
        "refused": (500, make_error(message)),
        "in the stream": [fail(make_error(message))],
        "behind a thought": [THOUGHT, fail(make_error(message))],
    }

    async def use(client, _):
        for path, body in PATHS:
            events = await read_events(client, path, body)
            assert not any(map(is_error, events)), issue
            assert json.loads("".join(map(find_arguments, events))) == {"path": "a.txt"}

    drive(tmp_path, lambda asked: failures[when] if has_tools(asked) else [*write(TEXT_CALL), *end()], use)


@pytest.mark.thorough
@pytest.mark.parametrize(("issue", "message"), sample(QUOTED, 5))
def test_it_lands_in_a_whole_answer(tmp_path, issue, message):
    text = {"choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT_CALL}, "finish_reason": "stop"}]}

    async def use(client, _):
        async with client.post(CHAT, json={**PATHS[0][1], "stream": False}) as reply:
            (choice,) = (await reply.json())["choices"]
        assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"path": "a.txt"}, issue

    drive(tmp_path, lambda asked: (500, make_error(message)) if has_tools(asked) else text, use)


@pytest.mark.thorough
@pytest.mark.parametrize(("issue", "message"), sample(QUOTED, 5, 2))
def test_it_is_told_behind_a_text_that_the_next_answer_does_not_begin_with(tmp_path, issue, message):
    answers = {True: [*write("It is do"), fail(make_error(message))], False: [*write("Well."), *end()]}

    async def use(client, _):
        events = await read_events(client, *PATHS[0])
        assert message[:200] in events[-1]["error"]["message"], issue

    drive(tmp_path, lambda asked: answers[has_tools(asked)], use)
