"""Ids for calls that came without one: nine digits, which every server and chat template accepts."""

from __future__ import annotations

import itertools
from collections.abc import Callable


def counted_ids() -> Callable[[], str]:
    """A source of ids that counts up; two sources give the same ones."""
    counter = itertools.count(1)
    return lambda: f"{next(counter):09d}"
