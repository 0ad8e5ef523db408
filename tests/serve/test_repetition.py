"""Answers in which the model repeats itself without end, as a client of the gateway gets them: cut, and no error."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from src.app.state_files import ServerMemory
from src.eval.replay import compare, replay
from src.model.response_assembler import WINDOW_CHARS
from src.serve.gateway import Gateway
from src.serve.pages.metrics import Metrics
from src.serve.record.log_file import LogFile
from src.serve.record.recorder import Recorder
from src.serve.request_log import RequestLog
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from tests.thorough import take_turns
from tests.waiting import PATIENCE_S

from .test_gateway import read_metrics

CHAT = "/v1/chat/completions"
ENDS = {CHAT: "length", "/v1/messages": "max_tokens", "/v1/responses": "max_output_tokens"}
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FUNCTION = {"name": "read", "description": "Read a file.", "parameters": PARAMETERS}
ASKED = [{"role": "user", "content": "Read it."}]
BODY = {"model": "m", "messages": ASKED, "tools": [{"type": "function", "function": FUNCTION}]}
STREAMED = [
    (CHAT, BODY),
    ("/v1/messages", {**BODY, "max_tokens": 9, "tools": [{"name": "read", "input_schema": PARAMETERS}]}),
    ("/v1/responses", {"model": "m", "input": ASKED, "tools": [{"type": "function", **FUNCTION}]}),
]
CUT_BLOCK = 'TOOL_CALL: {"name": "read", "args": {"path": "a'
BLOCK = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}\n'
TOLD = "A model repeats itself: an answer of m ends as at its limit of tokens, for the first time;"


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def say(text: str, index: int = 0) -> bytes:
    return chunk({"content": text}, index=index)


def call(arguments: str, name: str = "") -> bytes:
    begun = {"id": "n0", "type": "function"} if name else {}
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, **begun, "function": function}]})


def answer_whole(finish: str, *messages: dict[str, Any]) -> dict[str, Any]:
    choices = [
        {"index": index, "message": {"role": "assistant", **message}, "finish_reason": finish}
        for index, message in enumerate(messages)
    ]
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}


class Server:
    """Streams the events of `make_events`, `together` in a write; or answers `whole`. `gone`: the stream was closed."""

    def __init__(self, make_events: Callable[[], Iterable[bytes]], whole: dict[str, Any], together: int) -> None:
        self._make_events = make_events
        self._whole = whole
        self._together = together
        self.gone = asyncio.Event()

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post(CHAT, self.complete)
        return app

    async def complete(self, request: web.Request) -> web.StreamResponse:
        if not (await request.json()).get("stream"):
            return web.json_response(self._whole)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        events = iter(self._make_events())
        try:
            while piece := b"".join(itertools.islice(events, self._together)):
                await response.write(piece)
                await asyncio.sleep(0)
        finally:
            self.gone.set()
        return response


def drive(
    folder: Path,
    use: Callable[[TestClient[Any, Any], Server], Awaitable[None]],
    make_events: Callable[[], Iterable[bytes]] = tuple,
    whole: dict[str, Any] = {},  # noqa: B006 - it is not changed
    together: int = 1,
) -> list[dict[str, Any]]:
    """Run `use` with a client of the gateway. Returns the lines of the request log."""
    log = folder / "requests.jsonl"

    async def run() -> None:
        server = Server(make_events, whole, together)
        async with TestServer(server.make_app(), handler_cancellation=True) as upstream:
            replica = Replica(AsyncClient(str(upstream.make_url("/v1"))), ServerMemory(folder))
            recorder = Recorder(LogFile(folder / "record.jsonl", 10**9, 3))
            own = Gateway(
                Upstreams([replica]), Metrics(folder), request_log=RequestLog(str(log)), recorder=recorder
            ).make_app()
            async with TestClient(TestServer(own)) as client:
                await asyncio.wait_for(use(client, server), PATIENCE_S)

    asyncio.run(run())
    return [json.loads(line) for line in log.read_text().splitlines()]


async def read_events(client: TestClient[Any, Any], path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with client.post(path, json={**body, "stream": True}) as reply:
        lines = (await reply.text()).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def list_deltas(events: list[dict[str, Any]], index: int = 0) -> Iterator[dict[str, Any]]:
    for event in events:
        yield from (each["delta"] for each in event.get("choices", ()) if each["index"] == index)


def read_text(events: list[dict[str, Any]], index: int = 0) -> str:
    """The text, thought and arguments that a stream of any API gave."""
    pieces: list[str] = []
    for delta in list_deltas(events, index):
        pieces += [delta.get("reasoning") or "", delta.get("content") or ""]
        pieces += [each["function"].get("arguments") or "" for each in delta.get("tool_calls") or ()]
    for event in events:
        delta = event.get("delta")
        if isinstance(delta, str):
            pieces.append(delta)
        elif isinstance(delta, dict):
            pieces += [delta.get(name, "") for name in ("thinking", "text", "partial_json")]
    return "".join(pieces)


def find_end(events: list[dict[str, Any]], index: int = 0) -> str:
    """What the last events of a stream of any API, or a whole answer, say of its end."""
    for event in reversed(events):
        ends = [each["finish_reason"] for each in event.get("choices", ()) if each["index"] == index]
        response = event.get("response", event)
        ends += [response.get("stop_reason"), (event.get("delta") or {}).get("stop_reason")]
        ends.append((response.get("incomplete_details") or {}).get("reason"))
        if told := [each for each in ends if each]:
            return str(told[0])
    return ""


CASES = {
    "text": ([say("So: ")], say("and so on, " * 9), "So: and so on, and so on, "),
    "thought": ([chunk({"reasoning": "Hm. "})], chunk({"reasoning": "But wait. " * 9}), "Hm. But wait. But wait. "),
    "native call": ([call("", "read"), call('{"path": "')], call("ha " * 9), '{"path": "ha ha '),
    "native call of an unknown tool": ([call("", "x"), call('{"path": "')], call("ha " * 9), '{"path": "ha ha '),
    "blanks in a native call": ([call("", "read"), call('{"path": "a"')], call(" \n " * 9), '{"path": "a" \n  \n '),
    "call in the text": ([say(CUT_BLOCK)], say("ha " * 9), '{"path": "aha ha '),
    "block that is held": ([say('TOOL_CALL: {"name": "x", "args": {"path": "')], say("ha " * 9), "TOOL_CALL: "),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("what", "way"), take_turns([*CASES], [*itertools.product(STREAMED, (1, 500))]))
def test_a_stream_ends_as_at_its_limit_of_tokens_and_the_server_s_is_closed(tmp_path, what, way):
    ((path, body), together), (first, unit, beginning) = way, CASES[what]

    async def use(client, server):
        events = await read_events(client, path, body)
        text = read_text(events)
        assert text.startswith(beginning)
        assert "error" not in json.dumps(events).replace('"error": null', "")
        assert find_end(events) == ENDS[path]
        assert len(text) > WINDOW_CHARS / 2
        await server.gone.wait()

    (line,) = drive(tmp_path, use, lambda: itertools.chain(first, itertools.repeat(unit)), together=together)
    assert (line["status"], line["repeated"], line.get("error")) == (200, 1, None)


WHOLE = {
    "text": {"content": "So: " + "and so on, " * 2000},
    "thought": {"content": None, "reasoning": "Hm. " + "But wait. " * 2000},
    "call in the text": {"content": CUT_BLOCK + "ha " * 5000},
}


@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize(("path", "body"), STREAMED)
def test_a_whole_answer_that_its_limit_of_tokens_ended_says_the_same(tmp_path, path, body, what):
    message = WHOLE[what]

    async def use(client, _):
        async with client.post(path, json=body) as reply:
            answer = await reply.json()
            assert "repeated=1" in reply.headers["x-vllm-bot"]
        assert find_end([answer]) == ENDS[path]
        assert json.dumps(message.get("reasoning") or message["content"])[1:-1] in json.dumps(answer)

    (line,) = drive(tmp_path, use, whole=answer_whole("length", message))
    assert line["repeated"] == 1


@pytest.mark.parametrize(("path", "body"), STREAMED)
def test_a_whole_answer_with_a_native_call_that_was_cut_says_the_same(tmp_path, path, body):
    function = {"name": "read", "arguments": '{"path": "' + "ha " * 5000}
    message = {"content": None, "tool_calls": [{"id": "n0", "type": "function", "function": function}]}

    async def use(client, _):
        async with client.post(path, json=body) as reply:
            answer = await reply.json()
            assert "repeated=1" in reply.headers["x-vllm-bot"]
        assert find_end([answer]) == ENDS[path]
        assert '"n0"' in json.dumps(answer)

    drive(tmp_path, use, whole=answer_whole("length", message))


@pytest.mark.parametrize("together", [1, 500])
def test_of_two_choices_the_other_one_goes_on_to_its_end(tmp_path, together):
    def write() -> Iterator[bytes]:
        yield from [say("So: "), say("It ", 1)]
        yield from [say("and so on, " * 9)] * 400
        yield from [say("is ", 1), say("done.", 1), chunk({}, "stop", 1)]
        yield from itertools.repeat(say("and so on, " * 9))

    async def use(client, server):
        events = await read_events(client, CHAT, {**BODY, "n": 2})
        assert (read_text(events, 1), find_end(events, 1)) == ("It is done.", "stop")
        text = read_text(events)
        assert text.startswith("So: and so on, and")
        assert len(text) < 400 * len("and so on, " * 9)
        assert find_end(events) == "length"
        await server.gone.wait()

    (line,) = drive(tmp_path, use, write, together=together)
    assert line["repeated"] == 1


def test_two_choices_may_both_repeat_themselves(tmp_path):
    async def use(client, server):
        events = await read_events(client, CHAT, {**BODY, "n": 2})
        assert [find_end(events, index) for index in (0, 1)] == ["length", "length"]
        await server.gone.wait()

    (line,) = drive(tmp_path, use, lambda: itertools.cycle([say("so on, " * 9), say("and on, " * 9, 1)]), together=9)
    assert line["repeated"] == 2


def test_a_choice_that_has_not_begun_is_waited_for(tmp_path):
    events = [
        *[say("so on, " * 9)] * 400,
        say("Done.", 1),
        chunk({}, "stop", 1),
        chunk({}, "stop"),
        b"data: [DONE]\n\n",
    ]

    async def use(client, _):
        events = await read_events(client, CHAT, {**BODY, "n": 2})
        assert [find_end(events, index) for index in (0, 1)] == ["length", "stop"]
        assert read_text(events, 1) == "Done."

    drive(tmp_path, use, lambda: events)


def test_of_two_choices_of_a_whole_answer_each_is_the_server_s(tmp_path):
    whole = answer_whole("length", {"content": "and so on, " * 2000}, {"content": "One, two, "})

    async def use(client, _):
        async with client.post(CHAT, json={**BODY, "n": 2}) as reply:
            assert (await reply.json()) == whole

    (line,) = drive(tmp_path, use, whole=whole)
    assert line["repeated"] == 1


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_call_before_the_repetition_is_not_lost(tmp_path, is_streamed):
    text = f"{BLOCK}{'and so on, ' * 2000}"

    async def use(client, _):
        if is_streamed:
            events = await read_events(client, CHAT, BODY)
            calls = [each for delta in list_deltas(events) for each in delta.get("tool_calls") or ()]
        else:
            async with client.post(CHAT, json=BODY) as reply:
                events = [await reply.json()]
            calls = events[0]["choices"][0]["message"]["tool_calls"]
        assert "".join(each["function"]["arguments"] for each in calls) == '{"path": "a.txt"}'
        assert find_end(events) == "length"

    events = [say(BLOCK), *[say("and so on, ")] * 2000]
    drive(tmp_path, use, lambda: events, answer_whole("length", {"content": text}))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_came_to_its_end_was_wanted(tmp_path, is_streamed):
    rows = "0, " * 9000

    async def use(client, _):
        if is_streamed:
            events = await read_events(client, CHAT, BODY)
            assert read_text(events) == rows
        else:
            async with client.post(CHAT, json=BODY) as reply:
                events = [await reply.json()]
                assert reply.headers["x-vllm-bot"] == "path=native"
            assert events[0]["choices"][0]["message"]["content"] == rows
        assert find_end(events) == "stop"

    events = [say(rows), chunk({}, "stop"), b"data: [DONE]\n\n"]
    (line,) = drive(tmp_path, use, lambda: events, answer_whole("stop", {"content": rows}), together=9)
    assert "repeated" not in line


def test_an_operator_is_told_that_it_was_a_repetition(tmp_path, caplog):
    async def use(client, _):
        for _ in range(2):
            await read_events(client, CHAT, BODY)
        assert 'vllm_bot_repetitions_total{model="m"} 2.0' in await read_metrics(client)

    with caplog.at_level(logging.WARNING):
        drive(tmp_path, use, lambda: itertools.repeat(say("and so on, " * 9)))
    assert [record.getMessage() for record in caplog.records if record.name.startswith("src.serve")] == [
        f"{TOLD} vllm_bot_repetitions_total counts on."
    ]


def test_a_record_of_it_is_read_again_without_a_difference(tmp_path):
    async def use(client, _):
        await read_events(client, CHAT, BODY)

    drive(tmp_path, use, lambda: itertools.repeat(say("and so on, " * 9)), together=100)
    (entry,) = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert (entry["ended"], entry["choices"][0]["finish_reason"]) == ("whole", "length")
    assert compare(entry, replay(entry)) == []
