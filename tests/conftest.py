"""No test writes to the home of the user who runs it or looks at this machine's temporary files, and garbage collection
skips what was collected.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from .huge_pages import collapse_pages
from .sources import ROOT
from .thorough import is_left_out, is_thorough, register_profiles
from .waiting import PATIENCE_S

register_profiles()
NUMBERS = count()
GC_THRESHOLD_OBJECTS = 20_000


def pytest_configure() -> None:
    """A job in the background of a shell ignores Ctrl-C, and so would each program that a test starts.

    Bytecode is kept, whatever the environment says: each worker and each program would compile all modules again.
    Standard output is buffered as it is for users, since PYTHONUNBUFFERED hides what is flushed too late.
    While tests are collected next to nothing becomes garbage, and looking for it took a fifth of the time.
    """
    gc.disable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("PYTHONUNBUFFERED", None)
    sys.dont_write_bytecode = False
    _hold_coverage_at_forks()


def _hold_coverage_at_forks() -> None:
    """A child of a command runs Python before its program starts, and coverage.py locks its data to trace a new file.

    Held by another thread at the fork, that lock would never be free in the child. So no other thread holds it then;
    the same one may take it again, since a signal's handler may run in between.
    """
    coverage = sys.modules.get("coverage")
    measured = coverage.Coverage.current() if coverage else None
    if measured and measured._collector:
        measured._collector.data_lock = lock = threading.RLock()
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if left_out := [item for item in items if is_left_out(item)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_left_out(item)]
    items.sort(key=looks_at_sources)


def looks_at_sources(item: pytest.Item) -> bool:
    """Whether it reads all sources. Such tests come last: 120 MB of trees stay, which each later fork would copy."""
    return hasattr(getattr(item, "module", None), "nodes")


def pytest_collection_finish() -> None:
    """Thousands of tests, and what they imported, are here to stay.

    Looking through them for garbage took a tenth of the time, copying their page tables at forks another tenth. Looking for
    what tests leave at the usual threshold took a twentieth.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    gc.enable()
    collapse_pages()


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One for the temporary files of tests and of programs that they start, gone at the end.

    Each sandbox looks at all of them for what was abandoned, and another program may have left thousands. The path is
    short: that of a socket has few bytes.
    """
    tmp_path_factory.getbasetemp()  # is kept, so it is made outside
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="bot-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # other users pass, as they pass the usual one
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for each test, that does not exist yet: most tests keep nothing, and a folder for each of them takes time."""
    names = "XDG_STATE_HOME", "XDG_CONFIG_HOME"
    before = {name: os.environ.get(name) for name in names}
    folder = tmp_path_factory.getbasetemp() / "states" / str(next(NUMBERS))
    os.environ |= dict.fromkeys(names, str(folder))
    yield folder
    if endpoint := sys.modules.get("src.app.endpoint"):  # another server may have that port next
        endpoint.FACTS.clear()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(params=["threads", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable]:
    """Makes a driver of each kind: `connect(base_url, api_key, **settings)`. All are closed at the end."""
    pytest.importorskip("aiohttp")
    from .drivers import DRIVERS

    made = []

    def make(*given, **settings):
        made.append(DRIVERS[request.param](*given, **settings))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


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
