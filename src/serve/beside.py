"""Work on large requests, in threads: other clients are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiohttp import web

from ..errors import BotError
from ..types.effects import Await
from .chat_turn import GatewayTurn, Payload

LARGE_BYTES = 1_000_000  # of a body that is worked on in a thread
_THREADS = ThreadPoolExecutor(thread_name_prefix="vllm-bot-large")

T = TypeVar("T")


async def is_large(request: web.Request) -> bool:
    """Whether work on the request is to leave the event loop. Its body has come."""
    return len(await request.read()) > LARGE_BYTES


async def run_beside(request: web.Request, work: Callable[..., T], *arguments: Any) -> T:
    """The result of work on the request."""
    if await is_large(request):
        return await asyncio.to_thread(work, *arguments)
    return work(*arguments)


def take_steps_beside(steps: GatewayTurn) -> GatewayTurn:
    """The steps of a turn, which are made in a thread, but for the pieces of a stream: a thread takes longer."""
    resume, value, step = steps.send, None, None
    is_streaming = False
    try:
        while True:
            if is_streaming and (isinstance(step, Payload) or isinstance(value, bytes)):
                step = _take_step(resume, value)
            else:
                making = _THREADS.submit(_take_step, resume, value)
                step = yield Await(making, keeps_answer=True)
            if step is None:
                return
            is_streaming = is_streaming or isinstance(step, Payload)
            try:
                resume, value = steps.send, (yield step)
            except BotError as error:
                resume, value = steps.throw, error
    finally:  # a turn that was left may still be at its step
        making.add_done_callback(lambda _: steps.close())


def _take_step(resume: Callable[[Any], T], value: object) -> T | None:
    """None at the end of the turn: no future holds a StopIteration."""
    try:
        return resume(value)
    except StopIteration:
        return None
