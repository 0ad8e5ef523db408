import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall, ToolResult
from tests.sources import ROOT
from tests.thorough import is_thorough
from tests.waiting import PATIENCE_S

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


@pytest.fixture
def list_type_errors(tmp_path: Path) -> Callable[[str], list[str]]:
    """What mypy --strict says of a program that imports `vllm_bot`; for tests marked `thorough`, since it takes seconds."""
    if not is_thorough():
        pytest.skip("mypy runs with --hypothesis-profile many")

    def list_type_errors(program: str) -> list[str]:
        (tmp_path / "use.py").write_text(program)
        (tmp_path / "vllm_bot").symlink_to(ROOT / "src")  # as it is when it is installed
        command = [sys.executable, "-m", "mypy", "--strict", "use.py", "--config-file", str(ROOT / "pyproject.toml")]
        cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "use")]
        done = subprocess.run([*command, *cache], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.stdout, done.stderr
        return [line for line in done.stdout.splitlines() if line.startswith("use.py:") and ": error:" in line]

    return list_type_errors
