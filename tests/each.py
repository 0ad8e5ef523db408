"""Many rows in one test: pytest needs more time for a test of its own than most rows of a table do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

MAX_LABEL_CHARS = 80


def check_each(**columns: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test for each combination of the columns' values, and fail with all rows that failed.

    For tests without state: the rows share their fixtures. Where rows need time or files, use `parametrize`.
    """
    return _check([dict(zip(columns, values, strict=True)) for values in product(*map(list, columns.values()))])


def check_rows(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As check_each, for rows as `parametrize` takes them: one value each, or a value for each of the names."""
    columns = [name.strip() for name in names.split(",")]
    if len(columns) == 1:
        return _check([{names: row} for row in rows])
    return _check([dict(zip(columns, row, strict=True)) for row in rows])


def _check(rows: list[dict[str, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    assert rows, "there is nothing to check"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def check(*arguments: Any, **fixtures: Any) -> None:
            failed: dict[str, Exception] = {}
            for row in rows:
                try:
                    test(*arguments, **fixtures, **row)
                except Exception as error:  # noqa: BLE001 - each row is told
                    failed[", ".join(map(describe, row.values()))] = error
            if failed:
                told = "\n".join(f"  {label}: {str(error).partition(chr(10))[0]}" for label, error in failed.items())
                raise AssertionError(f"{len(failed)} of {len(rows)} rows:\n{told}") from next(iter(failed.values()))

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in rows[0]]
        check.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return check

    return decorate


def describe(value: object) -> str:
    return str(getattr(value, "name", None) or repr(value)[:MAX_LABEL_CHARS])
