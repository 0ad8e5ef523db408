"""Serves an editor on two descriptors until it closes them. Only this module knows that they are pipes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..app.pipes import open_pipes
from .greeting import EditorAbilities, answer_greeting

if TYPE_CHECKING:
    from .agent import MakeSettings

READ_BYTES = 1 << 16


class _WithoutTraceback(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: N802 - of logging
        return f"{ei[0].__name__}: {ei[1]}"


def serve_editor(make_settings: MakeSettings, incoming: int, outgoing: int, *, tracebacks: bool = False) -> None:
    """Run until the editor closes `incoming`. `make_settings`: those for sessions in a folder. Raises ConfigError."""
    received, abilities = _greet(incoming, outgoing)
    from .agent import EditorAgent  # loads the SDK, after the greeting

    if not tracebacks:  # the SDK logs a notification that it cannot read with its own, on the root logger
        handler = logging.StreamHandler()
        handler.setFormatter(_WithoutTraceback("vllm-bot acp: %(message)s"))
        logging.basicConfig(handlers=[handler])
    asyncio.run(_serve(EditorAgent(make_settings, abilities), received, incoming, outgoing))


def _greet(incoming: int, outgoing: int) -> tuple[bytes, EditorAbilities]:
    """Answer the first message, if it is an `initialize`. Returns what else was read."""
    received = b""
    while b"\n" not in received and (data := os.read(incoming, READ_BYTES)):
        received += data
    line, _, rest = received.partition(b"\n")
    try:
        answered = answer_greeting(json.loads(line), __version__)
    except (ValueError, RecursionError):
        answered = None
    if answered is None:
        return received, EditorAbilities()
    answer, abilities = answered
    unsent = json.dumps(answer).encode() + b"\n"
    while unsent:
        unsent = unsent[os.write(outgoing, unsent) :]
    return rest, abilities


async def _serve(agent: Any, received: bytes, incoming: int, outgoing: int) -> None:
    from acp import run_agent

    from .json_lines import JsonLines

    async with open_pipes(incoming, outgoing, received) as (reader, writer):
        # What opening a session needs is loaded while the editor has not asked for one yet.
        asyncio.get_running_loop().run_in_executor(None, import_module, "..app.connect", __package__)
        try:
            await run_agent(agent, JsonLines(reader, writer), use_unstable_protocol=True)
        finally:
            await agent.close_all()
