"""Turns end at once where they are cancelled or closed, whatever they were doing, and leave no answer open."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from src.app.model import Model
from src.errors import Cancelled
from src.types.events import Completed, Notice, TextDelta
from src.types.messages import ToolDefinition, UserMessage
from tests.doubles import ScriptedClient

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
    return client, Model(client, "tiny", jitter=lambda: 0.5).respond([UserMessage("go")], [READ])


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_turn_that_is_left_alone_ends_with_its_answer(name):
    client, turn = start(name)
    *_, last = turn
    assert isinstance(last, Completed)
    assert (client.is_open, client.answers) == (0, [])


@pytest.mark.parametrize("name", SCENARIOS)
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


@pytest.mark.parametrize("name", SCENARIOS)
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
    turn = Model(client, "tiny").respond([UserMessage("go")])
    with pytest.raises(KeyboardInterrupt):
        next(turn)
    assert list(turn) == []


def test_the_events_of_a_turn_come_as_the_server_sends_them():
    _, turn = start("a downgrade")
    events = list(turn)
    assert [type(event) for event in events] == [Notice, Notice, TextDelta, TextDelta, Completed]
