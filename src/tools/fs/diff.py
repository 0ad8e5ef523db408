"""Make a unified diff of two texts, as `diff -u` and git write it, in bounded time.

The common start and end are skipped first, so that a small change in a large file costs little. If too many pairs of
lines remain for difflib, the lines are compared in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import eq
from typing import Any

from ...types.file_names import escape_name
from .replace import is_crlf

CONTEXT_LINES = 3
MAX_PAIRS = 1_000_000  # of lines, for difflib
MAX_EQUAL_PAIRS = 150_000  # of lines that repeat; with them, difflib takes two seconds at worst
NO_NEWLINE = "\n\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]  # as difflib gives them


def make_diff(path: str, before: str | None, after: str | None) -> str:
    """The diff, which ends with a newline; "" if the texts are equal. None is the content of a file that is not there.

    If all line ends of both texts are CRLF, the diff has LF instead.
    """
    if before == after:
        return ""
    texts = [text for text in (before, after) if text]
    crlf = bool(texts) and all(map(is_crlf, texts))
    old, new = _split_lines(before, crlf), _split_lines(after, crlf)
    path = escape_name(path)
    below = path.removeprefix("/")  # a whole path is one in a folder that was added to the workspace
    source, target = f"a/{below}", f"b/{below}"
    if before is None:
        source = "/dev/null"
    if after is None:
        target = "/dev/null"
    lines = [f"--- {source}", f"+++ {target}"]
    for group in _group_changes(_find_opcodes(old, new)):
        lines += _format_hunk(group, old, new)
    return "\n".join(lines) + "\n"


def _format_hunk(group: Sequence[Opcode], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The lines of changes that stand close together, below the line that says where they are."""
    (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
    yield f"@@ -{_format_range(a1, a2)} +{_format_range(b1, b2)} @@"
    for kind, i1, i2, j1, j2 in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[i1:i2])
            continue
        yield from (f"-{line}" for line in old[i1:i2])
        yield from (f"+{line}" for line in new[j1:j2])


def _split_lines(text: str | None, crlf: bool) -> list[str]:
    text = text or ""
    if crlf:
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += NO_NEWLINE
    else:
        lines.pop()
    return lines


def _format_range(start: int, end: int) -> str:
    """As `diff -u` counts: from 1; an empty range has the number of the line before it."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + bool(length)},{length}"


def _find_opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    middle = _compare(old[head : len(old) - tail], new[head : len(new) - tail])
    shifted = [(kind, i1 + head, i2 + head, j1 + head, j2 + head) for kind, i1, i2, j1, j2 in middle]
    if head:
        shifted.insert(0, ("equal", 0, head, 0, head))
    if tail:
        shifted.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return shifted


def _compare(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    counts = Counter(new)
    if len(old) * len(new) <= MAX_PAIRS and sum(counts[line] for line in old) <= MAX_EQUAL_PAIRS:
        import difflib  # only for a change

        return list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    if len(old) != len(new):
        return [("replace", 0, len(old), 0, len(new))]
    runs: list[Opcode] = []  # of equal lines, and of lines that differ, by their position
    start = 0
    for equal, run in groupby(map(eq, old, new)):
        end = start + len(list(run))
        runs.append(("equal" if equal else "replace", start, end, start, end))
        start = end
    return runs


def _group_changes(opcodes: list[Opcode]) -> Iterable[list[Opcode]]:
    """Group the changes with the lines around them, by a method of difflib that reads its own opcodes."""
    from difflib import SequenceMatcher

    class Known(SequenceMatcher[str]):
        def get_opcodes(self) -> list[Any]:
            return opcodes

    return Known().get_grouped_opcodes(CONTEXT_LINES)
