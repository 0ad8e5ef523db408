"""The readings of a block of tags: each tag is tried as markup and as text of a value, and costs say what is likely.

A reading is in a state, and of each state the cheapest reading is kept, with the cost of the next best. So work is
linear in the number of tags. A closing tag counts where a tag that may follow it follows. Tags in a value cost more if
they do not come in pairs, and tags that are missing cost most.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from .tag_style import Tag, TagStyle

_MAX_STATES = 12
_MAX_DEPTH = 8
_MAX_STEPS_BACK = 64  # searched for a key that stands twice; in the end it is refused in any case
_MARGIN = 3  # a reading that costs less than this more is as good

# What a reading costs.
_QUOTED = 1  # a tag in a value, unless it closes one that the value opened
_OPEN = 2  # a tag in a value that the value never closes
_REQUIRED = 8  # a required argument, written as arguments are, for a part of the value before it
_UNLIKELY = 2  # an argument that the tool does not have, or one that stands twice
_OTHER_NAME = 2  # a tag that is closed by another name
_UNWRAPPED = 1  # the marker around the calls is not closed
_LEFT_OVER = 5  # text between arguments
_MISSING = 5  # a closing tag that is missing
_STRAY = 6  # a closing tag that closes nothing
_NEVER = 1 << 30

Rank = Callable[[str, str], int]  # of a tool and a key: 2 for a required parameter, 1 for another, 0 for none


class ReadingStep(Struct, frozen=True):
    """One step of a reading, and the steps `before` it.

    `kind` is call, key, section, end (of a value), json or done; `text` is a name or a key, with its `attributes`.
    """

    before: ReadingStep | None
    kind: str
    text: str
    start: int
    end: int
    attributes: str = ""

    def iter_back(self) -> Iterator[ReadingStep]:
        """This step and those before it."""
        step: ReadingStep | None = self
        while step:
            yield step
            step = step.before

    @property
    def call_name(self) -> str:
        """The name of the call that the step belongs to: one begins all steps."""
        return next(step.text for step in self.iter_back() if step.kind == "call")


class ReadingState(Struct, frozen=True):
    """Where a reading is. In a value of the argument `key`, `depth` counts the tags that are open in it."""

    place: str  # arguments, value, section, section end, after, done
    key: str = ""
    depth: int = 0


ARGUMENTS, AFTER, DONE = ReadingState("arguments"), ReadingState("after"), ReadingState("done")


class Reading(Struct, frozen=True):
    """The cheapest way to a state; `other` is the cost of the next best; `is_clean`: no tag is missing in it."""

    cost: int
    other: int
    step: ReadingStep
    is_clean: bool

    @property
    def is_doubtful(self) -> bool:
        return not self.is_clean or self.other - self.cost < _MARGIN

    def list_steps(self) -> list[ReadingStep]:
        return list(self.step.iter_back())[::-1]


class _Move(Struct, frozen=True):
    """A way from one reading to a state, with what it costs. `is_tied`: another way is as likely, whatever it costs."""

    state: ReadingState
    reading: Reading
    cost: int
    step: ReadingStep
    is_clean: bool = True
    is_tied: bool = False


class Readings:
    """All readings of the tags so far. `is_wrapped`: markers stand around the calls of the block."""

    def __init__(self, call: ReadingStep, rank: Rank, *, is_wrapped: bool, has_call_end: bool) -> None:
        self._rank = rank
        self._unwrapped = _UNWRAPPED * is_wrapped
        self._call_end = _MISSING * has_call_end
        self._previous, self._previous_end = "", call.end  # the kind of the last tag, and where it ends
        self._readings = {ARGUMENTS: Reading(0, _NEVER, call, True)}

    @property
    def step(self) -> ReadingStep:
        """The last step of some reading."""
        return next(iter(self._readings.values())).step

    def add_object(self, start: int, end: int) -> None:
        """The arguments stand in one object."""
        for state, reading in self._readings.items():
            self._readings[state] = replace(reading, step=ReadingStep(reading.step, "json", "", start, end))

    def is_complete(self, tag: Tag) -> bool:
        """Whether the block ends with `tag` in a reading that is clean and cheaper than all others."""
        place = AFTER if tag.kind == "c" and not self._unwrapped else DONE
        ends = self._readings.get(place)
        if not ends or not ends.is_clean or ends.step.end != tag.end:
            return False
        return all(ends.cost < reading.cost for state, reading in self._readings.items() if state != place)

    def choose(self) -> Reading | None:
        """The cheapest reading of a block that ends here; None if it is cut off in every reading."""
        accepted: dict[ReadingState, Reading] = {}
        for state, reading in self._readings.items():
            if state.place in ("done", "after"):
                missing = self._unwrapped * (state.place == "after")
                _keep_cheaper(accepted, _Move(DONE, reading, missing, reading.step))
        return accepted.get(DONE)

    def add(self, tag: Tag, style: TagStyle) -> None:
        """Goes on with every reading."""
        readings: dict[ReadingState, Reading] = {}
        for state, reading in self._readings.items():
            for move in self._iter_moves(tag, style, state, reading):
                _keep_cheaper(readings, move)
        if len(readings) > _MAX_STATES:
            readings = dict(sorted(readings.items(), key=lambda item: item[1].cost)[:_MAX_STATES])
        self._readings, self._previous, self._previous_end = readings, tag.kind, tag.end

    def _iter_moves(self, tag: Tag, style: TagStyle, state: ReadingState, reading: Reading) -> Iterator[_Move]:
        if state.place == "arguments":
            yield from self._iter_between(tag, reading)
        elif state.place == "value":
            if tag.kind in "se":
                yield from self._iter_at_section(tag, style, state, reading)
            elif not (style.is_element and tag.kind in "pP" and tag.word != state.key):
                yield from self._iter_in_value(tag, style, state, reading)
            else:
                boundary = self._weigh_boundary(tag, reading.step, state.key)
                yield _Move(state, reading, boundary, reading.step, is_tied=boundary > 0)
        elif state.place in ("section", "section end"):
            yield from _iter_in_section(tag, state, reading)
        elif state.place == "done":
            yield _pass_behind(tag, state, reading)
        else:
            yield from self._iter_after(tag, reading)

    def _iter_between(self, tag: Tag, reading: Reading) -> Iterator[_Move]:
        left_over, step = _LEFT_OVER * (not tag.is_next), reading.step
        if tag.kind == "P":
            unlikely = _UNLIKELY * (not self._is_likely(step, tag.word))
            key = _take(step, "key", tag, tag.word)
            yield _Move(ReadingState("value", tag.word), reading, left_over + unlikely, key, tag.is_next)
        elif tag.kind == "C":
            yield _Move(ARGUMENTS, reading, left_over + _MISSING, _take(step, "call", tag, tag.word), is_clean=False)
        elif tag.kind == "c":
            cost = left_over + _OTHER_NAME * tag.is_loose
            yield _Move(AFTER, reading, cost, _take(step, "done", tag), tag.is_next)
        elif tag.kind == "b":
            yield _Move(DONE, reading, left_over + self._call_end, _take(step, "done", tag), tag.is_next)
        elif tag.kind in "pB":
            yield _Move(ARGUMENTS, reading, left_over + _STRAY, step, is_clean=False)
        else:
            yield _Move(ARGUMENTS, reading, _LEFT_OVER, step, is_clean=False)

    def _is_likely(self, step: ReadingStep, key: str) -> bool:
        """Whether the tool has the parameter and the call not yet."""
        for before in itertools.islice(step.iter_back(), _MAX_STEPS_BACK):
            if before.kind == "call":
                break
            if before.kind == "key" and before.text == key:
                return False
        return self._rank(before.text, key) > 0

    def _weigh_boundary(self, tag: Tag, step: ReadingStep, key: str) -> int:
        """What it costs to take a tag for text that begins a required argument where one may begin.

        That may be the argument `key`, in which the tag stands: the one before it may end here.
        """
        if tag.kind != "P" or not tag.is_next or self._previous != "p" or self._rank(step.call_name, tag.word) < 2:
            return 0
        return _REQUIRED * (tag.word == key or self._is_likely(step, tag.word))

    def _iter_in_value(self, tag: Tag, style: TagStyle, state: ReadingState, reading: Reading) -> Iterator[_Move]:
        step, depth = reading.step, state.depth
        if tag.kind in "PCB":
            boundary = self._weigh_boundary(tag, step, state.key)
            inside = replace(state, depth=min(depth + 1, _MAX_DEPTH))
            yield _Move(inside, reading, _QUOTED + boundary, step, is_tied=boundary > 0)
            if tag.kind == "P" and not depth and not style.is_element:
                unlikely = _UNLIKELY * (not self._is_likely(step, tag.word))
                closes = ReadingStep(step, "end", "", tag.start, tag.start)
                key = _take(closes, "key", tag, tag.word)
                yield _Move(ReadingState("value", tag.word), reading, _MISSING + unlikely, key, is_clean=False)
            return
        quoted = _QUOTED * (not depth and not tag.is_loose)
        yield _Move(replace(state, depth=max(0, depth - 1)), reading, quoted, step)
        cost = _OPEN * depth + _OTHER_NAME * tag.is_loose
        closes = _take(step, "end", tag)
        done = _take(closes, "done", tag)
        if tag.kind == "p":
            yield _Move(ARGUMENTS, reading, cost, closes)
        elif tag.kind == "c":
            yield _Move(AFTER, reading, cost + _MISSING + 1, done, is_clean=False)
        else:
            yield _Move(DONE, reading, cost + _MISSING + 2, done, is_clean=False)

    def _iter_at_section(self, tag: Tag, style: TagStyle, state: ReadingState, reading: Reading) -> Iterator[_Move]:
        """A mark of a CDATA section in a value: one that begins the value, or text."""
        step = reading.step
        if tag.kind == "e" or not tag.is_next or step.kind != "key" or step.end != self._previous_end:
            yield _Move(state, reading, 0, step)
            return
        yield _Move(state, reading, _MARGIN if style.has_sections else 1, step)
        yield _Move(ReadingState("section", state.key), reading, 0, _take(step, "section", tag))

    def _iter_after(self, tag: Tag, reading: Reading) -> Iterator[_Move]:
        if tag.is_next and tag.kind == "C":
            yield _Move(ARGUMENTS, reading, 0, _take(reading.step, "call", tag, tag.word))
        if tag.is_next and tag.kind == "b":
            yield _Move(DONE, reading, 0, _take(reading.step, "done", tag))
        passed = _pass_behind(tag, DONE, reading)
        yield replace(passed, cost=passed.cost + self._unwrapped)


def _iter_in_section(tag: Tag, state: ReadingState, reading: Reading) -> Iterator[_Move]:
    """In a CDATA section, which ends with its own mark and the tag that closes the value."""
    inside, step = ReadingState("section", state.key), reading.step
    opening = next(each for each in step.iter_back() if each.kind == "section")
    if tag.kind == "e":
        closes = _take(opening, "end", tag)
        yield _Move(ReadingState("section end", state.key), reading, 0, closes)
        return
    if state.place == "section end" and tag.kind == "p" and tag.is_next and tag.word in ("", state.key):
        yield _Move(ARGUMENTS, reading, 0, replace(step, end=tag.end))
    yield _Move(inside, reading, _QUOTED * (tag.kind == "p" and opening is not step), opening)


def _pass_behind(tag: Tag, state: ReadingState, reading: Reading) -> _Move:
    """Behind the block: tags there belong to other blocks if they come in pairs. One that closes makes it a guess."""
    depth, cost = state.depth, 0
    closes = tag.kind in "pcb" and not tag.is_loose
    if tag.kind in "PCB":
        depth = min(depth + 1, _MAX_DEPTH)
    elif closes and depth:
        depth -= 1
    elif closes:
        cost = _STRAY
    return _Move(ReadingState("done", "", depth), reading, cost, reading.step, is_tied=closes)


def _take(before: ReadingStep, kind: str, tag: Tag, text: str = "") -> ReadingStep:
    """The step that a tag is."""
    return ReadingStep(before, kind, text, tag.start, tag.end, tag.attributes)


def _keep_cheaper(readings: dict[ReadingState, Reading], move: _Move) -> None:
    """Adds the move's reading; of two in one state the cheaper stays, with the cost of the other."""
    state, before = move.state, move.reading
    cost = before.cost + move.cost
    other = min(before.other + move.cost, _NEVER)
    if move.is_tied:
        other = cost
    cheapest = readings.get(state)
    if cheapest and cheapest.cost <= cost:
        readings[state] = replace(cheapest, other=min(cheapest.other, cost))
        return
    if cheapest:
        other = min(other, cheapest.cost)
    readings[state] = Reading(cost, other, move.step, before.is_clean and move.is_clean)
