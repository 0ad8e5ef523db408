"""Turns end at once where they are cancelled or closed, whatever they were doing, and leave no answer open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from src.app.async_model import AsyncModel
from src.errors import Cancelled
from src.types.effects import ReplyHead
from src.types.events import Completed, Notice, TextDelta
from src.types.messages import ToolDefinition, UserMessage
from tests.doubles import ScriptedClient, make_core, make_model
from tests.each import check_rows

READ = ToolDefinition("read", "Read", {"type": "object", "properties": {"path": {"type": "string"}}})
HELLO = [{"content": "Hel"}, {"content": "lo"}, {"finish": "stop"}]
BUSY = (503, {"error": {"message": "busy"}})
LOADING = (503, {"error": {"message": "The model is still loading"}})
NO_PARSER = (400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})
MERGED = (400, {"error": {"message": "Conversation roles must alternate user/assistant"}})
NO_MODEL = (404, {"error": {"message": "The model `tiny` does not exist.", "code": 404}})
LOST = [{"content": "I see.", "ids": [1]}, {"ids": [2, 3, 4]}, {"finish": "stop"}]
RAW = {"prompt": 'I see. TOOL_CALL: {"name": "read", "args": {"path": "a"}}'}
SILENT = [{"usage": {"prompt_tokens": 9, "completion_tokens": 20}}, {"finish": "stop"}]
TOKENS = {"tokens": [1, 2, 3], "max_model_len": 100}
WHOLE = {"choices": [{"text": RAW["prompt"], "finish_reason": "stop"}], "usage": {}}

SCENARIOS = {  # the answers to the chat, and those beside it
    "an answer": ([HELLO], {}),
    "a retry": ([BUSY, HELLO], {}),
    "a server that loads": ([LOADING, HELLO], {"health": {}}),
    "a downgrade": ([NO_PARSER, MERGED, HELLO], {"tokenize": TOKENS}),
    "a renamed model": ([NO_MODEL, HELLO], {"models": {"data": [{"id": "small"}]}}),
    "a recovery by tokens": ([LOST], {"detokenize": RAW}),
    "a recovery by a raw completion": ([SILENT], {"tokenize": TOKENS, "completions": WHOLE}),
    "a recovery by asking again": ([SILENT, (200, {"choices": [{"message": {"content": "Hi"}}]})], {}),
}


class WatchedClient(ScriptedClient):
    """Is cancelled at the step `cancel_at` of a driver; counts the answers that are open."""

    def __init__(self, *answers, cancel_at=None, **aside):
        super().__init__(*answers, **aside)
        self.cancel_at = cancel_at
        self.steps = 0
        self.is_open = 0
        self.is_cancelled = self._look

    def _look(self):
        self.steps += 1
        return self.cancel_at is not None and self.steps > self.cancel_at

    @contextmanager
    def open(self, *given, **options):
        with super().open(*given, **options) as reply:
            self.is_open += 1
            assert self.is_open == 1
            try:
                yield reply
            finally:
                self.is_open -= 1


def start(name, cancel_at=None):
    """A client, and the turn of a scenario on it."""
    answers, aside = SCENARIOS[name]
    client = WatchedClient(*answers, cancel_at=cancel_at, **aside)
    return client, make_model(client, "tiny", jitter=lambda: 0.5, new_id=lambda: "made").respond(
        [UserMessage("go")], [READ]
    )


class AsyncReply(NamedTuple):
    """An answer of a WatchedClient, as AsyncClient gives it."""

    head: ReplyHead
    chunks: Iterator[bytes]
    opened: ExitStack
    look: Callable[[], Awaitable[None]]

    async def read(self):
        await self.look()
        return next(self.chunks, None)

    async def read_all(self):
        await self.look()
        return b"".join(self.chunks)

    async def release(self):
        await self.look()
        self.close()

    def close(self):
        self.opened.close()


class AsyncWatchedClient:
    """A WatchedClient for asyncio, whose task is cancelled at the wait `cancel_at`."""

    def __init__(self, *answers, cancel_at=None, **aside):
        self.client = WatchedClient(*answers, **aside)
        self.base_url = self.client.base_url
        self.cancel_at = cancel_at
        self.waits = 0

    async def _look(self):
        self.waits += 1
        if self.cancel_at is not None and self.waits > self.cancel_at:
            asyncio.current_task().cancel()
        await asyncio.sleep(0)

    async def sleep(self, seconds):
        await self._look()

    async def open(self, *given, **options):
        await self._look()
        opened = ExitStack()
        reply = opened.enter_context(self.client.open(*given, **options))
        return AsyncReply(reply.head, reply.chunks, opened, self._look)


async def collect_async(name, events, cancel_at=None):
    """The client; the events of the scenario's turn are added to `events`."""
    answers, aside = SCENARIOS[name]
    client = AsyncWatchedClient(*answers, cancel_at=cancel_at, **aside)
    turn = AsyncModel(client, make_core(client.base_url, "tiny", jitter=lambda: 0.5, new_id=lambda: "made")).respond(
        [UserMessage("go")], [READ]
    )
    try:
        async for event in turn:
            events.append(event)
    except asyncio.CancelledError:
        assert [event async for event in turn] == []
        assert cancel_at is not None
        asyncio.current_task().uncancel() if hasattr(asyncio.Task, "uncancel") else None
    return client


