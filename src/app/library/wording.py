"""What errors and notices advise, in the words of the library: its arguments, not options, settings or commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import Advice, BotError
from ...types.events import Event, LimitHit, Notice


def reword(text: str) -> str:
    """The text for a program; most texts are for all."""
    return text.library if isinstance(text, Advice) else text


def reword_event(event: Event) -> Event:
    """The event, with its advice for a program. The library's arguments have the names of settings."""
    if isinstance(event, Notice):
        return Notice(reword(event.text))
    if isinstance(event, LimitHit):
        return LimitHit(event.limit.rpartition(".")[2])
    return event


@contextmanager
def rewording() -> Iterator[None]:
    """Have a BotError advise what a program can do."""
    try:
        yield
    except BotError as error:
        error.message, error.hint = reword(error.message), reword(error.hint)
        error.args = (error.message,)
        raise
