"""Ids for calls that came without one: nine letters and digits, which every server and chat template accepts."""

from __future__ import annotations

import itertools
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LENGTH = 9


def counted_ids() -> Callable[[], str]:
    """A source of ids that counts up; two sources give the same ones."""
    counter = itertools.count(1)

    def new_id() -> str:
        number, digits = next(counter), []
        for _ in range(_LENGTH):
            number, digit = divmod(number, len(_ALPHABET))
            digits.append(_ALPHABET[digit])
        return "".join(reversed(digits))

    return new_id
