"""A unified diff of two texts, as `diff -u` and git write it, in bounded time.

What both begin and end with is passed over first, so that a small change in a large file costs little. Where
what is left is too much to compare line with line in any order, it is compared in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import eq
from typing import Any

from .replace import is_crlf

AROUND = 3  # lines shown before and after a change
COMPARED = 1_000_000  # pairs of lines that may be compared: about half a second at worst
NO_NEWLINE = "\n\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]  # as difflib has them


def unified(path: str, before: str | None, after: str) -> str:
    """The change as a diff that ends with a newline; "" where there is none. `before` is None for a new file.

    Line ends are taken for LF: who compares texts whose line ends are all CRLF sees no \\r.
    """
    if before == after:
        return ""
    crlf = is_crlf(before or after) and is_crlf(after)
    old, new = _lines(before or "", crlf), _lines(after, crlf)
    source = "/dev/null" if before is None else f"a/{path}"
    lines = [f"--- {source}", f"+++ b/{path}"]
    for group in _groups(_opcodes(old, new)):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        lines.append(f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@")
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
            else:
                lines += [f"-{line}" for line in old[i1:i2]] + [f"+{line}" for line in new[j1:j2]]
    return "\n".join(lines) + "\n"


def _lines(text: str, crlf: bool) -> list[str]:
    lines = (text.replace("\r\n", "\n") if crlf else text).split("\n")
    if lines[-1]:
        lines[-1] += NO_NEWLINE
    else:
        lines.pop()
    return lines


def _range(start: int, end: int) -> str:
    """As `diff -u` counts: from 1; an empty range is named by the line before it."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + bool(length)},{length}"


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    middle = _compared(old[head : len(old) - tail], new[head : len(new) - tail])
    shifted = [(kind, i1 + head, i2 + head, j1 + head, j2 + head) for kind, i1, i2, j1, j2 in middle]
    ends: list[Opcode] = [("equal", len(old) - tail, len(old), len(new) - tail, len(new))] if tail else []
    return [("equal", 0, head, 0, head), *shifted, *ends] if head else [*shifted, *ends]


def _compared(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    if len(old) * len(new) <= COMPARED:
        import difflib  # only for a change

        return list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    if len(old) == len(new):
        return list(_in_order(old, new))
    return [("replace", 0, len(old), 0, len(new))]


def _in_order(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Line by line: runs of those that are equal, and of those that are not."""
    start = 0
    for equal, run in groupby(map(eq, old, new)):
        end = start + len(list(run))
        yield ("equal" if equal else "replace", start, end, start, end)
        start = end


def _groups(opcodes: list[Opcode]) -> Iterable[list[Opcode]]:
    """The changes with what is shown around them; those whose surroundings meet are one group."""
    from difflib import SequenceMatcher

    class Known(SequenceMatcher[str]):
        def get_opcodes(self) -> list[Any]:
            return opcodes

    return Known().get_grouped_opcodes(AROUND)
