"""From the command line's options to one question, or a chat."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from ..errors import ConfigError
from . import start
from .debug import Debug

_HOW_TO_ASK = 'Ask one: vllm-bot -p "What is in this folder?"'


def run(given: argparse.Namespace, debug_level: int, sleep: Callable[[float], None]) -> int:
    """Raises BotError."""
    settings = start.settings_of(given)
    debug = Debug(debug_level, settings.vllm.api_key)
    question = _question(given)
    if question is None:
        from .opening import open_chat

        return open_chat(settings, debug, yes=given.yes, relearn=given.relearn)
    from .ask import ask

    return ask(settings, debug, question, yes=given.yes, relearn=given.relearn, sleep=sleep)


def _question(given: argparse.Namespace) -> str | None:
    """The one question to answer, from the command line or standard input; None opens the chat."""
    if given.prompt is None and not sys.stdin:
        raise ConfigError("Standard input is closed.", _HOW_TO_ASK)
    if given.prompt is None and sys.stdin.isatty():
        return None
    question: str = sys.stdin.read() if given.prompt is None else given.prompt
    if not question.strip():
        raise ConfigError("The question is empty.", _HOW_TO_ASK)
    return question
