"""Notes in the history of a client whose model goes round in circles. Pure.

A note stands in a fixed wrapper behind the result that closed the circle, and stays there in all later requests of the
conversation, so that its prefix holds. What cannot be known from the history is remembered: when the last answer was
given, which rounds a call took long in, and where notes stand. Where that is forgotten, nothing is a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..model.loops import MAX_ROUNDS, SLOW_S, Round, decide
from ..negotiation.history.exchange_text import read_text
from ..negotiation.history.messages import LATE_SYSTEM, add_content
from .restore import describe_calls


class LoopNotes:
    """`messages`: as the client sends them. `kept`: what `encode` gave for the last answer among them; b"" if that is
    not known. `now`: in seconds, of a clock that goes on between requests.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]], kept: bytes, now: float) -> None:
        answered_at, slow, self._notes = msgspec.msgpack.decode(kept) if kept else (None, [], [])
        self._slow: list[bool] = slow  # of the last rounds, the oldest first
        self.is_new = False  # a note was added for this request
        if not messages or messages[-1].get("role") != "tool":
            self._slow = []  # another question
            return
        self._slow = [*self._slow, answered_at is None or now - answered_at > SLOW_S][-MAX_ROUNDS:]
        note = decide(_list_rounds(messages, self._slow)).note
        if note:
            self.is_new = True
            self._notes = [*self._notes, [len(messages) - 1, note]]

    def apply(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages with the notes."""
        noted = list(messages)
        for place, note in self._notes:
            if place < len(noted):
                noted[place] = add_content(noted[place], LATE_SYSTEM.format(text=note))
        return noted

    def encode(self, now: float) -> bytes:
        """What is to be known once the client goes on from the answer that it gets now."""
        return msgspec.msgpack.encode([now, self._slow, self._notes])


def _list_rounds(messages: Sequence[Mapping[str, Any]], slow: Sequence[bool]) -> list[Round]:
    """The rounds at the end of the messages, as far as it is known whether they were slow."""
    rounds: list[Round] = []
    results: list[object] = []
    for message in reversed(messages):
        if message.get("role") == "tool":
            results.insert(0, read_text(message.get("content")))
            continue
        if message.get("role") != "assistant" or len(rounds) == len(slow):
            break
        calls = describe_calls(message)
        if not calls:
            break
        rounds.append(Round([(name, arguments) for name, arguments in calls], results, slow[-1 - len(rounds)]))
        results = []
    return rounds[::-1]
