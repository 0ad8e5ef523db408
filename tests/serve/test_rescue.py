"""Answers that the server's parser made an error of, and streams that broke off, as a client of the gateway gets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from src.app.state_files import ServerMemory
from src.negotiation.parser_record import LAST_TURNS, MAX_FAILURES, TEXT_S, ParserRecord
from src.serve.gateway import Gateway
from src.serve.pages.metrics import Metrics
from src.serve.turn_options import TurnOptions
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from tests.waiting import PATIENCE_S

from .test_gateway import BODY, STREAMED, find_arguments, say

PARSE_ERROR = {"error": {"code": 500, "message": "Failed to parse input at pos 0: <tool_call>", "type": "server_error"}}
ENGINE_ERROR = {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}}
TEXT_CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
PATHS = [(path, {**body, "stream": True}) for path, body in STREAMED]
CHAT = "/v1/chat/completions"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def write(text: str) -> list[bytes]:
    """The pieces of a text, of four characters each."""
    return [chunk({"content": text[start : start + 4]}) for start in range(0, len(text), 4)]


def usage(prompt: int, completion: int) -> bytes:
    counted = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return b"data: " + json.dumps({"id": "1", "model": "m", "choices": [], "usage": counted}).encode() + b"\n\n"


def end(reason: str = "stop") -> list[bytes]:
    return [chunk({}, reason), b"data: [DONE]\n\n"]


def fail(error: dict[str, Any] = PARSE_ERROR) -> bytes:
    return b"data: " + json.dumps(error).encode() + b"\n\n"


def has_tools(body: dict[str, Any]) -> bool:
    return bool(body.get("tools"))


class Server:
    """Answers with what `answer` makes of a body: JSON, (status, JSON), or the events of a stream.

    `prompt`: what /apply-template says, behind the tools; "": there is no such thing. `shows_tools`: whether the template
    does. `parameters`: of the model, as llama.cpp tells.
    """

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], Any],
        version: str,
        prompt: str,
        parameters: int | None,
        *,
        shows_tools: bool,
    ) -> None:
        self._shows_tools = shows_tools
        self._parameters = parameters
        self.rendered: list[dict[str, Any]] = []
        self.prompt = prompt
        self.bodies: list[dict[str, Any]] = []
        self._answer = answer
        self._version = version

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post(CHAT, self.complete)
        app.router.add_post("/v1/completions", self.complete)
        app.router.add_post("/apply-template", self.render)
        app.router.add_get("/v1/models", self.list_models)
        app.router.add_get("/version", self.tell_version)
        return app

    async def render(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.rendered.append(asked)
        if not self.prompt:
            return web.Response(status=404)
        tools = json.dumps(asked["tools"]) if self._shows_tools and has_tools(asked) else ""
        return web.json_response({"prompt": tools + self.prompt})

    async def tell_version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self._version}) if self._version else web.Response(status=404)

    async def list_models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "meta": {"n_params": self._parameters}}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        made = self._answer(self.bodies[-1])
        if asyncio.iscoroutine(made):
            await made
        if not isinstance(made, list):
            status, value = made if isinstance(made, tuple) else (200, made)
            return web.json_response(value, status=status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in made:
            await response.write(event)
            await asyncio.sleep(0)
        return response


def drive(
    folder: Path,
    answer: Callable[[dict[str, Any]], Any],
    use: Callable[[TestClient[Any, Any], Server], Awaitable[None]],
    *,
    version: str = "",
    recovers: bool = True,
    prompt: str = "",
    parameters: int | None = None,
    shows_tools: bool = True,
) -> None:
    """Run `use` with a client of the gateway in front of a Server. `version`: of vLLM; "": it is another server."""

    async def run() -> None:
        fake = Server(answer, version, prompt, parameters, shows_tools=shows_tools)
        async with TestServer(fake.make_app(), handler_cancellation=True) as server:
            client = AsyncClient(str(server.make_url("/v1")))
            replica = Replica(client, ServerMemory(folder))
            options = TurnOptions(recovers_parser_errors=recovers)
            own = Gateway(Upstreams([replica]), Metrics(folder), options=options).make_app()
            async with TestClient(TestServer(own, handler_cancellation=True)) as client:
                await use(client, fake)

    asyncio.run(run())


async def read_events(client: TestClient[Any, Any], path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with client.post(path, json=body) as reply:
        lines = (await reply.text()).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


async def read_text(client: TestClient[Any, Any], body: dict[str, Any] = BODY) -> tuple[str, list[dict[str, Any]]]:
    """The text of a streamed chat completion, and its events."""
    events = await read_events(client, CHAT, {**body, "stream": True})
    choices = [choice for event in events for choice in event.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices), events


def is_error(event: dict[str, Any]) -> bool:
    return "error" in event or event.get("type") in ("error", "response.failed")


@pytest.mark.parametrize("when", ["refused", "first event", "unfinished"])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_an_answer_that_the_parser_refuses_lands_from_the_text(tmp_path, path, body, when):
    broken = {
        "refused": (500, PARSE_ERROR),
        "first event": [chunk({"role": "assistant", "content": ""}), fail()],
        "unfinished": [chunk({"role": "assistant", "content": ""})],
    }

    async def use(client, server):
        events = await read_events(client, path, body)
        assert not any(map(is_error, events))
        assert json.loads("".join(map(find_arguments, events))) == {"path": "a.txt"}
        assert list(map(has_tools, server.bodies)) == [True, False]

    drive(tmp_path, lambda asked: broken[when] if has_tools(asked) else [*write(TEXT_CALL), *end()], use)


@pytest.mark.parametrize("form", [(500, PARSE_ERROR), PARSE_ERROR])
def test_a_whole_answer_that_the_parser_refuses_lands_from_the_text(tmp_path, form):
    async def use(client, _):
        async with client.post(CHAT, json=BODY) as reply:
            answer = await reply.json()
            assert reply.headers["x-vllm-bot"].startswith("path=text")
            assert "rescued=parser" in reply.headers["x-vllm-bot"]
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"path": "a.txt"}

    drive(tmp_path, lambda asked: form if has_tools(asked) else say(TEXT_CALL), use)


@pytest.mark.parametrize(
    "change",
    [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "read"}}},
        {"n": 2},
        {"tools": [{"type": "function", "function": {**BODY["tools"][0]["function"], "strict": True}}]},
    ],
)
def test_what_the_text_cannot_hold_is_not_asked_in_text(tmp_path, change):
    async def use(client, server):
        async with client.post(CHAT, json={**BODY, **change}) as reply:
            assert (reply.status, await reply.json()) == (500, PARSE_ERROR)
        assert all(map(has_tools, server.bodies))

    drive(tmp_path, lambda _: (500, PARSE_ERROR), use)


def test_the_setting_turns_it_off(tmp_path):
    async def use(client, server):
        async with client.post(CHAT, json=BODY) as reply:
            assert (reply.status, await reply.json()) == (500, PARSE_ERROR)
        assert len(server.bodies) == 1

    drive(tmp_path, lambda _: (500, PARSE_ERROR), use, recovers=False)


def test_a_turn_is_asked_again_once(tmp_path):
    async def use(client, server):
        async with client.post(CHAT, json=BODY) as reply:
            assert (reply.status, await reply.json()) == (500, PARSE_ERROR)
        assert list(map(has_tools, server.bodies)) == [True, False]

    drive(tmp_path, lambda _: (500, PARSE_ERROR), use)


def test_the_next_turn_is_native_until_three_of_twenty_have_failed(tmp_path):
    async def use(client, server):
        for _ in range(MAX_FAILURES + 2):
            await client.post(CHAT, json=BODY)
        natives = [has_tools(body) for body in server.bodies]
        assert natives == [True, False] * MAX_FAILURES + [False, False]

    drive(tmp_path, lambda asked: (500, PARSE_ERROR) if has_tools(asked) else say("Well."), use)


def test_failures_that_are_far_apart_move_no_model():
    record = ParserRecord()
    for number in range(200):
        record = record.add(failed=number % LAST_TURNS < MAX_FAILURES - 1 and number % 2 == 0, now=0.0)
        assert not record.prefers_text(0.0)


def test_native_calls_are_tried_again_after_a_day():
    record = ParserRecord()
    for _ in range(MAX_FAILURES):
        record = record.add(failed=True, now=5.0)
    assert record.prefers_text(5.0 + TEXT_S - 1)
    assert not record.prefers_text(5.0 + TEXT_S)
    assert not record.add(failed=True, now=6.0 + TEXT_S).prefers_text(6.0 + TEXT_S)


def test_vllm_goes_on_with_the_text_that_has_left(tmp_path):
    def answer(asked):
        if asked.get("continue_final_message"):
            assert asked["messages"][-1] == {"role": "assistant", "content": "It is do"}
            return [
                chunk({"role": "assistant", "content": ""}),
                *write("ne. " + TEXT_CALL),
                end()[0],
                usage(9, 4),
                end()[1],
            ]
        return [*write("It is do"), chunk({}, usage={"prompt_tokens": 7, "completion_tokens": 2}), fail(ENGINE_ERROR)]

    async def use(client, _):
        text, events = await read_text(client)
        assert text == "It is done. "
        assert json.loads("".join(map(find_arguments, events))) == {"path": "a.txt"}
        assert events[-1]["usage"]["total_tokens"] == 13
        assert (events[-1]["usage"]["prompt_tokens"], events[-1]["usage"]["completion_tokens"]) == (16, 6)

    drive(tmp_path, answer, use, version="0.32.0")


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_stream_that_is_gone_on_with_has_no_error_in_any_api(tmp_path, path, body):
    answers = iter([[*write("It is do"), fail()], [*write("It is done."), *end()]])

    async def use(client, server):
        events = await read_events(client, path, body)
        assert not any(map(is_error, events))
        assert "ne." in json.dumps(events[-4:])
        assert len(server.bodies) == 2

    drive(tmp_path, lambda _: next(answers), use)


def test_a_new_answer_that_begins_with_what_has_left_is_gone_on_with(tmp_path):
    answers = iter([[*write("It is do"), fail()], [*write("It is done."), *end()]])

    async def use(client, _):
        text, events = await read_text(client)
        assert text == "It is done."
        assert events[-1]["choices"][0]["finish_reason"] == "stop"

    drive(tmp_path, lambda _: next(answers), use)


def test_a_new_answer_that_begins_otherwise_ends_in_the_first_error(tmp_path):
    answers = iter([[*write("It is do"), fail()], [*write("Well, it is."), *end()]])

    async def use(client, _):
        text, events = await read_text(client)
        assert text == "It is do"
        assert "Failed to parse" in events[-1]["error"]["message"]

    drive(tmp_path, lambda _: next(answers), use)


def test_what_was_held_is_written_anew(tmp_path):
    first = [*write('Now. <tool_call>\n{"name": "re'), fail()]

    def answer(asked):
        return [*write("Now. " + TEXT_CALL), *end()] if not has_tools(asked) else first

    async def use(client, _):
        text, events = await read_text(client)
        assert text.strip() == "Now."
        assert json.loads("".join(map(find_arguments, events))) == {"path": "a.txt"}

    drive(tmp_path, answer, use)


def test_a_call_of_which_a_part_has_left_is_never_completed(tmp_path):
    function = {"name": "read", "arguments": '{"path": "a.t'}
    piece = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}

    async def use(client, server):
        _, events = await read_text(client)
        assert "error" in events[-1]
        assert len(server.bodies) == 1

    drive(tmp_path, lambda _: [chunk(piece), fail()], use)


def test_an_error_of_the_request_inside_the_stream_is_not_asked_again(tmp_path):
    async def use(client, server):
        _, events = await read_text(client)
        assert "error" in events[-1]
        assert len(server.bodies) == 1

    bad = {"error": {"message": "top_logprobs is too large", "code": 400}}
    drive(tmp_path, lambda _: [*write("It is "), fail(bad)], use)


def test_rescues_are_counted(tmp_path):
    async def use(client, _):
        async with client.post(CHAT, json=BODY) as reply:
            await reply.read()
        async with client.get("/metrics") as reply:
            assert 'vllm_bot_rescues_total{model="m",why="parser"} 1.0' in await reply.text()

    drive(tmp_path, lambda asked: (500, PARSE_ERROR) if has_tools(asked) else say(TEXT_CALL), use)


def test_a_client_that_goes_ends_the_second_request(tmp_path):
    gone, asked_again = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        asked_again.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async def use(client, _):
        asking = asyncio.create_task(read_text(client))
        await asyncio.wait_for(asked_again.wait(), PATIENCE_S)
        asking.cancel()
        await asyncio.wait_for(gone.wait(), PATIENCE_S)

    drive(tmp_path, lambda asked: (500, PARSE_ERROR) if has_tools(asked) else hang(), use)


PROMPT = "<|im_start|>user\nRead it.<|im_end|>\n<|im_start|>assistant\n"
HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'


def complete(text: str) -> list[bytes]:
    """The events of a text completion, as llama.cpp's server sends them."""
    pieces = [{"text": text[start : start + 5], "finish_reason": None} for start in range(0, len(text), 5)]
    choices = [*pieces, {"text": "", "finish_reason": "stop"}]
    chunks = [{"choices": [{"index": 0, "logprobs": None, **each}], "object": "text_completion"} for each in choices]
    return [*(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks), b"data: [DONE]\n\n"]


