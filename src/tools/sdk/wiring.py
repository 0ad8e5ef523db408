"""What the program gives its own tools and its loop with a ToolContext: limits, the sandbox, and whom to tell of what.

A tool of a user needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, Union

from msgspec import Struct, field

from ...errors import ToolError
from ...types.process import StartedProcess
from ...types.sandbox import Access, Grant, Sandbox
from ..fs.text_files import DISK, TextFiles
from ..process.async_loop import AsyncLoop
from ..process.jobs import Jobs
from .dependencies import Scope
from .output_store import Outputs

OnProcess = Callable[[StartedProcess], None]  # called for a command, perhaps by several threads


class CommandReport(Struct, eq=False):
    """What the loop learns of a command that failed; `widest_access`, what a call can name, is for the command.

    `explanation`: what its access does not include, "" if that cannot be why it failed. `named_none`: the call named
    no access, it was run with read, and more access may cure it. `cause`: the line of its output that names a refused
    file, as far as it is known.
    """

    widest_access: Access = "network"
    exit_code: int = 0
    explanation: str = ""
    named_none: bool = False
    cause: str = ""


class Inbox:
    """What calls in threads of their own tell the loop that waits for them: events, and questions for the user."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._items: list[Any] = []
        self._arrival: Future[None] = Future()

    def put(self, *items: object) -> None:
        """Have the loop look at the items, if there are any, and at what it waits for."""
        with self._lock:
            self._items += items
            arrival, self._arrival = self._arrival, Future()
        arrival.set_result(None)

    def take(self) -> tuple[list[Any], Future[None]]:
        """What has come, and what is settled once there is more."""
        with self._lock:
            items, self._items = self._items, []
            return items, self._arrival


class RunState:
    """What the calls of one answer share."""

    def __init__(self, loop: AsyncLoop | None = None) -> None:
        self.scope = Scope()
        self.jobs = Jobs()
        self.loop = loop or AsyncLoop()
        self.summary: str | None = None  # of the tool that ended the run, if one did


class Wiring(Struct, frozen=True, eq=False):
    """See the module. `creating`: the key of the dependency that is being made with this context."""

    max_file_bytes: int = 10_000_000
    files: TextFiles = DISK  # where read, write and edit find their files
    added_folders: tuple[Path, ...] = ()  # besides the workspace, resolved: tools read and write there, too
    protected: tuple[Path, ...] = ()  # paths that no tool writes, whether they exist or not
    exec_timeout: float = 120.0  # seconds
    exec_max_timeout: float = 3600.0  # seconds; the longest that a call may name
    exec_max_output: int = 30_000  # characters
    can_show: Callable[[str, str], bool] = lambda *_: True  # whether a tool that searches may show a file, by its path
    outputs: Outputs | None = None  # where whole outputs are stored; None: nowhere
    # Called before a tool replaces or creates a file, with its place (beneath.find_place) and its
    # old content (None: no file). The file is not written if it raises.
    before_write: Callable[[str, Union[bytes, None]], None] = lambda *_: None
    # Entered around a call that may change files and does not say which, with whether it can change nothing else.
    watch_files: Callable[[bool], AbstractContextManager[None]] = lambda _: nullcontext()
    on_start: OnProcess = lambda _: None  # called when a command has started
    on_end: OnProcess = lambda _: None  # called when one in the background has ended
    # Called with a call's id and what its command prints, perhaps by several threads.
    on_output: Callable[[str, str], None] = lambda *_: None
    # What the project's own checkers say of files that calls have changed: (paths, context) -> Checks, see
    # ../sources/diagnostics.py. None: they are not asked.
    diagnose: Callable[..., Generator[str, bool, str]] | None = None
    sandbox: Sandbox | None = None  # None: commands run without one
    chat_jobs: Jobs | None = None  # where commands in the background outlive the answer; None: they end with it
    access: Grant | None = None  # what this call was allowed; None: what it names
    report: CommandReport = field(default_factory=CommandReport)
    inbox: Inbox | None = None  # of the loop that waits for the call; None: it waits for the result alone
    # Runs a subagent to its end in the thread of its call: (prompt, context, may_change=, server=) -> its report. It
    # raises ToolError if there is none. None: no subagent can be started.
    run_task: Callable[..., str] | None = None
    todos: list[tuple[str, str]] = []  # content and status, of todo_write
    run: RunState | None = None
    call_scope: Scope | None = None
    creating: str = ""

    @property
    def running(self) -> RunState:
        """The state of the run. Raises ToolError outside of one."""
        if self.run is None:
            raise ToolError("this context is not that of a call")
        return self.run

    @property
    def jobs(self) -> Jobs:
        """The commands in the background, of the chat or of this answer. Raises ToolError outside a run."""
        return self.chat_jobs or self.running.jobs
