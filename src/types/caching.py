"""Values that are computed once and kept, so that the cost of a turn depends on what is new in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Generic, TypeVar

from .messages import Message

K = TypeVar("K")
T = TypeVar("T")


class MessageMemo(Generic[T]):
    """Computes a function of one message once, as long as the message stays in the conversation.

    Messages are compared by identity. Each is held beside its value, so that its id() cannot be reused; messages that
    have left the conversation are dropped.
    """

    def __init__(self, compute: Callable[[Message], T]) -> None:
        self._compute = compute
        self._messages: list[Message] = []
        self._values: list[T] = []

    def __call__(self, messages: Sequence[Message]) -> Sequence[T]:
        """The values, in a list that the next call changes."""
        count = len(self._messages)
        if count_shared(self._messages, messages) < count:  # messages were removed or inserted
            values = dict(zip(map(id, self._messages), self._values, strict=False))
            values |= {id(each): self._compute(each) for each in messages if id(each) not in values}
            self._messages, self._values = [*messages], [values[id(each)] for each in messages]
            return self._values
        del self._values[count:]  # of a call that was interrupted
        for each in messages[count:]:
            self._values.append(self._compute(each))
            self._messages.append(each)
        return self._values


class LastMemo(Generic[K, T]):
    """Computes a function of a value once, as long as it is asked for the same value or an equal one."""

    def __init__(self, compute: Callable[[K], T]) -> None:
        self._compute = compute
        self._last: tuple[K, T] | None = None

    def __call__(self, value: K) -> T:
        last = self._last
        if last is None or not (last[0] is value or last[0] == value):
            self._last = last = value, self._compute(value)
        return last[1]


def count_shared(before: Sequence[object], now: Sequence[object]) -> int:
    """How many objects two sequences share, from the first on."""
    if len(now) >= len(before) and all(map(is_, before, now)):  # so it is where a conversation grows
        return len(before)
    pairs = enumerate(zip(before, now, strict=False))
    return next((place for place, (old, new) in pairs if old is not new), min(len(before), len(now)))
