"""A value computed once for each message of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import is_
from typing import Generic, TypeVar

from .messages import Message

T = TypeVar("T")


class MessageMemo(Generic[T]):
    """Computes a function of one message once, as long as the message stays in the conversation.

    So the cost of a turn depends on the new messages only. Messages are compared by identity. Each is held beside
    its value, so that its id() cannot be reused; messages that have left the conversation are dropped.
    """

    def __init__(self, compute: Callable[[Message], T]) -> None:
        self._compute = compute
        self._messages: list[Message] = []
        self._values: list[T] = []

    def __call__(self, messages: Iterable[Message]) -> list[T]:
        given, known = list(messages), len(self._messages)
        if known > len(given) or not all(map(is_, self._messages, given)):  # messages were removed or inserted
            values = dict(zip(map(id, self._messages), self._values, strict=True))
            values |= {id(each): self._compute(each) for each in given if id(each) not in values}
            self._messages, self._values = given, [values[id(each)] for each in given]
        else:
            self._values = [*self._values, *map(self._compute, given[known:])]
            self._messages = given
        return self._values[:]
