"""`vllm-bot models`: what the server serves."""

from __future__ import annotations

import argparse

from ..security.sanitise import plain
from . import connect, start


def arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(given: argparse.Namespace) -> int:
    """One model a line, with its context's length where the server says it. Raises BotError."""
    for name, length in connect.models(start.settings_of(given)).items():
        print(f"{plain(name)}  {length:,} tokens" if length else plain(name))
    return 0
