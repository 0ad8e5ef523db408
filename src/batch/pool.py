"""Processes on this machine, one for each task. They are forked from a server that has loaded the program.

A process ends when its driver does: it watches the driver's end of its pipe. The commands that it runs end with it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from multiprocessing import connection, current_process, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from ..errors import describe_error
from ..security.sandbox.scratch import SOCKETS_PREFIX, hold_folder
from .task_run import Job, TaskOutcome, describe_ended, get_private_folder, remove_traces, run_task

END_GRACE_S = 10.0  # from SIGTERM to SIGKILL; a task ends the commands that it runs, which takes up to 7
EXIT_SIGNAL = 128


class Running(Struct):
    """A process and its task. `deadline`: on the monotonic clock."""

    job: Job
    process: BaseProcess
    pipe: Connection
    deadline: float


class ProcessPool:
    """`timeout`: seconds for one task."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        _place_sockets()
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._running: list[Running] = []

    def __len__(self) -> int:
        return len(self._running)

    def start(self, job: Job) -> None:
        """Raises OSError if there can be no process."""
        ours, theirs = self._context.Pipe(duplex=True)
        process = self._context.Process(target=_work, args=(job, theirs), daemon=True)
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._running.append(Running(job, process, ours, time.monotonic() + self._timeout))

    def wait(self, seconds: float) -> list[tuple[Job, TaskOutcome]]:
        """What ended within this time; at once if something has ended."""
        deadline = min([time.monotonic() + seconds, *(each.deadline for each in self._running)])
        connection.wait([each.pipe for each in self._running], max(0.0, deadline - time.monotonic()))
        ended = []
        for each in list(self._running):
            outcome: TaskOutcome | None = None
            if each.pipe.poll():
                outcome = self._receive(each)
            elif time.monotonic() >= each.deadline:
                _end([each])
                reason = f"The task took longer than {self._timeout:g} seconds."
                outcome = describe_ended(each.job, "timeout", reason, self._timeout)
            if outcome:
                self._running.remove(each)
                each.pipe.close()
                remove_traces(each.job, was_killed=outcome.row.status in ("timeout", "crashed"))
                ended.append((each.job, outcome))
        return ended

    def _receive(self, running: Running) -> TaskOutcome:
        try:
            outcome: TaskOutcome = running.pipe.recv()
        except (EOFError, OSError):
            _end([running])
            code = running.process.exitcode or 0
            how = f"exit code {code}"
            if code < 0:
                how = f"signal {signal.Signals(-code).name}"
            return describe_ended(running.job, "crashed", f"Its process ended with {how}.")
        _end([running], grace=END_GRACE_S)
        return outcome

    def stop(self) -> None:
        """End all tasks, which are not recorded, and remove their folders."""
        _end(self._running)
        for each in self._running:
            each.pipe.close()
            remove_traces(each.job, was_killed=True)
        self._running.clear()


@cache
def _place_sockets() -> None:
    """Put the sockets of multiprocessing where they are removed after kill -9: it would make a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix=SOCKETS_PREFIX))
    hold_folder(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    current_process()._config.setdefault("tempdir", str(folder))  # type: ignore[attr-defined] # as get_temp_dir does


def _end(running: list[Running], grace: float = 0.0) -> None:
    """Wait `grace` seconds for the processes to end by themselves; then SIGTERM, and END_GRACE_S later SIGKILL."""
    for step, seconds in ((None, grace), (signal.SIGTERM, END_GRACE_S), (signal.SIGKILL, END_GRACE_S)):
        deadline = time.monotonic() + seconds
        for each in running:
            if step and each.process.pid and each.process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(each.process.pid, step)
        for each in running:
            each.process.join(max(0.0, deadline - time.monotonic()))


def _work(job: Job, pipe: Connection) -> None:
    """The process of one task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides what Ctrl-C ends
    signal.signal(signal.SIGTERM, _leave)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what tools print is nobody's result
        os.dup2(null, descriptor)
    tempfile.tempdir = str(get_private_folder(job))  # so that what a process leaves that is killed goes with its folder
    threading.Thread(target=_end_with_driver, args=(pipe,), daemon=True).start()
    try:
        outcome = run_task(job)
    except Exception as error:  # noqa: BLE001 - a mistake of ours fails this task only, and is in its row
        outcome = describe_ended(job, "error", describe_error(error))
    pipe.send(outcome)


def _leave(number: int, _: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(EXIT_SIGNAL + number)


def _end_with_driver(pipe: Connection) -> None:
    """The driver sends nothing: what can be read is the end of the pipe."""
    connection.wait([pipe])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_GRACE_S)
    os._exit(1)
