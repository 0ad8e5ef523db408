"""Unified diffs on a terminal: of a call to approve, of a file that tools changed, or as a count of lines.

src/tools/fs/diff.py makes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...security.text.sanitize import reveal, sanitize
from ...types.file_names import escape_name
from ...types.messages import ToolResult
from .colours import NONE, Colours, paint
from .wrap import QUOTE_COLUMNS, TAB_COLUMNS, quote_text


def draw_preview(diff: str, colours: Colours, columns: int = 0) -> list[str]:
    """The lines of a diff that the user is asked to approve, as those of others: nothing in it is hidden."""
    lines: list[str] = []
    for line in diff.rstrip("\n").split("\n"):
        for piece in quote_text(reveal(line), columns):
            mark, text = piece[:QUOTE_COLUMNS], piece[QUOTE_COLUMNS:]
            lines.append(mark + _paint_line(line, text, colours))
    return lines


def _paint_line(line: str, shown: str, colours: Colours) -> str:
    return paint(shown, {"+": colours.added, "-": colours.removed, "@": colours.hunk}.get(line[:1], ""))


def draw_file_diff(name: str, before: bytes | None, after: bytes | None, colours: Colours = NONE) -> list[str]:
    """The diff of two contents of a file, None if there is no file. Empty if they are equal.

    What a terminal would obey is shown as escapes, line ends other than LF among it: each line has the mark of its own.
    """
    from ...tools.fs.diff import make_diff  # start-up is measured

    try:
        old, new = (None if content is None else content.decode() for content in (before, after))
    except UnicodeDecodeError:
        if before == after:
            return []
        return [f"  {escape_name(name)}: changed, and not a text file"]
    lines = make_diff(name, old, new).split("\n")[:-1]
    return [_paint_line(line, reveal(line.expandtabs(TAB_COLUMNS)), colours) for line in lines]


def get_diff(result: ToolResult) -> str:
    """What a call of `write` or `edit` changed; "" where that is not known. A saved result has it in its text only."""
    diff = result.diff
    if not diff and result.name == "edit":
        diff = result.text[result.text.find("\n--- ") + 1 :]
    if result.kind == "text" and diff.startswith("--- ") and "\n+++ " in diff:
        return diff
    return ""


def count_changes(lines: Sequence[str], diff: str) -> str:
    """`changed +2 -1 lines`, for a result of `write` or `edit`: its sentence, and the diff. Empty if there is none."""
    if not lines or not diff:
        return ""
    signs = Counter(line[:1] for line in diff.split("\n")[2:])
    return f"{sanitize(lines[0].partition(' ')[0]).lower()} +{signs['+']} -{signs['-']} lines"