@pytest.mark.parametrize("failure", [(500, PARSE_ERROR), [chunk({"role": "assistant", "content": ""}), fail()]])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_llama_cpp_is_asked_for_the_text_behind_its_own_prompt(tmp_path, path, body, failure):
    async def use(client, server):
        events = await read_events(client, path, {**body, "temperature": 0.25})
        assert not any(map(is_error, events))
        assert json.loads("".join(map(find_arguments, events))) == {"path": "a.txt"}
        raw = server.bodies[1]
        assert raw["prompt"].endswith(PROMPT)
        assert raw["temperature"] == 0.25
        assert "<tool_call>" in raw["preserved_tokens"]
        assert not {"messages", "tools", "tool_choice"} & raw.keys()
        assert server.rendered[0]["tools"]

    drive(tmp_path, lambda asked: complete("Now. " + HERMES) if "prompt" in asked else failure, use, prompt=PROMPT)


def test_a_whole_answer_of_llama_cpp_is_the_text_behind_its_prompt(tmp_path):
    text = {"choices": [{"index": 0, "text": HERMES, "finish_reason": "stop"}], "object": "text_completion"}

    async def use(client, _):
        async with client.post(CHAT, json=BODY) as reply:
            answer = await reply.json()
            assert reply.headers["x-vllm-bot"] == "path=raw; origin=hermes; rescued=parser"
        assert answer["object"] == "chat.completion"
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "read"

    drive(tmp_path, lambda asked: text if "prompt" in asked else (500, PARSE_ERROR), use, prompt=PROMPT)


