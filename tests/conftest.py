"""Nothing that a test does is kept in the home of whoever runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path) -> Iterator[Path]:
    before = os.environ.get("XDG_STATE_HOME")
    folder = tmp_path / "state"
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before
