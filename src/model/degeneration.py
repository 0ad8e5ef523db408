"""A model that says the same over and over without end: noticed, so that it can be stopped. Pure.

A look at the last characters every so often; what a look costs is a search in C over a window, so that a
long answer costs as much a character as a short one. The window is far longer than what repeats in tables
or rows of zeros that somebody wants.
"""

from __future__ import annotations

WINDOW = 8192  # characters that must be nothing but one text repeated
LONGEST_PERIOD = 1024
LONGEST_BLANK = 4096  # blanks and line ends without a word between them: what a grammar lets a weak model write
STEP = 2048  # characters between looks
_PROBE = 64


class Repetition:
    """Of one answer."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._new = 0

    def add(self, piece: str) -> bool:
        """Whether the answer repeats itself, as far as it goes with this piece."""
        self._pieces.append(piece)
        self._new += len(piece)
        # What came all at once is whole already, as the arguments are that some servers send in one piece.
        return self._new >= STEP and len(piece) < WINDOW and self.at_end()

    def at_end(self) -> bool:
        """Whether what there is by now ends in nothing but one text repeated."""
        tail = "".join(self._pieces)[-WINDOW:]
        self._pieces, self._new = [tail], 0
        return len(tail) >= LONGEST_BLANK and (not tail[-LONGEST_BLANK:].strip() or bool(_period(tail)))


def without(text: str) -> str:
    """The text with what repeats at its end said once."""
    if not text[-LONGEST_BLANK:].strip():
        return text.rstrip()
    period = _period(text[-WINDOW:])
    if not period:
        return text
    end = len(text)
    for times in (WINDOW // period, 1):  # many at once first: it may be long
        unit = text[-period:] * times
        while text.endswith(unit, 0, end):
            end -= len(unit)
    return text[: end + period]


def _period(tail: str) -> int:
    """The length of what a whole window repeats; 0 where it does not."""
    before = tail.rfind(tail[-_PROBE:], 0, len(tail) - 1)
    period = len(tail) - _PROBE - before
    if len(tail) < WINDOW or before < 0 or period > LONGEST_PERIOD or tail[:-period] != tail[period:]:
        return 0
    return period
