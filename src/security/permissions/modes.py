"""The modes: how much may happen without asking. A table; docs/security.md shows it to users."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ...types.sandbox import ACCESSES, Access, Grant
from .rules import Action


class PermissionMode(Struct, frozen=True):
    """What a mode decides about calls of high risk. Tools of low risk are free in every mode.

    `free_access`: commands with this access, or less, run without asking; with more, and other tools: `others`.
    """

    about: str
    edits: Action
    free_access: Access
    others: Action


MODES: Mapping[str, PermissionMode] = {
    "plan": PermissionMode("what only reads needs no question, and nothing is changed", "deny", "read", "deny"),
    "ask": PermissionMode("what only reads needs no question; everything else asks", "ask", "read", "ask"),
    "edits": PermissionMode(
        "what only reads and file edits need no question; everything else asks", "allow", "read", "ask"
    ),
    "auto": PermissionMode(
        "work in the workspace needs no question; the network and other tools ask", "allow", "write", "ask"
    ),
    "full": PermissionMode("nothing needs a question", "allow", "network", "allow"),
}
CYCLE = ("plan", "ask", "edits", "auto")  # what Shift-Tab goes through: full is only chosen by its name


def includes(access: Grant, other: Access) -> bool:
    """Whether what has this access may do all that the other one allows."""
    return access == "outside" or ACCESSES.index(access) >= ACCESSES.index(other)
