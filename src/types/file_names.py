"""How the name of a file is written wherever it is shown, what none can hold, and what a change did to a file. Pure."""

from __future__ import annotations

from msgspec import Struct

from .lazy_pattern import LazyPattern

ESCAPE = LazyPattern(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
UNPASSABLE = LazyPattern("[\0\ud800-\udfff]")  # a NUL ends a string in C, and a lone surrogate is no character


class FileState(Struct, frozen=True):
    """A file, link or folder. `mode`: as in stat(2); 0: not known.

    `digest`: the SHA-256 of its content, or of the link's target; "" of a folder. Another text if the content was not
    kept, or is not known.
    """

    mode: int
    digest: str


class FileChange(Struct, frozen=True):
    """`path`: relative to the workspace; None: there is nothing."""

    path: str
    before: FileState | None
    after: FileState | None


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
    return ESCAPE.sub(lambda found: found[0].encode("ascii").decode("unicode_escape"), written)
