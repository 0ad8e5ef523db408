"""How often a server's parser failed on a model's answers: whether its turns are asked in text. Pure.

One failure costs one turn: it is asked again with calls in the text. A model on which the parser fails again and again
is asked in text at once, and natively again after a day: the server may have been updated.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

LAST_TURNS = 20  # that count
MAX_FAILURES = 3  # of those, after which turns are asked in text
TEXT_S = 24 * 60 * 60.0  # for so long


class ParserRecord(Struct, frozen=True):
    """Of a model on a server. `failures`: of the last native turns, the latest last. `text_until`: in seconds."""

    failures: tuple[bool, ...] = ()
    text_until: float = 0.0

    def prefers_text(self, now: float) -> bool:
        return now < self.text_until

    def add(self, *, failed: bool, now: float) -> ParserRecord:
        """The record after another native turn."""
        failures = (*self.failures, failed)[-LAST_TURNS:]
        if sum(failures) >= MAX_FAILURES:
            return ParserRecord(text_until=now + TEXT_S)
        return replace(self, failures=failures)
