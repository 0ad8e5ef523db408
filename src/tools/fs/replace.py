"""Replacing one piece of a text by another, and what to tell a model whose piece is not there.

Pure. Three ways to find the piece, each a row of MODES, tried in their order by `auto`: as it is written; by
its lines, blanks at their ends aside; and by its first and last line, with the most similar block between.
What replaces it is put in as it is given.

A text whose line ends are all CRLF is edited as if they were LF and given back as it was, since models
write LF whatever they read. The helpful errors look at a bounded part of the file only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import ToolError

MANY = 100  # occurrences and candidates looked at
LINES_SHOWN = 20  # of those where the piece occurs
SIMILAR_IN = 5_000  # lines looked at to find a similar one
COMPARED = 10  # of them compared character by character, which takes a millisecond each
PIECES = 20  # of a line, to find those lines by
WIDTH = 160  # characters of a line that are compared and shown
ALIKE = 0.3  # least likeness (0 to 1) of what stands between two anchors
BETWEEN = 2_000  # characters between two anchors that are compared


class Edited(NamedTuple):
    """The new text, how often the piece was replaced, at which lines it began, and how it was found."""

    text: str
    times: int
    lines: tuple[int, ...]
    mode: str


class Span(NamedTuple):
    """Where the piece is: characters `start` to `end` of the text. `whole`: up to and with its last newline."""

    start: int
    end: int
    whole: bool = False


def replaced(
    text: str, old: str, new: str, *, every: bool = False, mode: str = "auto", expected: int | None = None
) -> Edited:
    """The text with `old`, which is not empty, replaced by `new`: where it occurs once, or `every` time.

    `mode` is a key of MODES or "auto". Raises ToolError where `old` occurs nowhere, several times without
    `every`, or not as often as `expected`.
    """
    crlf = is_crlf(text)
    if crlf or "\r\n" not in text:
        text, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
    used, spans = _found(text, old, every, mode)
    if not spans:
        raise ToolError("oldText does not occur in the file", _nearest(text.split("\n"), old))
    lines = _lines_of(text, spans)
    if len(spans) > 1 and not every:
        raise ToolError(_several(used, spans, lines), "Add lines around it so that it occurs once, or set replace_all.")
    if expected is not None and expected != len(spans):
        raise ToolError(f"{_several(used, spans, lines)}; expected_replacements is {expected}")
    changed = _put(text, spans, new)
    return Edited(changed.replace("\n", "\r\n") if crlf else changed, len(spans), lines, used)


def is_crlf(text: str) -> bool:
    """Whether there are line ends, and all of them are CRLF."""
    return 0 < text.count("\n") == text.count("\r\n")


def _found(text: str, old: str, every: bool, mode: str) -> tuple[str, list[Span]]:
    """The first way that finds anything, and what it finds."""
    ways = MODES if mode == "auto" else {mode: MODES[mode]}
    for name, find in ways.items():
        if spans := find(text, old, every):
            return name, spans
    return mode, []


def _exact(text: str, old: str, every: bool) -> list[Span]:
    """Overlapping occurrences count, but where each is replaced."""
    step = len(old) if every else 1
    most = text.count(old) if every else max(text.count(old), MANY)
    places: list[int] = []
    place = text.find(old)
    while place >= 0 and len(places) < most:
        places.append(place)
        place = text.find(old, place + step)
    return [Span(place, place + len(old)) for place in places]


def _line_trimmed(text: str, old: str, every: bool) -> list[Span]:
    """Runs of whole lines that are those of `old` once the blanks at both ends of each are taken away."""
    lines = text.split("\n")
    wanted, whole = _wanted(old)
    if not any(wanted):
        return []
    hay, needle = ("\n".join(["", *each, ""]) for each in ([line.strip() for line in lines], wanted))
    starts: list[int] = []
    line = passed = 0
    place = hay.find(needle)
    while place >= 0:
        line += hay.count("\n", passed, place)
        if not (every and starts and line < starts[-1] + len(wanted)):
            starts.append(line)
        passed, place = place, hay.find(needle, place + 1)
    return _spans(lines, [(start, start + len(wanted)) for start in starts], whole)


def _block_anchor(text: str, old: str, _every: bool) -> list[Span]:
    """The blocks that begin and end with the lines `old` does, and are most like it between."""
    wanted, whole = _wanted(old)
    if len(wanted) < 3 or not (wanted[0] and wanted[-1]):
        return []
    lines = text.split("\n")
    trimmed = [line.strip() for line in lines]
    blocks = [
        (start, end + 1)
        for start in [at for at, line in enumerate(trimmed) if line == wanted[0]][:MANY]
        for end in _ends(trimmed, start, wanted)
    ]
    return _spans(lines, _most_alike(trimmed, blocks, wanted), whole)


def _ends(trimmed: Sequence[str], start: int, wanted: Sequence[str]) -> list[int]:
    """Where a block from `start` on may end: up to twice as long as what is wanted, and a little."""
    furthest = min(len(trimmed), start + 2 * len(wanted) + COMPARED)
    return [at for at in range(start + 1, furthest) if trimmed[at] == wanted[-1]][:COMPARED]


def _most_alike(
    trimmed: Sequence[str], blocks: Sequence[tuple[int, int]], wanted: Sequence[str]
) -> list[tuple[int, int]]:
    """Of the blocks the one most like what is wanted; all of them that are equally so and do not overlap."""
    import difflib
    import heapq

    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2("\n".join(wanted[1:-1])[:BETWEEN])
    likeness: dict[tuple[int, int], float] = {}

    def quickly(block: tuple[int, int]) -> float:
        matcher.set_seq1("\n".join(trimmed[block[0] + 1 : block[1] - 1])[:BETWEEN])
        return matcher.quick_ratio()

    for block in heapq.nlargest(COMPARED, blocks, key=quickly):
        matcher.set_seq1("\n".join(trimmed[block[0] + 1 : block[1] - 1])[:BETWEEN])
        likeness[block] = matcher.ratio()
    best = max(likeness.values(), default=0.0)
    alike: list[tuple[int, int]] = []
    for block in sorted(block for block, value in likeness.items() if value == best >= ALIKE):
        if not alike or block[0] >= alike[-1][1]:
            alike.append(block)
    return alike


MODES: dict[str, Callable[[str, str, bool], list[Span]]] = {
    "exact": _exact,
    "line_trimmed": _line_trimmed,
    "block_anchor": _block_anchor,
}


def _wanted(old: str) -> tuple[list[str], bool]:
    """The lines of `old` without blanks at their ends, and whether its last ends with a newline."""
    lines = [line.strip() for line in old.split("\n")]
    return (lines[:-1], True) if old.endswith("\n") else (lines, False)


def _spans(lines: Sequence[str], blocks: Sequence[tuple[int, int]], whole: bool) -> list[Span]:
    """Blocks of lines as characters of the text; `whole`: with the newline after each that has one."""
    spans: list[Span] = []
    at = passed = 0
    for first, after in blocks:
        at += sum(len(line) + 1 for line in lines[passed:first])
        length = sum(len(line) + 1 for line in lines[first:after]) - 1
        spans.append(Span(at, at + length + (whole and after < len(lines)), whole))
        passed = first
    return spans


def _put(text: str, spans: Sequence[Span], new: str) -> str:
    parts: list[str] = []
    passed = 0
    for start, end, whole in spans:
        parts.append(text[passed:start])
        piece = new
        if whole and end == len(text) and not text.endswith("\n"):  # or the file would get a final newline
            piece = new.removesuffix("\n")
        parts.append(piece.replace("\n", "\r\n") if "\r\n" in text[start:end] and "\r" not in new else piece)
        passed = end
    return "".join([*parts, text[passed:]])


def _lines_of(text: str, spans: Sequence[Span]) -> tuple[int, ...]:
    """The number of the line where each begins."""
    lines: list[int] = []
    line, passed = 1, 0
    for span in spans:
        line += text.count("\n", passed, span.start)
        passed = span.start
        lines.append(line)
    return tuple(lines)


def _several(mode: str, spans: Sequence[Span], lines: Sequence[int]) -> str:
    how = "" if mode == "exact" else f" ({mode})"
    times = "once" if len(spans) == 1 else f"{len(spans):,} times"
    return f"oldText occurs {times}{how}, at {numbered(lines)}"


def numbered(lines: Sequence[int]) -> str:
    """Line numbers in words, each once and not too many of them: `lines 2, 6`."""
    distinct = list(dict.fromkeys(lines))
    more = ", ..." if len(distinct) > LINES_SHOWN else ""
    return f"line{'s' * (len(distinct) > 1)} {', '.join(map(str, distinct[:LINES_SHOWN]))}{more}"


def _nearest(lines: list[str], old: str) -> str:
    """Where the file comes closest to `old`, and how it differs there."""
    text = old.lstrip()
    if not text:
        return "It is nothing but white space."
    wanted = old[old.rfind("\n", 0, len(old) - len(text)) + 1 :].split("\n")  # from its first line that is not blank
    anchor = wanted[0].strip()
    starts = [number for number, line in enumerate(lines) if line.strip() == anchor][:MANY]
    if not starts:
        return _similar(lines, wanted[0])
    start = max(starts, key=lambda number: _agreeing(lines, wanted, number))
    at = _agreeing(lines, wanted, start)
    if at == len(wanted) or start + at == len(lines):
        return f"The text at line {start + 1} differs from it only in the line breaks at its ends."
    return f"Line {start + at + 1} is {_shown(lines[start + at])}, and oldText has {_shown(wanted[at])} there."


def _agreeing(lines: list[str], wanted: list[str], start: int) -> int:
    """How many lines from `start` on are those of `wanted`."""
    pairs = list(zip(lines[start : start + len(wanted)], wanted, strict=False))
    return next((number for number, (there, should) in enumerate(pairs) if there != should), len(pairs))


def _similar(lines: list[str], line: str) -> str:
    import difflib  # only for a mistake

    shortened = [each[:WIDTH] for each in lines[:SIMILAR_IN]]
    near = difflib.get_close_matches(line[:WIDTH], _sharing(list(dict.fromkeys(shortened)), line[:WIDTH]), n=1)
    if not near:
        return "No line of it is similar: read the file again."
    return f"The nearest line is {shortened.index(near[0]) + 1}: {_shown(near[0])}"


def _sharing(lines: list[str], line: str) -> list[str]:
    """The few of `lines` that hold most pieces of `line`: what is similar shares some, wherever it differs."""
    import heapq

    text = line.strip()
    size = max(2, -(-len(text) // PIECES))
    pieces = {text[start : start + size] for start in range(0, len(text), size)}
    shared = list(map(sum, zip(*([piece in each for each in lines] for piece in pieces), strict=True)))
    return [lines[place] for place in heapq.nlargest(COMPARED, range(len(lines)), key=shared.__getitem__)]


def _shown(line: str) -> str:
    return json.dumps(line[:WIDTH], ensure_ascii=False)
