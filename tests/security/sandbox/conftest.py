"""Commands run in each kind of sandbox that works here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from src.security.sandbox.choose import choose, make_landlock, make_sandbox
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.loopback import find_loopback
from src.security.sandbox.view import SandboxView, complete_view, select_environment
from src.tools import ToolContext
from src.tools.process.run import run as run_program
from src.types.sandbox import Access
from tests.waiting import PATIENCE_S

KINDS = ("bubblewrap", "landlock")
WITHOUT_LOOPBACK = "landlock without a loopback"  # as where the system gives no network namespaces
PATH = os.environ["PATH"]  # which decides whether there is a bubblewrap
Run = Callable[..., str]
END = "<end of a command>"
find_shared_loopback = cache(find_loopback)  # making a network takes longer than a command


@cache
def explain_unusable(kind: str) -> str:
    """Why that kind does not work on this machine; empty where it works. Trial commands take most of a test's time."""
    kind = "landlock" if kind == WITHOUT_LOOPBACK else kind
    environment = {"PATH": PATH}
    with TemporaryDirectory() as folder:
        view = complete_view(SandboxView(Path(folder)), environment)
        choice = choose("auto", view, ResourceLimits(), environment, (kind,))
        return "" if choice.sandbox.kind == kind else choice.warning


def make_context(
    kind: str, workspace: Path, environment: dict[str, str], limits: ResourceLimits | None = None, **seen
) -> ToolContext:
    """A context whose commands run in that kind; skips the test where it does not work."""
    if why := explain_unusable(kind):
        pytest.skip(why)
    view = complete_view(SandboxView(workspace, **seen), environment)
    if kind == "landlock":
        sandbox = make_landlock(view, limits or ResourceLimits(), find_shared_loopback)
    else:
        sandbox = make_sandbox(kind, view, limits or ResourceLimits(), environment)
    return ToolContext(workspace, environment=select_environment(environment)).rewire(sandbox=sandbox)


def make_runner(kind: str, workspace: Path, environment: dict[str, str], **given) -> Run:
    """What runs a command in that kind and returns what the model would see."""
    context = make_context(kind, workspace, environment, **given)

    def run(command: str, timeout: float = 20, access: Access = "write") -> str:
        done = run_program(["/bin/bash", "-c", "--", command], context.rewire(exec_timeout=timeout), access)
        return done.text

    return run


def run_each(run: Run, commands: Iterable[str]) -> dict[str, str]:
    """What each command shows, in one start of the sandbox, which takes longer than most commands."""
    commands = list(commands)
    script = "".join(f"(\n{command}\n) 2>&1; echo '[exit code '$?']{END}'\n" for command in commands)
    return dict(zip(commands, run(script, timeout=PATIENCE_S).split(f"{END}\n"), strict=False))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_rsa").write_text("CANARY\n")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "outside" / "workspace"
    folder.mkdir(parents=True)
    (folder.parent / "secret").write_text("CANARY\n")
    return folder


@pytest.fixture
def make(kind: str, workspace: Path, home: Path) -> Callable[..., Run]:
    """A sandbox, with limits and parts of the view as they are given."""

    def make(environment: dict[str, str] | None = None, **given) -> Run:
        return make_runner(kind, workspace, {"PATH": PATH, "HOME": str(home), **(environment or {})}, **given)

    return make


@pytest.fixture
def within(kind: str, workspace: Path, home: Path) -> Iterator[ToolContext]:
    """The context of an answer, at the end of which its commands in the background end."""
    with make_context(kind, workspace, {"PATH": PATH, "HOME": str(home)}).for_run() as ctx:
        yield ctx


@pytest.fixture
def run(make: Callable[..., Run]) -> Run:
    return make()


@pytest.fixture
def is_root() -> bool:
    return os.geteuid() == 0
