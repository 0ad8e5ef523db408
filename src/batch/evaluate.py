"""Judges the patches of a batch: the checks of each task run in a clean folder to which its patch is applied.

    verdicts.jsonl       a line for each row of the tasks, made anew each time

The checks that run behind an answer see what the model left in its folder: ignored files, caches, settings. These do
not.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..config import Settings
from ..errors import BotError, ConfigError
from .driver import WAIT_S, open_scratch
from .pool import ProcessPool
from .results import SUCCESS, CheckResult, Row, load_rows
from .task_run import Job
from .tasks import Task

VERDICTS = "verdicts.jsonl"


class Verdict(NamedTuple):
    """`verdict`: "passed", "failed" (a check did), or "error": the patch does not apply, or there is no folder."""

    id: str
    instance: str
    sample: int
    verdict: str
    reason: str
    checks: tuple[CheckResult, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"checks": [check._asdict() for check in self.checks]}


class Evaluation:
    """The rows of `folder` whose tasks are given. `show` gets how many have a verdict, of how many; how many passed."""

    def __init__(
        self,
        folder: Path,
        tasks: Sequence[Task],
        settings: Settings,
        *,
        jobs: int,
        timeout: float,
        show: Callable[[int, int, int], None] = lambda *_: None,
    ) -> None:
        """Raises BotError for a folder without rows of these tasks, ConfigError for a task without checks."""
        self._folder, self._settings, self._jobs, self._show = folder, settings, jobs, show
        self._pool = ProcessPool(timeout)
        by_id = {task.id: task for task in tasks}
        self._rows = {row.id: row for row in load_rows(folder) if row.instance in by_id}  # the last one of each task
        if not self._rows:
            raise BotError(f"{folder} has no row of these tasks.", "Name the file of tasks of that batch.")
        self._tasks = {row.id: by_id[row.instance]._replace(id=row.id) for row in self._rows.values()}
        if without := next((task for task in self._tasks.values() if not task.checks), None):
            raise ConfigError(f"The task {without.id} has no checks.", "Name one for all such with --check COMMAND.")

    def run(self) -> list[Verdict]:
        """The verdicts, in the order of the rows, which are also written. Raises BotError."""
        made: dict[str, Verdict] = {}
        with open_scratch(self._folder / "evaluation", self._settings) as scratch:
            for row in self._run_jobs(scratch):
                made[row.id] = _judge(self._rows[row.id], row)
                self._show(len(made), len(self._rows), count_passed(made.values()))
        verdicts = [made[name] for name in self._rows]
        lines = [json.dumps(each.to_dict(), ensure_ascii=False) + "\n" for each in verdicts]
        part = self._folder / f".{VERDICTS}"
        part.write_bytes("".join(lines).encode("utf-8", "replace"))
        part.replace(self._folder / VERDICTS)
        return verdicts

    def _run_jobs(self, scratch: Path) -> Iterator[Row]:
        rows, settings = self._rows, self._settings
        waiting = deque(
            Job(task, rows[name].hash, settings, scratch, rows[name].patch) for name, task in self._tasks.items()
        )
        try:
            while waiting or len(self._pool):
                while waiting and len(self._pool) < self._jobs:
                    self._pool.start(waiting.popleft())
                for _, outcome in self._pool.wait(WAIT_S):
                    yield outcome.row
        finally:
            self._pool.stop()


def count_passed(verdicts: Iterable[Verdict]) -> int:
    return sum(each.verdict == "passed" for each in verdicts)


def _judge(row: Row, evaluated: Row) -> Verdict:
    if evaluated.status != SUCCESS:
        verdict = "error"
    elif evaluated.is_success:
        verdict = "passed"
    else:
        verdict = "failed"
    return Verdict(row.id, row.instance, row.sample, verdict, evaluated.reason, evaluated.checks, evaluated.seconds)
