"""Large requests are worked on in threads, as small ones are on the event loop."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from src.errors import Cancelled, StreamCut
from src.serve import beside, gateway
from src.serve.beside import take_steps_beside
from src.serve.chat_request import ChatBody
from src.serve.chat_turn import Payload
from src.types.effects import READ, Await

from .test_gateway import BODY, ask, drive, say, stream

CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'


@pytest.fixture
def all_are_large(monkeypatch):
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)


def wait_for(effect):
    assert isinstance(effect, Await)
    assert effect.keeps_answer
    return effect.future.result(60)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(("owner", "name"), [(gateway, "load_json"), (ChatBody, "edit")])
def test_others_are_answered_while_a_large_request_is_read_and_edited(tmp_path, monkeypatch, owner, name):
    is_another_answered, work = threading.Event(), getattr(owner, name)

    def work_slowly(*given):
        assert is_another_answered.wait(60)
        return work(*given)

    async def use(client, _):
        large = asyncio.create_task(ask(client, BODY))
        async with client.get("/livez") as reply:
            assert reply.status == 200
        is_another_answered.set()
        assert (await large)[0] == 200

    monkeypatch.setattr(owner, name, work_slowly)
    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.usefixtures("all_are_large")
def test_a_large_request_streams_its_call(tmp_path):
    async def use(client, _):
        async with client.post("/v1/chat/completions", json={**BODY, "stream": True}) as reply:
            text = await reply.text()
        assert '"tool_calls"' in text
        assert text.endswith("data: [DONE]\n\n")

    drive(tmp_path, lambda _: stream(CALL), use)


def test_the_pieces_of_a_stream_take_no_thread():
    def steps():
        piece = yield READ
        while piece:
            yield Payload([piece])
            piece = yield READ

    turn = take_steps_beside(steps())
    assert turn.send(wait_for(next(turn))) == READ
    assert turn.send(wait_for(turn.send(b"a"))) == Payload([b"a"])
    assert next(turn) == READ
    assert turn.send(b"b") == Payload([b"b"])
    assert next(turn) == READ
    with pytest.raises(StopIteration):
        turn.send(wait_for(turn.send(None)))


def test_an_error_of_the_server_is_raised_at_the_step_that_waits_for_it():
    def steps():
        try:
            yield READ
        except StreamCut:
            yield "rest"

    turn = take_steps_beside(steps())
    step = turn.send(wait_for(next(turn)))
    assert step == READ
    assert turn.send(wait_for(turn.throw(StreamCut("cut")))) == "rest"
    with pytest.raises(StopIteration):
        turn.send(wait_for(next(turn)))


def test_a_turn_that_is_left_at_its_step_is_closed_behind_it():
    may_go_on, is_closed = threading.Event(), Future()

    def steps():
        try:
            assert may_go_on.wait(60)
            yield READ
        finally:
            is_closed.set_result(True)

    turn = take_steps_beside(steps())
    assert isinstance(next(turn), Await)
    with pytest.raises(Cancelled):
        turn.throw(Cancelled("left"))
    assert not is_closed.done()
    may_go_on.set()
    assert is_closed.result(60)
