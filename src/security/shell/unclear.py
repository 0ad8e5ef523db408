"""Why a command is not known to be harmless."""

from __future__ import annotations


class Unclear(Exception):
    """The message is a clause for people: what of the command it is that cannot be judged."""