@check_rows("name", SCENARIOS)
def test_both_drivers_give_the_same_events(name):
    events = []
    client = asyncio.run(collect_async(name, events))
    assert events == list(start(name)[1])
    assert (client.client.is_open, client.client.answers) == (0, [])


@check_rows("name", SCENARIOS)
def test_a_task_can_be_cancelled_at_each_of_its_waits_and_gives_nothing_more(name):
    whole = []
    waits = asyncio.run(collect_async(name, whole)).waits
    for wait in range(waits):
        events = []
        client = asyncio.run(collect_async(name, events, cancel_at=wait))
        assert events == whole[: len(events)]
        assert not any(isinstance(event, Completed) for event in events)
        assert (client.client.is_open, client.waits) == (0, wait + 1)


@check_rows("name", SCENARIOS)
def test_an_asynchronous_turn_can_be_closed_at_each_of_its_events(name):
    async def close_at(place):
        answers, aside = SCENARIOS[name]
        client = AsyncWatchedClient(*answers, **aside)
        turn = AsyncModel(client, make_core(client.base_url, "tiny")).respond([UserMessage("go")], [READ])
        for _ in range(place + 1):
            await anext(turn)
        asked = len(client.client.requests)
        await turn.aclose()
        assert (client.client.is_open, len(client.client.requests)) == (0, asked)

    for place in range(len(list(start(name)[1]))):
        asyncio.run(close_at(place))


@check_rows("name", SCENARIOS)
def test_a_turn_that_is_left_alone_ends_with_its_answer(name):
    client, turn = start(name)
    *_, last = turn
    assert isinstance(last, Completed)
    assert (client.is_open, client.answers) == (0, [])


@check_rows("name", SCENARIOS)
def test_a_turn_can_be_cancelled_at_each_of_its_steps_and_gives_nothing_more(name):
    client, turn = start(name)
    whole = list(turn)
    for step in range(client.steps):
        cancelled, turn = start(name, cancel_at=step)
        events = []
        with pytest.raises(Cancelled):
            for event in turn:
                events.append(event)
        assert events == whole[: len(events)]
        assert not any(isinstance(event, Completed) for event in events)
        assert list(turn) == []
        assert cancelled.is_open == 0
        assert cancelled.steps == step + 1


@check_rows("name", SCENARIOS)
def test_a_turn_can_be_closed_at_each_of_its_events_and_asks_for_nothing_more(name):
    _, turn = start(name)
    for place in range(len(list(turn))):
        client, turn = start(name)
        for _ in range(place + 1):
            next(turn)
        asked = len(client.requests)
        turn.close()
        assert list(turn) == []
        assert (client.is_open, len(client.requests)) == (0, asked)


def test_an_interrupt_passes_through_a_turn_and_ends_it():
    client = WatchedClient(HELLO)
    client.is_cancelled = lambda: False

    @contextmanager
    def interrupt(*_, **__):
        raise KeyboardInterrupt
        yield

    client.open = interrupt
    turn = make_model(client, "tiny").respond([UserMessage("go")])
    with pytest.raises(KeyboardInterrupt):
        next(turn)
    assert list(turn) == []


def test_the_events_of_a_turn_come_as_the_server_sends_them():
    _, turn = start("a downgrade")
    events = list(turn)
    assert [type(event) for event in events] == [Notice, Notice, TextDelta, TextDelta, Completed]