def test_after_three_failures_llama_cpp_is_asked_so_at_once_and_nothing_else_is_learned(tmp_path):
    async def use(client, server):
        for _ in range(MAX_FAILURES + 1):
            await read_text(client)
        assert [has_tools(body) for body in server.bodies] == [True, False] * MAX_FAILURES + [False]
        await read_text(client, {**BODY, "tool_choice": "required"})
        assert has_tools(server.bodies[-1])

    drive(tmp_path, lambda asked: complete("Well.") if "prompt" in asked else (500, PARSE_ERROR), use, prompt=PROMPT)


def test_llama_cpp_renders_the_text_that_has_left_as_the_beginning_of_the_answer(tmp_path):
    async def use(client, server):
        text, _ = await read_text(client)
        assert text == "It is done."
        assert server.rendered[-1]["messages"][-1] == {"role": "assistant", "content": "It is do"}

    def answer(asked):
        return complete("ne.") if "prompt" in asked else [*write("It is do"), fail()]

    drive(tmp_path, answer, use, prompt=PROMPT, parameters=135_000_000)


def test_llama_cpp_goes_on_with_a_text_behind_its_prompt_that_broke_off(tmp_path):
    answers = iter([[*complete("It is do")[:-2], fail(ENGINE_ERROR)], complete("ne.")])

    async def use(client, server):
        text, _ = await read_text(client)
        assert text == "It is done."
        assert server.rendered[-1]["messages"][-1] == {"role": "assistant", "content": "It is do"}

    def answer(asked):
        return next(answers) if "prompt" in asked else (500, PARSE_ERROR)

    drive(tmp_path, answer, use, prompt=PROMPT, parameters=135_000_000)


