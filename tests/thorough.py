"""How much is tried: few examples of each property in the suite, many with `--hypothesis-profile many`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")
W = TypeVar("W")

FEW_EXAMPLES, MANY_EXAMPLES = 10, 400

# Of a test whose law other tests hold cheaper: it runs only where many examples are tried.
only_thorough = pytest.mark.thorough(only=True)


def register_profiles() -> None:
    """Register both; `few` is used unless another is asked for.

    A busy machine must not fail a test: there is no deadline, and no check of how long an example takes to be made.
    """
    few = settings(
        max_examples=FEW_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("few", few)
    settings.register_profile("many", few, max_examples=MANY_EXAMPLES)
    settings.load_profile("few")


def is_thorough() -> bool:
    return settings.default.max_examples >= MANY_EXAMPLES


def is_left_out(test: pytest.Item) -> bool:
    """Whether a test has the marker `only_thorough`, and few examples are tried."""
    return not is_thorough() and any(mark.kwargs.get("only") for mark in test.iter_markers("thorough"))


def sample(cases: Sequence[T], step: int, start: int = 0) -> Sequence[T]:
    """One of so many cases, beginning with the `start`th; all of them where many examples are tried.

    For tests with the marker `thorough`, so that they run again with many examples.
    """
    return cases if is_thorough() else cases[start % step :: step]


def take_turns(rows: Sequence[T], ways: Sequence[W]) -> list[tuple[T, W]]:
    """Each row in one of the ways, in turns; each row in all of them where many examples are tried.

    For tests with the marker `thorough`, too.
    """
    if is_thorough():
        return list(product(rows, ways))
    return [(row, ways[at % len(ways)]) for at, row in enumerate(rows)]
