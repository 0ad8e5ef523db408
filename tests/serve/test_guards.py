"""What `serve.guards` changes in answers, for a client of the gateway."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from src.config.settings import DEFAULT_GUARDS
from src.serve.turn_options import TurnOptions
from tests.serve.test_gateway import STREAMED, drive, read_metrics, say

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
TOOL = {"type": "function", "function": {"name": "read", "description": "Read.", "parameters": PARAMETERS}}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]}
WRITTEN = '{"path":"a.txt","limit":"5"}'


def call_read(arguments: str | dict[str, str] = WRITTEN) -> dict[str, Any]:
    answer = say("")
    call = {"id": "n0", "type": "function", "function": {"name": "read", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
    return answer


def stream_read(pieces: list[str]) -> list[bytes]:
    begun = {"index": 0, "id": "n0", "type": "function", "function": {"name": "read", "arguments": ""}}
    calls = [begun, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    choices = [
        *({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None} for call in calls),
        {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
    ]
    chunks = [json.dumps({"id": "1", "created": 1, "model": "m", "choices": [choice]}) for choice in choices]
    return [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]


async def post(client: Any, body: dict[str, Any]) -> tuple[Any, str]:
    """The header that says what was done, and the answer."""
    async with client.post("/v1/chat/completions", json=body) as reply:
        return reply.headers["x-vllm-bot"], await reply.text()


def read_arguments(text: str) -> str:
    answers = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
    choices = [answer["choices"][0] for answer in answers]
    calls = [call for each in choices for call in each.get("delta", each.get("message")).get("tool_calls", ())]
    return "".join(call["function"].get("arguments", "") for call in calls)


@pytest.mark.parametrize(("path", "body"), STREAMED)
def test_arguments_that_a_server_sends_as_an_object_reach_the_client_of_a_whole_answer(tmp_path, path, body):
    answer = call_read({"path": "a.txt"})

    async def use(client, _):
        async with client.post(path, json={**body, "stream": False}) as reply:
            assert reply.status == 200
            assert "a.txt" in await reply.text()

    drive(tmp_path, lambda _: answer, use)


class TestFit:
    def test_an_argument_of_the_wrong_type_is_fitted_and_counted(self, tmp_path, caplog):
        async def use(client, _):
            done, text = await post(client, BODY)
            assert read_arguments(text) == '{"path":"a.txt","limit":5}'
            assert done == "path=native; repairs=fitted limit: string to integer; guards=fit:1"
            await post(client, BODY)
            assert 'vllm_bot_guards_total{guard="fit",model="m"} 2.0' in await read_metrics(client)

        with caplog.at_level(logging.WARNING):
            drive(tmp_path, lambda _: call_read(), use)
        assert [record.getMessage() for record in caplog.records] == [
            "serve.guards: fit changed an answer of m, for the first time; vllm_bot_guards_total counts on."
        ]

    def test_in_a_stream_too(self, tmp_path):
        events = stream_read(['{"path":', '"a.txt",', '"limit":"', "5", '"', "}"])

        async def use(client, _):
            _, text = await post(client, {**BODY, "stream": True})
            assert read_arguments(text) == '{"path":"a.txt","limit":5}'
            assert 'vllm_bot_guards_total{guard="fit",model="m"} 1.0' in await read_metrics(client)

        drive(tmp_path, lambda _: events, use)

    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_what_the_model_wrote_goes_back_to_the_server(self, tmp_path, is_streamed):
        async def use(client, fake):
            _, text = await post(client, {**BODY, "stream": is_streamed})
            function = {"name": "read", "arguments": json.dumps(json.loads(read_arguments(text)))}
            call = {"id": "n0", "type": "function", "function": function}
            answer = {"role": "assistant", "content": None, "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": "n0", "content": "It says hello."}
            await post(client, {**BODY, "messages": [*BODY["messages"], answer, result]})
            (sent,) = fake.bodies[-1]["messages"][1]["tool_calls"]
            assert sent["function"]["arguments"] == WRITTEN

        drive(tmp_path, lambda body: stream_read([WRITTEN]) if body.get("stream") else call_read(), use)

    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_is_switched_off_by_its_name(self, tmp_path, is_streamed):
        async def use(client, _):
            done, text = await post(client, {**BODY, "stream": is_streamed})
            assert read_arguments(text) == WRITTEN
            assert done == "path=native"

        drive(
            tmp_path,
            lambda _: stream_read([*WRITTEN]) if is_streamed else call_read(),
            use,
            options=TurnOptions(guards=()),
        )

    @pytest.mark.parametrize("arguments", ['{"path": "5", "limit": 5}', '{"path": "a", "limit": "many"}'])
    def test_an_answer_that_needs_nothing_or_has_no_reading_is_the_server_s(self, tmp_path, arguments):
        async def use(client, _):
            done, text = await post(client, BODY)
            assert json.loads(text) == call_read(arguments)
            assert done == "path=native"

        drive(tmp_path, lambda _: call_read(arguments), use)

    def test_the_old_form_of_a_call_is_fitted_as_well(self, tmp_path):
        answer = call_read()
        (call,) = answer["choices"][0]["message"].pop("tool_calls")
        answer["choices"][0]["message"]["function_call"] = call["function"]

        async def use(client, _):
            _, text = await post(client, BODY)
            message = json.loads(text)["choices"][0]["message"]
            assert json.loads(message["function_call"]["arguments"])["limit"] == 5

        drive(tmp_path, lambda _: answer, use)


CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
RESULT = {"role": "tool", "tool_call_id": "c", "content": "It says hello."}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "b"}'}}],
}
BEHIND_RESULT = {**BODY, "messages": [*BODY["messages"], CALLED, RESULT]}


def think(thought: str = "I should read it.") -> dict[str, Any]:
    answer = say("")
    answer["choices"][0]["message"] |= {"content": None, "reasoning": thought}
    return answer


def as_events(answer: dict[str, Any]) -> list[bytes]:
    """A whole answer as a stream of one delta."""
    (choice,) = answer["choices"]
    delta = {name: value for name, value in choice["message"].items() if value is not None}
    choices = [
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]},
    ]
    chunks = [json.dumps({"id": "1", "created": 1, "model": "m", "choices": [each]}) for each in choices]
    return [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]


class Stalls:
    """A server whose first answer stops halfway."""

    def __init__(self, first: Any, *others: Any) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._answers = [first, *others]

    def __call__(self, body: dict[str, Any]) -> Any:
        answer = self._answers[min(len(self.bodies), len(self._answers) - 1)]
        self.bodies.append(body)
        return as_events(answer) if body.get("stream") and isinstance(answer, dict) else answer


def read_text(text: str) -> str:
    answers = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
    parts = [each["choices"][0].get("delta", each["choices"][0].get("message")) for each in answers]
    return "".join(part.get("content") or "" for part in parts)


@pytest.mark.parametrize("is_streamed", [False, True])
class TestAStall:
    def answer(self, tmp_path, server, is_streamed, body=BODY, **options) -> tuple[str, str]:
        got: list[tuple[str, str]] = []

        async def use(client, _):
            got.append(await post(client, {**body, "stream": is_streamed}))
            got.append(("", "\n".join(await read_metrics(client))))

        drive(tmp_path, server, use, options=TurnOptions(**options))
        self.counts = got[1][1]
        return got[0]

    def test_an_answer_that_is_empty_after_thoughts_gets_one_more_turn(self, tmp_path, is_streamed):
        server = Stalls(think(), say(CALL))
        _, text = self.answer(tmp_path, server, is_streamed)
        assert json.loads(read_arguments(text)) == {"path": "a.txt"}
        assert "I should read it." in text
        assert '"finish_reason": "tool_calls"' in text or '"finish_reason":"tool_calls"' in text
        assert server.bodies[1]["messages"][1:] == [
            {"role": "assistant", "content": "", "reasoning": "I should read it."},
            {
                "role": "user",
                "content": "Your last turn was empty. Answer the question, or call a tool for what you still need to know.",
            },
        ]
        assert 'vllm_bot_guards_total{guard="empty",model="m"} 1.0' in self.counts

    def test_its_text_is_the_answer_s(self, tmp_path, is_streamed):
        _, text = self.answer(tmp_path, Stalls(think(), say("It says hello.")), is_streamed)
        assert read_text(text) == "It says hello."

    def test_one_that_stays_empty_is_the_server_s(self, tmp_path, is_streamed):
        server = Stalls(think())
        _, text = self.answer(tmp_path, server, is_streamed)
        assert read_text(text) == ""
        assert len(server.bodies) == 2

    def test_an_empty_one_is_left_alone_where_the_guard_is_off(self, tmp_path, is_streamed):
        server = Stalls(think(), say(CALL))
        self.answer(tmp_path, server, is_streamed, guards=("fit",))
        assert len(server.bodies) == 1

    @pytest.mark.parametrize("lead", ["", "Let me look.\n"])
    def test_a_tag_with_nothing_behind_it_gets_one_more_turn(self, tmp_path, is_streamed, lead):
        server = Stalls(say(f"{lead}<tool_call>\n"), say(CALL))
        _, text = self.answer(tmp_path, server, is_streamed)
        assert json.loads(read_arguments(text)) == {"path": "a.txt"}
        assert read_text(text).strip() == lead.strip()
        assert "The answer ended behind the tag that begins a call." in server.bodies[-1]["messages"][-1]["content"]

    def test_an_announcement_behind_a_result_gets_one_more_turn_if_that_is_on(self, tmp_path, is_streamed):
        server = Stalls(say("That is b. Now I will read a.txt."), say(CALL))
        _, text = self.answer(tmp_path, server, is_streamed, BEHIND_RESULT, guards=("announced",))
        assert json.loads(read_arguments(text)) == {"path": "a.txt"}
        assert read_text(text).strip() == "That is b. Now I will read a.txt."
        assert 'vllm_bot_guards_total{guard="announced",model="m"} 1.0' in self.counts

    def test_words_in_place_of_the_announced_call_are_dropped(self, tmp_path, is_streamed):
        _, text = self.answer(
            tmp_path, Stalls(say("Now I will read it."), say("Nothing is left.")), is_streamed, BEHIND_RESULT,
            guards=("announced",),
        )  # fmt: skip
        assert read_text(text) == "Now I will read it."

    @pytest.mark.parametrize("body", [BODY, BEHIND_RESULT])
    def test_an_announcement_is_left_alone_by_default(self, tmp_path, is_streamed, body):
        server = Stalls(say("Now I will read a.txt:"), say(CALL))
        self.answer(tmp_path, server, is_streamed, body)
        assert len(server.bodies) == 1


def call_tool(*names: str) -> dict[str, Any]:
    answer = call_read('{"path": "b.txt"}')
    message = answer["choices"][0]["message"]
    message["tool_calls"] = [
        {"index": place, **message["tool_calls"][0], "id": f"n{place}", "function": {"name": name, "arguments": "{}"}}
        for place, name in enumerate(names)
    ]
    return answer


@pytest.mark.parametrize("is_streamed", [False, True])
class TestAnUnknownTool:
    def answer(self, tmp_path, is_streamed, *answers, guards=("unknown",)) -> tuple[str, str, list[dict[str, Any]]]:
        got: list[tuple[str, str]] = []
        server = Stalls(*answers)

        async def use(client, _):
            got.append(await post(client, {**BODY, "stream": is_streamed}))

        drive(tmp_path, server, use, options=TurnOptions(guards=guards))
        return *got[0], server.bodies

    def test_gets_one_more_turn_behind_the_names_of_the_tools(self, tmp_path, is_streamed):
        _, text, bodies = self.answer(tmp_path, is_streamed, call_tool("look_at_file"), call_read('{"path": "a.txt"}'))
        assert json.loads(read_arguments(text)) == {"path": "a.txt"}
        assert "look_at_file" not in text
        call, result = bodies[1]["messages"][1:]
        assert call["tool_calls"][0]["function"]["name"] == "look_at_file"
        told = "There is no such tool, and nothing was run. The tools are: read."
        assert result == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": told}

    def test_stays_where_no_call_of_an_offered_tool_comes_instead(self, tmp_path, is_streamed):
        _, text, bodies = self.answer(tmp_path, is_streamed, call_tool("look_at_file"), say("I cannot."))
        assert "look_at_file" in text
        assert "I cannot." not in text
        assert len(bodies) == 2

    def test_is_left_alone_beside_a_call_of_an_offered_one(self, tmp_path, is_streamed):
        _, text, bodies = self.answer(tmp_path, is_streamed, call_tool("read", "look_at_file"))
        assert "look_at_file" in text
        assert len(bodies) == 1

    def test_is_left_alone_by_default(self, tmp_path, is_streamed):
        _, text, bodies = self.answer(tmp_path, is_streamed, call_tool("look_at_file"), guards=DEFAULT_GUARDS)
        assert "look_at_file" in text
        assert len(bodies) == 1


def test_a_native_call_that_the_model_broke_off_behind_its_name_is_asked_for_again(tmp_path):
    """vLLM's hermes parser streams its name, and no arguments."""
    written = 'Let me look.\n<tool_call>\n{"name": "read", "argu'
    call = {"index": 0, "id": "n0", "type": "function", "function": {"name": "read"}}
    choices = [
        {"index": 0, "delta": {"content": "Let me look.\n"}, "finish_reason": None, "token_ids": [1]},
        {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None, "token_ids": [2]},
        {"index": 0, "delta": {}, "finish_reason": "tool_calls", "token_ids": [3]},
    ]
    chunks = [json.dumps({"id": "1", "created": 1, "model": "m", "choices": [each]}) for each in choices]
    events = [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]

    async def use(client, fake):
        fake.written = written
        _, text = await post(client, {**BODY, "stream": True})
        assert json.loads(read_arguments(text)) == {"path": "a.txt"}
        assert read_text(text) == "Let me look.\n"

    drive(tmp_path, lambda body: events if body["stream"] else say(CALL), use)


