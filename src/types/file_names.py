"""How the name of a file is written wherever it is shown. Pure."""

from __future__ import annotations

import re

from .lazy_pattern import LazyPattern

ESCAPE = LazyPattern(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def escape_name(name: object) -> str:
    r"""The name, on one line: `\n`, `\x1b` and the like for what a terminal obeys, hides or breaks a line at.

    If there is any such character, backslashes are doubled.
    """
    text = str(name)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text.replace("\\", "\\\\"))


def read_name(written: str) -> str:
    """The name that escape_name has written so."""
    return ESCAPE.sub(lambda found: _read_escape(found), written)


def _read_escape(found: re.Match[str]) -> str:
    return found[0].encode("ascii").decode("unicode_escape")
