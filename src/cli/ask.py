"""One question, one answer: the answer on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..config import Settings
from ..errors import BotError, ConfigError
from ..messages import Completed, Response, TextDelta, UserMessage
from ..security.approval import APPROVE_ALL, REFUSE_ALL
from . import start
from .debug import Debug
from .render import Screen, plain


def ask(settings: Settings, debug: Debug, question: str, *, yes: bool, sleep: Callable[[float], None]) -> int:
    """Raises BotError; what was said until then is on standard output."""
    screen = Screen(sys.stdout, sys.stderr, styled=False)
    start.warn(settings, screen)
    model_name = settings.vllm.model or start.served_model(settings, screen, _cannot_choose, sleep)
    agent = start.agent(settings, model_name, APPROVE_ALL if yes else REFUSE_ALL, sleep)
    conversation = [*start.opening(settings), UserMessage(question)]
    streaming = sys.stdout.isatty()
    try:
        for event in agent.run(conversation):
            debug.trace(event)
            if streaming or not isinstance(event, TextDelta):
                screen.draw(event)
            if not streaming and isinstance(event, Completed):
                _print_whole(event.response, screen)
    except (BotError, KeyboardInterrupt, SystemExit):
        if not streaming and isinstance(last := conversation[-1], Response):
            _print_whole(last, screen)
        raise
    return 0


def _print_whole(response: Response, screen: Screen) -> None:
    """What a script reads is the answer alone: text before a tool call is none of it."""
    if not response.text.strip():
        return
    if response.calls or response.malformed:
        screen.say(plain(response.text.strip()))
    else:
        screen.draw(TextDelta(response.text))
        screen.end_line()


def _cannot_choose(names: list[str]) -> str:
    raise ConfigError(f"The server serves several models: {', '.join(names)}.", "Name one with --model.")
