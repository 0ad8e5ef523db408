"""`vllm-bot models`: what the server serves."""

from __future__ import annotations

import argparse

from ...app import connect, factory
from ...security.text.sanitize import sanitize


def arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(given: argparse.Namespace) -> int:
    """One model per line, with the length of its context if known. Raises BotError."""
    for name, length in connect.models(factory.settings_of(given)).items():
        print(f"{sanitize(name)}  {length:,} tokens" if length else sanitize(name))
    return 0
