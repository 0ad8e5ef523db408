"""Whether a conversation goes round in circles: the same calls with the same results, again and again. Pure.

One to four rounds that repeat are a loop; a round is the calls of an answer and their results. Polling is no loop: a
result changes, or a call takes long. When the rounds have come three times, the model is told; the program's own loop
ends when they have come three times more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from ..types.lazy_pattern import LazyPattern

MAX_PERIOD = 4  # rounds that repeat as one
NOTE_AFTER = 3  # times
END_AFTER = 6  # times
SLOW_S = 5.0  # a call that takes longer is a wait for something
MAX_ROUNDS = MAX_PERIOD * END_AFTER  # that are looked at
_MAX_NAMES_CHARS = 200
_NAME = LazyPattern(r"[\w.:/-]+")  # no other text of a model is repeated in a note that speaks for the program
_SAME = "{names}: the same calls gave the same results {times} times in a row"
_NOTE = f"{_SAME}. Making them again gives nothing new: use these results, do something else, or answer."


class Round(Struct, frozen=True):
    """`calls`: name and arguments of each; `results`: what they gave, in any form that can be compared.

    `is_slow`: a call took longer than SLOW_S.
    """

    calls: Sequence[tuple[str, object]]
    results: Sequence[object]
    is_slow: bool = False


class LoopVerdict(NamedTuple):
    """`note`: for the model, behind the last result. `end`: why the program's own loop is to end. Empty: nothing."""

    note: str = ""
    end: str = ""


def decide(rounds: Sequence[Round]) -> LoopVerdict:
    """What to do after these rounds, of which the last one is new."""
    for period in range(1, MAX_PERIOD + 1):
        same = _count_same(rounds, period)
        times = same // period + 1
        if times < NOTE_AFTER:
            continue
        made = [name for each in rounds[-period:] for name, _ in each.calls]
        names = ", ".join(name if _NAME.fullmatch(name) else "an unreadable call" for name in made)
        if len(names) > _MAX_NAMES_CHARS:
            names = f"{names[:_MAX_NAMES_CHARS]} ..."
        if times >= END_AFTER:
            return LoopVerdict(end=_SAME.format(names=names, times=times))
        if same == (NOTE_AFTER - 1) * period:
            return LoopVerdict(note=_NOTE.format(names=names, times=times))
        break  # the model was told
    return LoopVerdict()


def _count_same(rounds: Sequence[Round], period: int) -> int:
    """How many rounds at the end equal the round `period` before them. A slow round ends the count."""
    least = max(period, len(rounds) - MAX_ROUNDS)
    place = len(rounds) - 1
    while place >= least and not rounds[place].is_slow and rounds[place] == rounds[place - period]:
        place -= 1
    return len(rounds) - 1 - place
