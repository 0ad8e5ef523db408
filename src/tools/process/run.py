"""Run one program with bounded output, so that all its processes can be ended together.

- `run(argv, ctx)` runs a tool's command in a session of its own, without stdin. It returns the output, with the middle
  cut out, and the exit code; all of the output goes to the output store. At the timeout, on cancellation, on Ctrl-C,
  after a normal end and when this program is killed, what is left of it gets SIGTERM, then SIGKILL: by the sandbox, or
  by a supervisor (supervisor.py).
- `run_live(argv, cwd, environment, on_output) -> int` runs the user's own command with the terminal of this process:
  a new session could not open /dev/tty, where sudo and ssh ask. The terminal sends Ctrl-C to the command, too;
  `interrupt_grace_s` later, or at a second Ctrl-C, SIGKILL ends the command and all that still holds its output.

`run` waits for the program, not for the end of its output, since a process it left may hold the pipe. Memory is bounded
by the output kept.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Any

from ...errors import ToolError
from ...signals import ENDING_SIGNALS
from ...types.file_names import UNPASSABLE
from ...types.sandbox import Grant, Launch
from ..sdk.context import ToolContext
from ..sdk.output_store import ToolOutput
from .output import Output
from .proc import PROC, TaskLimit, identify, list_processes
from .supervisor import END_TIMEOUT_S, KILL_GRACE_S, LINGER_S, Supervisor

if TYPE_CHECKING:
    from subprocess import Popen

POLL_S = 0.05  # seconds between checks for the program's end and for cancellation
INTERRUPT_GRACE_S = 1.0  # seconds from a user's Ctrl-C to SIGKILL
READ_BYTES = 1 << 16
BACKGROUND_ENDED = "what it left running in the background was ended"  # the sandboxes use the same words


class RunningCommand:
    """A program that was started in its sandbox. `finish` has to be called, whatever comes.

    Raises ToolError if it cannot be started.
    """

    def __init__(self, argv: Sequence[str], ctx: ToolContext, access: Grant) -> None:
        if any(UNPASSABLE.search(word) for word in argv):
            raise ToolError("a command can hold neither a NUL nor a lone surrogate")
        self._launch = launch = _prepare_launch(argv, ctx, access)
        self._supervisor = None if launch.ends_with_parent else Supervisor()
        self._has_ended = False
        self.began_s = time.monotonic()
        try:
            self._process = _start(launch, ctx.workspace, self._supervisor)
        except BaseException:
            if self._supervisor:
                self._supervisor.end()
                self._supervisor.close()
            launch.settle()
            launch.tidy_up()
            raise
        self.started = identify(self._process.pid, argv)

    def read(self, feed: Callable[[bytes], object], timeout_s: float, check: Callable[[], None]) -> None:
        """Feed its output until it has ended, or the time is over. Raises what `check` raises."""
        limit = TaskLimit(self._process.pid, self._launch.max_tasks)

        def check_all() -> None:
            check()
            limit.check()

        self._has_ended = _read_until_end(self._process, feed, time.monotonic() + timeout_s, check_all)

    def share_network(self) -> None:
        """Let later commands with the same access reach it, where commands have a network of their own."""
        self._launch.share_network()

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._has_ended else None

    def finish(self, why_not_ended: str) -> str:
        """End what is left of it. Returns how it ended, in words."""
        left_over = _stop(self._process, self._supervisor)
        self._launch.settle()
        distinct = dict.fromkeys([*([BACKGROUND_ENDED] if left_over else []), *self._launch.tidy_up()])
        code = self.exit_code
        notes = [each for each in distinct if each != BACKGROUND_ENDED or code is not None]
        return "; ".join([why_not_ended if code is None else describe_exit(code), *notes])


class SentToBackground(Exception):
    """The user sent a command to the background: it runs, and `store` has to be closed after it."""

    def __init__(self, command: RunningCommand, output: Output, store: ExitStack) -> None:
        super().__init__()
        self.command, self.output, self.store = command, output, store


def run(argv: Sequence[str], ctx: ToolContext, access: Grant = "write") -> ToolOutput:
    """Run a program to its end. The sandbox holds it to `access`.

    Raises ToolError if it cannot be started, or is cancelled; SentToBackground if the user sends it there.
    """
    jobs = ctx.wiring.chat_jobs
    with ExitStack() as stack, HeldInterrupts() as interrupts, jobs.in_foreground() if jobs else nullcontext():
        output = stack.enter_context(open_output(ctx))
        command, is_left = RunningCommand(argv, ctx, access), False

        def check() -> None:
            ctx.raise_if_cancelled()
            if jobs and jobs.take_request():
                raise SentToBackground(command, output, stack.pop_all())

        try:
            ctx.wiring.on_start(command.started)
            with interrupts.allowed():
                command.read(output.feed, ctx.wiring.exec_timeout, check)
        except SentToBackground:
            is_left = True
            raise
        finally:  # the sandbox restores protected files in every case
            if not is_left:
                ending = command.finish(describe_timeout(ctx.wiring.exec_timeout))
        return output.end(ending, command.exit_code)


@contextmanager
def open_output(ctx: ToolContext) -> Iterator[Output]:
    """Where what a program prints goes, and the store of the whole."""
    try:
        store = ctx.wiring.outputs.open_writer() if ctx.wiring.outputs else None
    except OSError:  # a full disk does not fail the command
        store = None
    watch = partial(ctx.wiring.on_output, ctx.call.id if ctx.call else "")
    watch("")  # what was shown of an earlier run of the call does not count any more
    with closing(store) if store else nullcontext():
        yield Output(ctx.wiring.exec_max_output, store, watch)


def run_live(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], object],
    interrupt_grace_s: float = INTERRUPT_GRACE_S,
) -> int:
    """Run the user's own command and return its exit code; a negative one is the number of the signal that ended it.

    `on_output` gets stdout and stderr, merged, in pieces of at most READ_BYTES bytes as they come. It returns when all
    output has been read and the program has ended: `command &` is shown until it ends or the user presses Ctrl-C.
    A background process with its output elsewhere is left running, as a shell would do.

    Raises ToolError if the command cannot be started, or if it runs as another user and cannot be ended.
    """
    has_ended = False
    with HeldInterrupts() as interrupts:
        process = _start(Launch(argv, environment), cwd, None, has_terminal=True)
        try:
            with interrupts.allowed():
                has_ended = _read_until_end(process, on_output)
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt), interrupts.allowed():  # a second Ctrl-C ends the grace
                _read_until_end(process, on_output, time.monotonic() + interrupt_grace_s)
        finally:
            if not has_ended:
                _kill_writers(process)
            _wait(process, KILL_GRACE_S)
            _pipe_of(process).close()
    if process.returncode is None:
        raise ToolError("the command could not be ended: it runs as another user")
    return process.returncode


def _prepare_launch(argv: Sequence[str], ctx: ToolContext, access: Grant) -> Launch:
    if ctx.wiring.sandbox is None or access == "outside":
        return Launch(argv, ctx.environment)
    try:
        return ctx.wiring.sandbox.launch(argv, ctx.workspace, ctx.environment, access)
    except OSError as error:
        raise ToolError(f"the sandbox could not be made ready: {error}") from error


def _start(launch: Launch, cwd: Path, supervisor: Supervisor | None, *, has_terminal: bool = False) -> Popen[bytes]:
    import subprocess  # start-up is measured, and this is not needed before a command is run

    try:
        return subprocess.Popen(  # noqa: S603 - its job is to run what the model asks for, once it is approved
            launch.argv,
            cwd=cwd,
            env=launch.environment,
            stdin=None if has_terminal else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=not has_terminal,
            preexec_fn=supervisor.wrap(launch.before_exec, launch.scope_signals) if supervisor else launch.before_exec,
            pass_fds=launch.inherited_fds,
        )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror}") from error
    except subprocess.SubprocessError as error:  # how subprocess reports that `before_exec` failed
        raise ToolError("the command could not be started: the sandbox or its limits could not be set") from error
    finally:
        if supervisor:
            supervisor.release()


def _read_until_end(
    process: Popen[bytes],
    feed: Callable[[bytes], object],
    deadline: float = math.inf,
    check: Callable[[], None] | None = None,
) -> bool:
    """Read until the program has ended; False if the deadline, in seconds of time.monotonic, came first.

    With a deadline, output that comes more than LINGER_S after the program's end is not read. What `check` raises, at
    every POLL_S, ends the reading.
    """
    pipe = _pipe_of(process).fileno()
    ready = select.poll()
    ready.register(pipe, select.POLLIN)
    has_ended = False
    while True:
        if check:
            check()
        left = deadline - time.monotonic()
        if ready.poll(max(0.0, min(left, POLL_S)) * 1000):
            data = os.read(pipe, READ_BYTES)
            if not data:
                return _wait_for_end(process, deadline, check)
            feed(data)
        if left <= 0:
            return has_ended
        if not has_ended and process.poll() is not None:
            has_ended = True
            if deadline < math.inf:
                deadline = min(deadline, time.monotonic() + LINGER_S)


def _wait_for_end(process: Popen[bytes], deadline: float, check: Callable[[], None] | None) -> bool:
    """Wait for a program that closed its output; False if the deadline came first."""
    while not _wait(process, min(deadline - time.monotonic(), POLL_S)):
        if check:
            check()
        if time.monotonic() > deadline:
            return False
    return True


def _pipe_of(process: Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    return process.stdout


def _wait(process: Popen[bytes], seconds: float) -> bool:
    from subprocess import TimeoutExpired

    try:
        process.wait(max(0.0, seconds))
    except TimeoutExpired:
        return False
    return True


class HeldInterrupts:
    """Holds back Ctrl-C and the signals that end the program until the end of the block.

    In `allowed` the first one raises what its handler raises; the next ones are held again, so that a process that
    was interrupted is ended whatever comes. Only the main thread gets signals: elsewhere it does nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._held: list[int] = []
        self._are_allowed = False

    def __enter__(self) -> HeldInterrupts:
        for number in (signal.SIGINT, *ENDING_SIGNALS):
            handler = signal.getsignal(number)
            if callable(handler):  # the others raise nothing
                try:
                    signal.signal(number, self._receive)
                except ValueError:  # not the main thread
                    break
                self._handlers[number] = handler
        return self

    @contextmanager
    def allowed(self) -> Iterator[None]:
        try:
            self._are_allowed = True
            if self._held:
                signal.raise_signal(self._held.pop(0))
            yield
        finally:
            self._are_allowed = False

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in reversed(self._handlers.items()):  # Ctrl-C last, since it may raise at once
            signal.signal(number, handler)
        for number in dict.fromkeys(self._held):
            signal.raise_signal(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._are_allowed:
            self._are_allowed = False
            self._handlers[number](number, frame)
        else:
            self._held.append(number)


def _stop(process: Popen[bytes], supervisor: Supervisor | None) -> bool:
    """End all that is left with SIGTERM, then SIGKILL; True if the program left anything running.

    The caller holds interrupts, so that nothing is left behind. The waiting is bounded, since a process of another user
    cannot be killed.
    """
    if supervisor:
        supervisor.end()
        _wait(process, KILL_GRACE_S + END_TIMEOUT_S + LINGER_S)
    elif process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        if not _wait(process, KILL_GRACE_S):
            process.kill()
            _wait(process, KILL_GRACE_S)
    _pipe_of(process).close()
    return supervisor is not None and supervisor.close()


def _kill_writers(process: Popen[bytes]) -> None:
    """Kill the program and, where there is a /proc, all of this session that holds the pipe of its output."""
    process.kill()
    if not PROC.is_dir():
        return
    pipe = (PROC / f"self/fd/{_pipe_of(process).fileno()}").readlink()
    for each in list_processes():
        with suppress(OSError):  # the process has ended by now, or belongs to another user
            is_ours = each.session == os.getsid(0) and each.pid != os.getpid()
            if is_ours and any(file.readlink() == pipe for file in (PROC / f"{each.pid}/fd").iterdir()):
                os.kill(each.pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """`exit code 3`, or for a negative code `killed by SIGKILL`."""
    names = {each.value: each.name for each in signal.Signals}
    return f"exit code {code}" if code >= 0 else f"killed by {names.get(-code, f'signal {-code}')}"


def describe_timeout(timeout_s: float) -> str:
    return f"timed out after {timeout_s:g} s, and was killed"
