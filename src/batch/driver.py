"""Runs the tasks that have no row yet, and records each as it ends."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..app.state_files import SERVERS
from ..config import Settings
from ..errors import BotError
from ..security.sandbox.scratch import BATCH_PREFIX, hold_folder, remove_abandoned
from .load import LOOK_INTERVAL_S, LoadControl, fetch_waiting
from .pool import ProcessPool
from .results import Results, Row
from .task_run import BACKOFF_S, MAX_ATTEMPTS, Job, TaskOutcome, point_to
from .tasks import BatchOptions, Task, select_relevant

WAIT_S = 0.5


class BatchProgress(Struct, frozen=True):
    """`rows` and `total` count tasks; `seconds` is since the start, in which `ended` tasks ended.

    `running` is None where other machines know. `refusal`: why the server took the last task not yet, if that is so.
    """

    rows: tuple[Row, ...]
    total: int
    running: int | None
    ended: int
    seconds: float
    refusal: str = ""

    @property
    def seconds_left(self) -> float | None:
        tasks_left = self.total - len(self.rows)
        return tasks_left * self.seconds / self.ended if self.ended else None


class _Attempt(Struct, frozen=True):
    """A job that waits for a server. `number` counts from 1; `due` is when it may begin, by time.monotonic."""

    job: Job
    number: int = 1
    due: float = 0.0


class Batch:
    """The tasks of a file under some settings, and their rows. `show` is called when something changed, and often."""

    def __init__(
        self,
        tasks: Sequence[Task],
        settings: Settings,
        results: Results,
        options: BatchOptions,
        show: Callable[[BatchProgress], None] = lambda _: None,
        make_pool: Callable[[float], ProcessPool] = ProcessPool,
    ) -> None:
        self._settings = settings
        self.results = results
        self._options = options
        self._show = show
        self._make_pool = make_pool
        relevant = select_relevant(settings)
        self._keys = [(task.id, task.compute_hash(relevant)) for task in tasks]
        self._todo = [
            (task, key[1])
            for task, key in zip(tasks, self._keys, strict=True)
            if (row := results.rows.get(key)) is None or (options.retry_failed and not row.is_success)
        ]
        self._extra = {task.id: task.extra for task in tasks}  # which no task's process has to see
        self._began = time.monotonic()
        self._ended = 0
        self._refusal = ""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Those of these tasks, in their order."""
        return tuple(self.results.rows[key] for key in self._keys if key in self.results.rows)

    @property
    def is_over_budget(self) -> bool:
        budget = self._options.budget_tokens
        return budget is not None and sum(row.tokens for row in self.rows) >= budget

    def run(self) -> None:
        """Raises BotError, and whatever ends it; then no task is left running."""
        if self._todo and not self.is_over_budget:
            with open_scratch(self.results.folder, self._settings) as scratch:
                jobs = [Job(task._replace(extra={}), digest, self._settings, scratch) for task, digest in self._todo]
                if self._options.ray is None:
                    self._run_here(jobs)
                else:
                    from .cluster import run_on_ray  # of an extra

                    for outcome in run_on_ray(jobs, self._options, lambda: self.is_over_budget):
                        self._record(outcome)
                        self.show(None)
        self.results.export(self.rows)

    def show(self, running: int | None) -> None:
        seconds = time.monotonic() - self._began
        self._show(BatchProgress(self.rows, len(self._keys), running, self._ended, seconds, self._refusal))

    def _run_here(self, jobs: Sequence[Job]) -> None:
        waiting = deque(map(_Attempt, jobs))
        placed: dict[str, tuple[_Attempt, str]] = {}  # by the task's id: its attempt, and its server
        control = LoadControl(self._options.servers, self._options.jobs)
        pool = self._make_pool(self._options.timeout)
        with ThreadPoolExecutor(1, "load") as looker:
            look = LoadLook(control, self._settings, looker)
            try:
                while waiting or len(pool):
                    now = time.monotonic()
                    for attempt, server in self._place(waiting, control, now):
                        placed[attempt.job.task.id] = attempt, server
                        pool.start(replace(attempt.job, settings=point_to(attempt.job.settings, server)))
                    if self.is_over_budget and not len(pool):
                        return
                    for job, outcome in pool.wait(WAIT_S):
                        attempt, server = placed.pop(job.task.id)
                        control.release(server, is_overload=outcome.is_overload)
                        if outcome.is_overload and attempt.number < MAX_ATTEMPTS:
                            due = now + BACKOFF_S * attempt.number
                            waiting.append(_Attempt(job, attempt.number + 1, due))
                            self._refusal = outcome.row.reason.partition("\n")[0]
                        else:
                            self._record(outcome)
                    look.take()
                    self.show(len(pool))
            finally:
                pool.stop()

    def _place(self, waiting: deque[_Attempt], control: LoadControl, now: float) -> Iterator[tuple[_Attempt, str]]:
        """The jobs that may start now, each with its server; one that is due later goes behind the others."""
        for _ in range(len(waiting)):
            if self.is_over_budget:
                return
            if waiting[0].due > now:
                waiting.rotate(-1)
                return
            if (server := control.acquire()) is None:
                return
            yield waiting.popleft(), server

    def _record(self, outcome: TaskOutcome) -> None:
        self.results.add(outcome.row._replace(extra=self._extra[outcome.row.id]), outcome.conversation)
        self._ended += 1
        self._refusal = ""


class LoadLook:
    """Looks at the load of all servers each second, in a thread of its own, so that a slow server delays no task."""

    def __init__(self, control: LoadControl, settings: Settings, executor: ThreadPoolExecutor) -> None:
        self._control = control
        self._settings = {address: point_to(settings, address) for address in control.replicas}
        self._executor = executor
        self._look = executor.submit(self._fetch)
        self._next = time.monotonic() + LOOK_INTERVAL_S

    def take(self) -> None:
        """Use what the last look found, and begin the next one when it is time."""
        if time.monotonic() < self._next or not self._look.done():
            return
        for address, waiting in self._look.result().items():
            self._control.note_waiting(address, waiting or 0.0)
        self._look = self._executor.submit(self._fetch)
        self._next = time.monotonic() + LOOK_INTERVAL_S

    def _fetch(self) -> dict[str, float | None]:
        return {address: fetch_waiting(settings) for address, settings in self._settings.items()}


@contextmanager
def open_scratch(out: Path, settings: Settings) -> Iterator[Path]:
    """A folder for what lasts as long as the batch. Those that killed drivers left are removed first.

    It is no part of `out`, which may be in a repository whose AGENTS.md is not the tasks'. Raises BotError.
    """
    name = sha256(str(out.resolve()).encode()).hexdigest()[:16]
    scratch = Path(tempfile.gettempdir()) / f"{BATCH_PREFIX}{name}"
    try:
        remove_abandoned(scratch.parent)
        lock = hold_folder(scratch)
    except OSError as error:
        raise BotError(f"{scratch}: {error.strerror or error}.", "Remove it, or set TMPDIR.") from error
    try:
        if (facts := settings.state / SERVERS).exists():
            shutil.copyfile(facts, scratch / SERVERS)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)