SCHEMA = {
    "type": "object",
    "properties": {"lines": {"type": "integer"}},
    "required": ["lines"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}


@pytest.mark.parametrize("is_streamed", [False, True])
class TestAForm:
    def answer(self, tmp_path, is_streamed, *answers, form=FORM, **options) -> tuple[str, list[dict[str, Any]]]:
        got: list[str] = []
        bodies: list[dict[str, Any]] = []

        async def use(client, fake):
            async with client.post(
                "/v1/chat/completions", json={**BODY, "response_format": form, "stream": is_streamed}
            ) as reply:
                got.append(await reply.text())
            bodies.extend(fake.bodies)

        drive(tmp_path, Stalls(*answers), use, options=TurnOptions(**options))
        return got[0], bodies

    def test_beside_tools_lets_the_model_call_them(self, tmp_path, is_streamed):
        text, (body,) = self.answer(tmp_path, is_streamed, say(CALL))
        assert json.loads(read_arguments(text)) == {"path": "a.txt"}
        assert "response_format" not in body

    def test_is_what_an_answer_without_calls_is_asked_for_again_in(self, tmp_path, is_streamed):
        text, bodies = self.answer(tmp_path, is_streamed, say("It has five lines."), say('{"lines": 5}'))
        assert read_text(text) == '{"lines": 5}'
        assert (bodies[1]["response_format"], bodies[1]["tool_choice"]) == (FORM, "none")
        assert bodies[1]["messages"] == bodies[0]["messages"]

    def test_text_that_has_it_is_no_call(self, tmp_path, is_streamed):
        written = '{"name": "read", "arguments": {"path": "a.txt"}}'
        form = {
            "type": "json_schema",
            "json_schema": {"name": "step", "schema": {"type": "object", "required": ["name"]}},
        }
        text, bodies = self.answer(tmp_path, is_streamed, say(written), form=form)
        assert read_text(text) == written
        assert "tool_calls" not in text
        assert len(bodies) == 1

    def test_any_json_is_a_form_that_the_server_keeps(self, tmp_path, is_streamed):
        form = {"type": "json_object"}
        written = '{"name": "read", "parameters": {"path": "a.txt"}}'
        text, (body,) = self.answer(tmp_path, is_streamed, say(written), form=form)
        assert read_text(text) == written
        assert body["response_format"] == form

    def test_is_not_asked_for_where_the_answer_has_it(self, tmp_path, is_streamed):
        text, bodies = self.answer(tmp_path, is_streamed, say('{"lines": 5}'))
        assert read_text(text) == '{"lines": 5}'
        assert len(bodies) == 1

    @pytest.mark.parametrize("first", ['{"lines": "5"}', '{"lines": 5, "more": 1}', "[1]", "{}"])
    def test_is_asked_for_where_the_schema_refuses_the_answer(self, tmp_path, is_streamed, first):
        text, _ = self.answer(tmp_path, is_streamed, say(first), say('{"lines": 5}'))
        assert read_text(text) == '{"lines": 5}'

    def test_comes_behind_a_thought(self, tmp_path, is_streamed):
        text, bodies = self.answer(tmp_path, is_streamed, think(), say('{"lines": 5}'))
        assert (read_text(text), len(bodies)) == ('{"lines": 5}', 2)
        assert "I should read it." in text

    def test_that_the_server_refuses_leaves_the_answer_as_it_is(self, tmp_path, is_streamed):
        refusal = (400, {"error": {"message": "response_format is not supported"}})
        text, _ = self.answer(tmp_path, is_streamed, say("It has five lines."), refusal)
        assert read_text(text) == "It has five lines."

    def test_goes_to_the_server_where_the_guard_is_off(self, tmp_path, is_streamed):
        _, (body,) = self.answer(tmp_path, is_streamed, say("{}"), guards=("fit",))
        assert body["response_format"] == FORM
