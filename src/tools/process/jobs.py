"""Commands in the background. Each has a thread that reads its output and waits for its end.

They belong to a chat, or to one answer where there is no chat, and `Jobs.close` ends them with it. The model and the
user are each told of an end once: `Jobs.take_ended` and `Jobs.take_unshown` give a job only once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from ...errors import ToolError
from ...types.file_names import escape_name
from .output import Output

MAX_RUNNING = 8
MAX_KEPT = 30  # jobs, of which those that ended first are forgotten
END_TIMEOUT_S = 15.0  # for the processes of a job to end, and for its sandbox to restore what is protected
TAIL_LINES, TAIL_CHARS = 3, 400  # of the output, in what the model is told of an end


class BackgroundJob:
    """One command. `ending`: how it ended, in words; empty while it runs.

    `began_s`: on the monotonic clock; `on_end` is called in its thread after the end. `is_told`: the model knows of the
    end, or a result tells it; `is_shown`: the user knows of it.
    """

    def __init__(self, number: int, command: str, output: Output, began_s: float, on_end: Callable[[], None]) -> None:
        self.number = number
        self.command = command
        self.ref = output.ref  # of the whole output; "" if none is stored
        self.ending = ""
        self.exit_code: int | None = None  # None if it did not end by itself
        self.is_told = self.is_shown = False
        self.has_begun = threading.Event()  # and later commands can reach it; or it has ended
        self.has_ended = threading.Event()
        self._output = output
        self._lock = threading.Lock()
        self._is_unwanted = threading.Event()
        self._on_end = on_end
        self.began_s = began_s
        self._ended_s = 0.0

    @property
    def state(self) -> str:
        """`running for 12 s`, or how it ended and after how long."""
        if self.ending:
            return f"{self.ending}, after {self._ended_s - self.began_s:.0f} s"
        return f"running for {time.monotonic() - self.began_s:.0f} s"

    def feed(self, data: bytes) -> None:
        """Take a piece of its output, which can then be read under `ref`."""
        with self._lock:
            self._output.feed(data)
            self._output.flush()

    def read_output(self) -> str:
        """Its output so far; of a long one the head and the tail."""
        with self._lock:
            return self._output.read()

    def end(self) -> None:
        """Have all its processes ended; its thread does it."""
        self._is_unwanted.set()

    def raise_if_unwanted(self) -> None:
        if self._is_unwanted.is_set():
            raise ToolError("it was ended")

    def run(self, follow: Callable[[], str]) -> None:
        """Run `follow`, which returns how the job ended, in a thread of its own."""

        def work() -> None:
            ending = "it broke off"
            try:
                ending = follow()
            except ToolError as error:
                ending = error.message
            finally:
                self.ending, self._ended_s = ending, time.monotonic()
                self.has_begun.set()
                self.has_ended.set()
                self._on_end()

        threading.Thread(target=work, daemon=True, name=f"job {self.number}").start()

    def summarize_end(self) -> str:
        """What the user is told once it has ended."""
        summary = f"Background job {self.number} ended ({self.state}): {escape_name(self.command)}"
        if not self.exit_code:
            return summary
        last = self.read_output().rstrip().splitlines()[-1:]
        return "\n".join([summary, *(line.strip()[-TAIL_CHARS:] for line in last)])

    def describe_end(self) -> str:
        """What the model is told once it has ended."""
        tail = "\n".join(self.read_output().rstrip().splitlines()[-TAIL_LINES:])[-TAIL_CHARS:]
        where = f', all of which is in tool_output_cache(ref_id="{self.ref}")' if self.ref else ""
        ended = f"background job {self.number} ended ({self.state}): {self.command}"
        if tail:
            ended += f"\nthe end of its output{where}:\n{tail}"
        return ended


class Jobs:
    """Those of one chat or answer, the first ones first. `on_end` is called in a job's thread after its end."""

    def __init__(self) -> None:
        self.on_end: Callable[[], None] = lambda: None
        self._jobs: dict[int, BackgroundJob] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._foreground = 0  # commands; subagents run several
        self._request = threading.Event()

    def __iter__(self) -> Iterator[BackgroundJob]:
        return iter(list(self._jobs.values()))

    @property
    def running(self) -> list[BackgroundJob]:
        return [job for job in self if not job.has_ended.is_set()]

    @property
    def is_busy(self) -> bool:
        """Whether a command runs, in the background or not."""
        return self._foreground > 0 or bool(self.running)

    def open(self, command: str, output: Output, began_s: float | None = None) -> BackgroundJob:
        """A job that is about to begin, or whose command has begun. Raises ToolError if there are too many."""
        with self._lock:
            if len(running := self.running) >= MAX_RUNNING:
                hint = f"End one, as in `kill %{running[0].number}`."
                raise ToolError(f"{MAX_RUNNING} commands run in the background already", hint)
            ended = [job for job in self if job.is_told and job.has_ended.is_set()]
            for job in ended[: max(0, len(self._jobs) - MAX_KEPT)]:
                del self._jobs[job.number]
            if began_s is None:
                began_s = time.monotonic()
            job = BackgroundJob(next(self._numbers), command, output, began_s, lambda: self.on_end())
            self._jobs[job.number] = job
            return job

    def find(self, number: int) -> BackgroundJob:
        """Raises ToolError if there is none of that number."""
        if job := self._jobs.get(number):
            return job
        numbers = ", ".join(f"%{job.number}" for job in self) or "there is none"
        raise ToolError(f"there is no background job {number}", f"Known: {numbers}.")

    @contextmanager
    def in_foreground(self) -> Iterator[None]:
        """While a command runs that the user may send to the background."""
        self._request.clear()
        self._foreground += 1
        try:
            yield
        finally:
            self._foreground -= 1

    @property
    def can_send(self) -> bool:
        """Whether the user can send a command to the background."""
        return self._foreground > 0 and len(self.running) < MAX_RUNNING

    def request(self) -> None:
        """The user sends the command that runs to the background; any thread may call it."""
        self._request.set()

    def take_request(self) -> bool:
        """Whether the user wants the command that runs to be in the background."""
        return self._request.is_set() and self.can_send

    def take_ended(self) -> list[BackgroundJob]:
        """Those of whose end the model was not told; it now is."""
        with self._lock:
            ended = [job for job in self if job.has_ended.is_set() and not job.is_told]
            for job in ended:
                job.is_told = True
        return ended

    def take_unshown(self) -> list[BackgroundJob]:
        """Those of whose end neither the model nor the user was told; the user now is."""
        with self._lock:
            ended = [job for job in self if job.has_ended.is_set() and not (job.is_told or job.is_shown)]
            for job in ended:
                job.is_shown = True
        return ended

    def close(self) -> list[BackgroundJob]:
        """End all, and wait for it; returns those that ran."""
        running = self.running
        for job in running:
            job.is_shown = True  # by who closes them
            job.end()
        deadline = time.monotonic() + END_TIMEOUT_S
        for job in running:
            job.has_ended.wait(max(0.0, deadline - time.monotonic()))
        return running
