"""Nothing that a test does is kept in the home of whoever runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

NUMBERS = count()


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for each test, that does not exist yet: most tests keep nothing, and a folder for each of them takes time."""
    before = os.environ.get("XDG_STATE_HOME")
    folder = tmp_path_factory.getbasetemp() / "states" / str(next(NUMBERS))
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before
