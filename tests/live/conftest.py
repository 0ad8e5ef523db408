"""Live tests drive the program against real vLLM servers.

VLLM_BOT_LIVE_URL names a server that is up already: the plain tests run against it.
VLLM_BOT_RIG is the folder of the rig: the rest of the tests start servers from it, which say what
rules.json tells them to. VLLM_BOT_RIG_MODELS holds its models (~/rig). Without either, all are skipped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pexpect
import pytest

from .cells import FOUND, table
from .rig import KINDS, Rig, Server

ROOT = Path(__file__).resolve().parents[2]
LIVE_URL = os.environ.get("VLLM_BOT_LIVE_URL", "")
RIG = os.environ.get("VLLM_BOT_RIG", "")
NO_SERVER = "there is no server: see VLLM_BOT_LIVE_URL and VLLM_BOT_RIG in docs/development.md"
PATIENCE = 300  # seconds for one run, on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here as live, and sort it by server, so that each server is started once."""
    kinds = list(KINDS)
    folder = Path(__file__).parent
    files = {path for path in {item.path for item in items} if folder in path.parents}
    here = [item for item in items if item.path in files]
    for item in here:
        item.add_marker(pytest.mark.live)
    here.sort(key=lambda item: kinds.index(kind_of(item)))
    items[:] = [item for item in items if item.path not in files] + here


class ModuleWithoutServer(pytest.Module):
    """Neither imported nor collected: hundreds of tests that would be skipped one by one, in each process."""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip(NO_SERVER)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if RIG or LIVE_URL or module_path.name == "test_copilot.py":  # which needs none
        return None
    return ModuleWithoutServer.from_parent(parent, path=module_path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skipped from one place, so that pytest tells of it in one line."""
    needs = {"server": RIG, "any_server": RIG or LIVE_URL}
    if any(name in item.fixturenames and not there for name, there in needs.items()):
        pytest.skip(NO_SERVER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FOUND:
        terminalreporter.write_sep("=", "the matrix: how each call was found; streamed / whole where they differ")
        terminalreporter.write_line("* had back after the server's parser lost it   ! after one correction   - no call")
        for line in table(FOUND):
            terminalreporter.write_line(line)


def kind_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("server", "hermes") if callspec else "hermes"


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    models = Path(os.environ.get("VLLM_BOT_RIG_MODELS", "~/rig")).expanduser()
    rig = Rig(Path(RIG), models, tmp_path_factory.mktemp("rig"))
    try:
        yield rig
    finally:
        rig.stop()


@pytest.fixture
def server(rig: Rig, request: pytest.FixtureRequest) -> Server:
    """A server of the kind that the test names, hermes where it names none."""
    return rig.server(getattr(request, "param", "hermes"))


@pytest.fixture
def any_server(request: pytest.FixtureRequest) -> Server:
    """The server at VLLM_BOT_LIVE_URL, whatever it serves; else one of the rig."""
    if LIVE_URL:
        return Server("any", LIVE_URL, os.environ.get("VLLM_API_KEY", ""))
    return request.getfixturevalue("server")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "notes.txt").write_text("The heron stands in the reeds.\n")
    (folder / "list.txt").write_text("rope, lamp, bread\n")
    return folder


class Answer(NamedTuple):
    """What a run of the program left behind."""

    stdout: str
    stderr: str
    code: int

    @property
    def debug(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("[DEBUG] ")]

    @property
    def notices(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("! ")]


class Program:
    """`cli.py` with a config file and an environment of its own."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._folder = folder
        self._workspace = workspace

    def command(self, server: Server, *options: str, **sections: dict) -> list[str]:
        config = self._folder / "config.json"
        vllm = {"base_url": server.base_url, **sections.pop("vllm", {})}
        config.write_text(json.dumps({"vllm": vllm, **sections}))
        return [sys.executable, str(ROOT / "cli.py"), "--config", str(config), *options]

    def environment(self, server: Server, **more: str) -> dict[str, str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "TERM": "dumb", "LANG": "C.UTF-8"}
        return {**own, "VLLM_API_KEY": server.api_key, **more}

    def ask(self, server: Server, question: str, *options: str, debug: str = "", **sections: dict) -> Answer:
        return self.run(server, "-p", question, *options, debug=debug, **sections)

    def pipe(self, server: Server, question: str) -> Answer:
        return self.run(server, piped=question)

    def run(
        self, server: Server, *arguments: str, piped: str | None = None, debug: str = "", **sections: dict
    ) -> Answer:
        """`piped`: what comes on standard input; None: nothing does."""
        done = subprocess.run(
            self.command(server, *arguments, **sections),
            cwd=self._workspace,
            env=self.environment(server, DEBUG=debug),
            **({"stdin": subprocess.DEVNULL} if piped is None else {"input": piped}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return Answer(done.stdout, done.stderr, done.returncode)

    def chat(
        self, server: Server, *options: str, debug: str = "", term: str = "dumb", **sections: dict
    ) -> pexpect.spawn:
        """The program on a terminal of its own."""
        program, *arguments = self.command(server, *options, **sections)
        return pexpect.spawn(
            program,
            arguments,
            cwd=str(self._workspace),
            env=self.environment(server, DEBUG=debug, TERM=term),
            encoding="utf-8",
            timeout=PATIENCE,
            dimensions=(40, 200),
            preexec_fn=listen_to_ctrl_c,
        )


def listen_to_ctrl_c() -> None:
    """What runs in the background of a script ignores it, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def program(tmp_path: Path, workspace: Path) -> Program:
    return Program(tmp_path, workspace)


@pytest.fixture
def chat(program: Program) -> Iterator[Callable[..., pexpect.spawn]]:
    """Opens chats, and closes them after the test."""
    opened: list[pexpect.spawn] = []

    def open_chat(*arguments: object, **options: object) -> pexpect.spawn:
        opened.append(program.chat(*arguments, **options))
        return opened[-1]

    yield open_chat
    for each in opened:
        if each.isalive():
            each.kill(signal.SIGKILL)
            each.wait()  # close() gives a busy machine a tenth of a second, and then an error
        each.close()
