"""Replace a piece of a text where it occurs: exactly, or else nearly. The rest stays as it is.

`replace_text` tries three modes in order: the exact text, the same lines without the blanks at their ends, and blocks
with the same first and last line. What it inserts is `new`, with the line ends of the text.

A text whose line ends are all CRLF is edited as if they were LF, and keeps them, since models write LF whatever they
read. Where a text has both, what is inserted has those of the piece that it replaces. Error messages point at the
nearest place, found in a bounded part of the file.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import ToolError

MAX_CANDIDATES = 100  # occurrences and candidates examined
MAX_LINE_NUMBERS = 20  # shown in a message
MAX_SEARCHED_LINES = 5_000  # for a similar line
MAX_COMPARED = 10  # lines or blocks compared by character
MAX_MORE_LINES = 10  # of a block between two anchors, beyond twice as many as it has in `old`
MAX_EQUAL_PAIRS = 400_000  # of characters in two blocks: code has half of that, and takes 0.1 s
LINE_PIECES = 20  # of a line, by which those lines are selected
MAX_LINE_CHARS = 160  # compared and shown
MIN_RATIO = 0.3  # of difflib, from 0 to 1, for the text between two anchors
MAX_BLOCK_CHARS = 2_000  # compared between two anchors


class Replacement(NamedTuple):
    """The new text, how often the piece was replaced, at which lines it began, and the mode that found it."""

    text: str
    times: int
    lines: tuple[int, ...]
    mode: str


class Span(NamedTuple):
    """Characters `start` to `end` of the text. `whole`: they include the newline of their last line."""

    start: int
    end: int
    whole: bool = False


def replace_text(
    text: str, old: str, new: str, *, every: bool = False, mode: str = "auto", expected: int | None = None
) -> Replacement:
    """Replace `old`, which is not empty, by `new`: its only occurrence, or `every` one.

    `mode` is a key of MODES or "auto". Raises ToolError if `old` does not occur, occurs several times without
    `every`, or not as often as `expected`.
    """
    crlf = is_crlf(text)
    if crlf or "\r\n" not in text:
        text, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
    used, spans = _find_spans(text, old, every, mode)
    lines = _find_line_numbers(text, spans)
    if len(spans) > 1 and not every:
        hint = "Add lines around it so that it occurs once, or set replace_all."
        raise ToolError(_count_in_words(used, spans, lines), hint)
    if expected is not None and expected != len(spans):
        raise ToolError(f"{_count_in_words(used, spans, lines)}; expected_replacements is {expected}")
    changed = _insert(text, spans, new)
    if crlf:
        changed = changed.replace("\n", "\r\n")
    return Replacement(changed, len(spans), lines, used)


def is_crlf(text: str) -> bool:
    """Whether the text has line ends, all of them CRLF."""
    return 0 < text.count("\n") == text.count("\r\n")


def _find_spans(text: str, old: str, every: bool, mode: str) -> tuple[str, list[Span]]:
    """The first mode that finds the piece, and where. Raises ToolError if none does."""
    for name, find in MODES.items():
        if mode in ("auto", name) and (spans := find(text, old, every)):
            return name, spans
    raise ToolError("oldText does not occur in the file", _find_nearest(text.split("\n"), old))


def _find_exact(text: str, old: str, every: bool) -> list[Span]:
    """Overlapping occurrences count, unless each is to be replaced."""
    step, limit = 1, max(text.count(old), MAX_CANDIDATES)
    if every:
        step, limit = len(old), text.count(old)
    places: list[int] = []
    place = text.find(old)
    while place >= 0 and len(places) < limit:
        places.append(place)
        place = text.find(old, place + step)
    return [Span(place, place + len(old)) for place in places]


def _find_trimmed_lines(text: str, old: str, every: bool) -> list[Span]:
    """Runs of lines that equal those of `old` once all are stripped."""
    lines = text.split("\n")
    old_lines, ends_line = _strip_lines(old)
    if not any(old_lines):
        return []
    hay, needle = ("\n".join(["", *each, ""]) for each in ([line.strip() for line in lines], old_lines))
    starts: list[int] = []
    line = passed = 0
    place = hay.find(needle)
    while place >= 0:
        line += hay.count("\n", passed, place)
        if not (every and starts and line < starts[-1] + len(old_lines)):
            starts.append(line)
        passed, place = place, hay.find(needle, place + 1)
    return _to_spans(lines, [(start, start + len(old_lines)) for start in starts], ends_line)


def _find_anchored_blocks(text: str, old: str, _every: bool) -> list[Span]:
    """The blocks whose first and last line are those of `old`, and whose text between is most like it."""
    old_lines, ends_line = _strip_lines(old)
    if len(old_lines) < 3 or not (old_lines[0] and old_lines[-1]):
        return []
    lines = text.split("\n")
    trimmed = [line.strip() for line in lines]
    blocks: list[tuple[int, int]] = []
    for start in [at for at, line in enumerate(trimmed) if line == old_lines[0]][:MAX_CANDIDATES]:
        furthest = min(len(trimmed), start + 2 * len(old_lines) + MAX_MORE_LINES)
        spans = [(start, at + 1) for at in range(start + 1, furthest) if trimmed[at] == old_lines[-1]]
        blocks += spans[:MAX_COMPARED]
    return _to_spans(lines, _select_most_alike(trimmed, blocks, old_lines), ends_line)


def _select_most_alike(
    trimmed: Sequence[str], blocks: Sequence[tuple[int, int]], old_lines: Sequence[str]
) -> list[tuple[int, int]]:
    """The block most like `old_lines`, or several that are equally like it and do not overlap."""
    import difflib

    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(wanted := "\n".join(old_lines[1:-1])[:MAX_BLOCK_CHARS])
    counts = Counter(wanted)
    ratios: dict[tuple[int, int], float] = {}

    def estimate(block: tuple[int, int]) -> float:
        matcher.set_seq1("\n".join(trimmed[block[0] + 1 : block[1] - 1])[:MAX_BLOCK_CHARS])
        return matcher.quick_ratio()

    for block in heapq.nlargest(MAX_COMPARED, blocks, key=estimate):
        matcher.set_seq1(text := "\n".join(trimmed[block[0] + 1 : block[1] - 1])[:MAX_BLOCK_CHARS])
        if sum(counts[char] for char in text) <= MAX_EQUAL_PAIRS:
            ratios[block] = matcher.ratio()
        elif len(blocks) == 1:  # of several tables of few digits, which one is meant is not found out in time
            ratios[block] = matcher.quick_ratio()
    best = max(ratios.values(), default=0.0)
    alike: list[tuple[int, int]] = []
    for block in sorted(block for block, value in ratios.items() if value == best >= MIN_RATIO):
        if not alike or block[0] >= alike[-1][1]:
            alike.append(block)
    return alike


MODES: dict[str, Callable[[str, str, bool], list[Span]]] = {
    "exact": _find_exact,
    "line_trimmed": _find_trimmed_lines,
    "block_anchor": _find_anchored_blocks,
}


def _strip_lines(old: str) -> tuple[list[str], bool]:
    """The stripped lines of `old`, and whether it ends with a newline."""
    lines = [line.strip() for line in old.removesuffix("\n").split("\n")]
    return lines, old.endswith("\n")


def _to_spans(lines: Sequence[str], blocks: Sequence[tuple[int, int]], ends_line: bool) -> list[Span]:
    """Blocks of lines as spans of characters; `ends_line`: with the newline after each block that has one."""
    spans: list[Span] = []
    at = passed = 0
    for first, after in blocks:
        at += sum(len(line) + 1 for line in lines[passed:first])
        length = sum(len(line) + 1 for line in lines[first:after]) - 1
        if not ends_line and after < len(lines):  # the line end stays whole, also one of CRLF
            length -= lines[after - 1].endswith("\r")
        spans.append(Span(at, at + length + (ends_line and after < len(lines)), ends_line))
        passed = first
    return spans


def _insert(text: str, spans: Sequence[Span], new: str) -> str:
    parts: list[str] = []
    passed = 0
    for start, end, takes_lines in spans:
        parts.append(text[passed:start])
        piece = new
        if takes_lines and end == len(text) and not text.endswith("\n"):  # else the file would get a final newline
            piece = new.removesuffix("\n")
        if "\r\n" in text[start:end] and "\r" not in new:
            piece = piece.replace("\n", "\r\n")
        parts.append(piece)
        passed = end
    return "".join([*parts, text[passed:]])


def _find_line_numbers(text: str, spans: Sequence[Span]) -> tuple[int, ...]:
    """The number of the line at which each span starts."""
    lines: list[int] = []
    line, passed = 1, 0
    for span in spans:
        line += text.count("\n", passed, span.start)
        passed = span.start
        lines.append(line)
    return tuple(lines)


def _count_in_words(mode: str, spans: Sequence[Span], lines: Sequence[int]) -> str:
    how = "" if mode == "exact" else f" ({mode})"
    times = "once" if len(spans) == 1 else f"{len(spans):,} times"
    return f"oldText occurs {times}{how}, at {format_line_numbers(lines)}"


def format_line_numbers(lines: Sequence[int]) -> str:
    """`lines 2, 6`: each number once, and at most MAX_LINE_NUMBERS of them."""
    distinct = list(dict.fromkeys(lines))
    more = ", ..." if len(distinct) > MAX_LINE_NUMBERS else ""
    return f"line{'s' * (len(distinct) > 1)} {', '.join(map(str, distinct[:MAX_LINE_NUMBERS]))}{more}"


def _find_nearest(lines: list[str], old: str) -> str:
    """Say which place of the file is closest to `old`, and how it differs there."""
    text = old.lstrip()
    if not text:
        return "It is nothing but white space."
    old_lines = old[old.rfind("\n", 0, len(old) - len(text)) + 1 :].split("\n")  # from its first line that is not blank
    anchor = old_lines[0].strip()
    starts = [number for number, line in enumerate(lines) if line.strip() == anchor][:MAX_CANDIDATES]
    if not starts:
        return _find_similar(lines, old_lines[0])
    start = max(starts, key=lambda number: _count_equal_lines(lines, old_lines, number))
    at = _count_equal_lines(lines, old_lines, start)
    if start + at == len(lines) and any(old_lines[at:]):
        return f"The file ends behind line {start + at}, and oldText goes on with {_quote(old_lines[at])}."
    if at == len(old_lines) or start + at == len(lines):
        return f"The text at line {start + 1} differs from it only in the line breaks at its ends."
    return f"Line {start + at + 1} is {_quote(lines[start + at])}, and oldText has {_quote(old_lines[at])} there."


def _count_equal_lines(lines: list[str], old_lines: list[str], start: int) -> int:
    """How many lines from `start` on equal those of `old_lines`."""
    pairs = list(zip(lines[start : start + len(old_lines)], old_lines, strict=False))
    return next((number for number, (there, should) in enumerate(pairs) if there != should), len(pairs))


def _find_similar(lines: list[str], line: str) -> str:
    import difflib  # only for a mistake

    shortened, line = [each[:MAX_LINE_CHARS] for each in lines[:MAX_SEARCHED_LINES]], line[:MAX_LINE_CHARS]
    near = difflib.get_close_matches(line, _select_candidates(list(dict.fromkeys(shortened)), line), n=1)
    if not near:
        return "No line of it is similar: read the file again."
    return f"The nearest line is {shortened.index(near[0]) + 1}: {_quote(near[0])}"


def _select_candidates(lines: list[str], line: str) -> list[str]:
    """The few of `lines` with the most pieces of `line`, since similar lines share some."""
    text = line.strip()
    size = max(2, -(-len(text) // LINE_PIECES))
    pieces = {text[start : start + size] for start in range(0, len(text), size)}
    shared = list(map(sum, zip(*([piece in each for each in lines] for piece in pieces), strict=True)))
    return [lines[place] for place in heapq.nlargest(MAX_COMPARED, range(len(lines)), key=shared.__getitem__)]


def _quote(line: str) -> str:
    return json.dumps(line[:MAX_LINE_CHARS], ensure_ascii=False)
