"""A server that does what the prompt of a task says, and a repository for tasks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from src.app.endpoint import make_settings
from src.batch.results import CheckResult, Row
from src.batch.task_run import Job, TaskOutcome
from src.cli.demo.loopback import LoopbackReply, LoopbackRequest, serve
from src.cli.demo.protocol import DemoRequest, DemoServer, DemoTurn
from src.config import Settings


def play(request: DemoRequest) -> DemoTurn:
    """`write X` writes the file, `run COMMAND` runs it, `use TOOL` calls it, `say X` says it; the rest ends with `done`.

    `garble X` writes the file by a call in the text that has to be repaired, `delegate X` has a subagent do X.
    """
    asked = [index for index, each in enumerate(request.messages) if each["role"] == "user"]
    verb, _, rest = str(request.messages[asked[-1]]["content"]).split("\n")[0].partition(" ")
    has_result = any(each["role"] == "tool" for each in request.messages[asked[-1] :])
    if verb == "say":
        return DemoTurn(rest)
    if has_result:
        return DemoTurn("done")
    if verb == "write":
        return DemoTurn("", calls=(("write", {"path": rest, "content": "new\n"}),))
    if verb == "garble":
        return DemoTurn(f'TOOL_CALL: {{"name": "write", "args": {{"path": "{rest}", "content": "new",}}}}')
    if verb == "delegate":
        return DemoTurn("", calls=(("task", {"prompt": rest}),))
    if verb == "use":
        return DemoTurn("", calls=((rest, {}),))
    if verb == "run":
        return DemoTurn("", calls=(("exec", {"command": rest, "access": "write"}),))
    return DemoTurn("What?")


def refuse_nothing(request: LoopbackRequest) -> int:
    """The status of the refusal; 0 for none."""
    return 0


def refuse_after_a_turn(status: int, times: int) -> Callable[[LoopbackRequest], int]:
    """Refuse requests that hold the result of a call with this status, so many times."""
    statuses = iter([status] * times)
    return lambda request: next(statuses, 0) if b'"role":"tool"' in request.body else 0


class InstantPool:
    """In place of ProcessPool, for what a driver does with outcomes: a task ends at the next look, and asks no server.

    `refusals`: so many attempts are refused for load. `started` has the job of each attempt.
    """

    def __init__(self, refusals: int = 0) -> None:
        self.started: list[Job] = []
        self._running: list[Job] = []
        self._refusals = refusals

    def __len__(self) -> int:
        return len(self._running)

    def start(self, job: Job) -> None:
        self.started.append(job)
        self._running.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, TaskOutcome]]:
        ended, self._running = self._running, []
        return [(job, self._answer(job)) for job in ended]

    def stop(self) -> None:
        self._running.clear()

    def _answer(self, job: Job) -> TaskOutcome:
        if self._refusals:
            self._refusals -= 1
            return TaskOutcome(Row(job.task.id, job.hash, "error", "Too busy.", turns=1), is_overload=True)
        checks = tuple(CheckResult(command, command.count("exit 3"), "") for command in job.task.checks)
        answer = job.task.prompt.partition(" ")[2]
        return TaskOutcome(Row(job.task.id, job.hash, "answered", answer=answer, checks=checks, usage={"input": 9}))


@contextmanager
def open_server(
    state: Path,
    seen: list[str] | None = None,
    refuse: Callable[[LoopbackRequest], int] = refuse_nothing,
    *,
    has_parser: bool = True,
) -> Iterator[Settings]:
    """The settings that lead to a server that plays, and never retry. `seen` gets the path of each request."""
    server = DemoServer(play, lambda _: None, has_parser=has_parser)

    def answer(request: LoopbackRequest) -> LoopbackReply:
        if seen is not None:
            seen.append(request.path)
        if status := refuse(request):
            return LoopbackReply(status, "application/json", [b'{"error": {"message": "Too busy."}}'])
        return server(request)

    with serve(answer) as address:
        settings = make_settings(f"{address}/v1", "vllm", model="demo")
        yield replace(settings, state=state, vllm=replace(settings.vllm, retries=0, load_timeout=0))


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("old\n")
    (folder / ".gitignore").write_text("*.log\n")
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "first"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder
