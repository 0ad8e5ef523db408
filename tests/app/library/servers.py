"""Servers for tests of the library: scripted ones on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from src.cli.demo.loopback import serve
from src.cli.demo.protocol import DemoServer, DemoTurn


@contextmanager
def serve_one_call(name: str, arguments: dict) -> Iterator[str]:
    """The address of a server whose model makes one call, and then says what it was told."""

    def respond(conversation):
        last = conversation.messages[-1]
        if last["role"] == "tool":
            return DemoTurn(f"I was told: {last['content']}")
        return DemoTurn("", calls=((name, arguments),))

    with serve(DemoServer(respond, lambda _: None)) as address:
        yield f"{address}/v1"
