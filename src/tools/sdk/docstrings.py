"""The descriptions of parameters in a docstring, in the styles of Google, NumPy and Sphinx. Pure.

    Args:                     Parameters              :param city: Its name.
        city (str): Its       ----------              :param int days: How many,
            name.             city : str                  from today.
                                  Its name.

Whatever else the docstring holds is left out. Of a description the first paragraph is read, and made one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...types.lazy_pattern import LazyPattern

SECTION = LazyPattern(r"(args|arguments|parameters|params):", re.IGNORECASE)
GOOGLE = LazyPattern(r"\*{0,2}(\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?:\s*(.*)")
NUMPY = LazyPattern(r"\*{0,2}(\w+(?:,\s*\*{0,2}\w+)*)\s*(?::.*)?()")  # several names may share a description
NAME = LazyPattern(r"\w+")
SPHINX = LazyPattern(r":(?:param|parameter|arg|argument)\s(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
UNDERLINE = LazyPattern(r"-{3,}")


def read_descriptions(doc: str) -> dict[str, str]:
    """By the name of the parameter."""
    lines = doc.expandtabs().splitlines()
    descriptions: dict[str, str] = {}
    for number, line in enumerate(lines):
        following = lines[number + 1 :]
        if SECTION.fullmatch(line.strip()):
            descriptions |= _read_entries(following, _get_indent(line) + 1, GOOGLE)
        elif line.strip() == "Parameters" and following and UNDERLINE.fullmatch(following[0].strip()):
            descriptions |= _read_entries(_cut_at_heading(following[1:]), _get_indent(line), NUMPY)
        elif entry := SPHINX.match(line.strip()):
            descriptions[entry[1]] = _join(entry[2], _take_deeper(following, _get_indent(line)))
    return {name: text for name, text in descriptions.items() if text}


def _read_entries(lines: Sequence[str], least: int, pattern: LazyPattern) -> dict[str, str]:
    """The entries of a section, which are indented alike, by `least` or more; it ends with a line that is not."""
    entries: dict[str, str] = {}
    indent: int | None = None
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        here = _get_indent(line)
        if indent is None:
            indent = here
        if here < max(least, indent):
            break
        if here == indent and (entry := pattern.fullmatch(line.strip())):
            description = _join(entry[2], _take_deeper(lines[number + 1 :], indent))
            entries |= dict.fromkeys(NAME.findall(entry[1]), description)
    return entries


def _cut_at_heading(lines: Sequence[str]) -> list[str]:
    """The lines before the next heading, which is underlined."""
    ends = (number - 1 for number, line in enumerate(lines) if UNDERLINE.fullmatch(line.strip()))
    return list(lines[: next(ends, len(lines))])


def _take_deeper(lines: Sequence[str], indent: int) -> Iterator[str]:
    """The lines that go on with an entry of this indentation."""
    for line in lines:
        if not line.strip() or _get_indent(line) <= indent:
            return
        yield line


def _get_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join(first: str, more: Iterator[str]) -> str:
    return " ".join(" ".join([first, *more]).split())