def test_a_server_that_makes_no_prompt_any_more_is_asked_for_the_rest_in_a_chat(tmp_path):
    servers = []

    async def use(client, server):
        servers.append(server)
        text, _ = await read_text(client)
        assert text == "It is done."
        assert server.bodies[-1]["messages"][-1] == {"role": "assistant", "content": "It is do"}

    def answer(asked):
        if "prompt" in asked:
            servers[0].prompt = ""
            return [*complete("It is do")[:-2], fail(ENGINE_ERROR)]
        return (500, PARSE_ERROR) if has_tools(asked) else [*write("ne."), *end()]

    drive(tmp_path, answer, use, prompt=PROMPT, parameters=135_000_000)


def test_a_template_of_llama_cpp_that_shows_no_tools_has_the_model_told_of_them(tmp_path):
    """Its server takes tools in any case, and leaves them out of the prompt in silence."""

    async def use(client, server):
        for _ in range(2):
            async with client.post(CHAT, json=BODY) as reply:
                answer = await reply.json()
                assert reply.headers["x-vllm-bot"].startswith("path=text")
            assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "read"
        assert not any(map(has_tools, server.bodies))
        assert "TOOL_CALL" in server.bodies[0]["messages"][0]["content"]
        assert len(server.rendered) == 2  # once for all requests

    written = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
    drive(tmp_path, lambda _: say(written), use, prompt=PROMPT, parameters=135_000_000, shows_tools=False)


def test_one_that_shows_them_is_asked_natively(tmp_path):
    async def use(client, server):
        async with client.post(CHAT, json=BODY) as reply:
            assert reply.headers["x-vllm-bot"].startswith("path=native")
        assert has_tools(server.bodies[0])

    drive(tmp_path, lambda _: say("Well."), use, prompt=PROMPT, parameters=135_000_000)
