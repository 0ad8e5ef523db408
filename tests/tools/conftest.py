from collections.abc import Callable
from pathlib import Path

import pytest

from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall, ToolResult

Run = Callable[..., ToolResult]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def run(workspace: Path) -> Run:
    """A call of a tool in the workspace; `settings` are fields of its context's Wiring."""
    usual = ToolContext(workspace, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"})

    def run(name: str, /, settings: dict | None = None, **arguments) -> ToolResult:
        return REGISTRY.run(ToolCall("call-1", name, arguments), usual.rewire(**settings or {}))

    return run
