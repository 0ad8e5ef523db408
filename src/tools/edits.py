"""Replacing one piece of a text by another, exactly; and what to tell a model whose piece is not there.

Pure. A text whose line ends are all CRLF is edited as if they were LF and given back as it was, since
models write LF whatever they read. The helpful errors look at a bounded part of the file only.
"""

from __future__ import annotations

import json

from ..errors import ToolError

MANY = 100  # occurrences and candidates looked at
SIMILAR_IN = 5_000  # lines looked at to find a similar one
COMPARED = 10  # of them compared character by character, which takes a millisecond each
PIECES = 20  # of a line, to find those lines by
WIDTH = 160  # characters of a line that are compared and shown


def replace_once(text: str, old: str, new: str) -> tuple[str, int]:
    """The text with the only occurrence of `old` replaced, and the number of the line where it began.

    Raises ToolError where `old` does not occur exactly once. Overlapping occurrences count, too.
    """
    crlf = 0 < text.count("\n") == text.count("\r\n")
    if crlf:
        text, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
    places = _occurrences(text, old)
    if not places:
        raise ToolError("oldText does not occur in the file", _nearest(text.split("\n"), old))
    line = text.count("\n", 0, places[0]) + 1
    if len(places) > 1:
        raise ToolError(_ambiguous(text, places), "Add lines before or after it, so that it occurs once.")
    changed = text[: places[0]] + new + text[places[0] + len(old) :]
    return changed.replace("\n", "\r\n") if crlf else changed, line


def _occurrences(text: str, old: str) -> list[int]:
    places: list[int] = []
    place = text.find(old)
    while place >= 0 and len(places) < MANY:
        places.append(place)
        place = text.find(old, place + 1)
    return places


def _ambiguous(text: str, places: list[int]) -> str:
    times = f"{len(places)} times" if len(places) < MANY else f"{MANY} times or more"
    lines = dict.fromkeys(text.count("\n", 0, place) + 1 for place in places[:10])
    more = ", ..." if len(places) > 10 else ""
    return f"oldText occurs {times}, at lines {', '.join(map(str, lines))}{more}"


def _nearest(lines: list[str], old: str) -> str:
    """Where the file comes closest to `old`, and how it differs there."""
    wanted = old.split("\n")
    while wanted and not wanted[0].strip():
        del wanted[0]
    if not wanted:
        return "It is nothing but white space."
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
