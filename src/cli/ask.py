"""One question, one answer: the answer on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..config import Settings
from ..errors import BotError, ConfigError
from ..messages import Completed, Notice, Response, TextDelta, UserMessage
from ..security.sanitise import plain
from . import start
from .debug import Debug
from .render import Screen


def ask(
    settings: Settings, debug: Debug, question: str, *, yes: bool, relearn: bool, sleep: Callable[[float], None]
) -> int:
    """Raises BotError; what was said until then is on standard output."""
    screen = Screen(sys.stdout, sys.stderr, thoughts=False, styled=False)
    start.warn(settings, screen)
    model_name = settings.vllm.model or start.served_model(settings, screen, _cannot_choose, sleep)
    bot = start.bot(settings, model_name, start.approver(yes), relearn=relearn, sleep=sleep)
    conversation = [*start.opening(settings), UserMessage(question)]
    streaming = sys.stdout.isatty()
    try:
        for event in bot.agent.run(conversation):
            debug.trace(event)
            if streaming or not isinstance(event, TextDelta):
                screen.draw(event)
            if not streaming and isinstance(event, Completed):
                _print_whole(event.response, screen)
    except (BotError, KeyboardInterrupt, SystemExit):
        if not streaming and isinstance(last := conversation[-1], Response):
            _print_whole(last, screen)
        raise
    if unkept := bot.keep():
        screen.draw(Notice(unkept))
    last = conversation[-1]
    return 0 if isinstance(last, Response) and last.text.strip() else 1


def _print_whole(response: Response, screen: Screen) -> None:
    """What a script reads is the answer alone: text before a tool call is none of it."""
    if not response.text.strip():
        return
    if response.calls or response.malformed:
        screen.say(plain(response.text.strip()))
    else:
        screen.draw(TextDelta(response.text.strip("\n")))  # a thought leaves blank lines before the answer
        screen.end_line()


def _cannot_choose(names: list[str]) -> str:
    raise ConfigError(f"The server serves several models: {', '.join(names)}.", "Name one with --model.")
