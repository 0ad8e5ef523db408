"""Run one program in the workspace, bounded in time and output, and gone with all it started when it ends.

It runs in a session of its own, so that all of it can be killed: at the timeout, on Ctrl-C, and also after
a normal end, so that nothing works on unseen. What makes itself a new session is ended by the sandbox;
without one it escapes.
Only the program's end or the timeout ends the reading, never somebody who keeps the pipe open. Memory is
bounded by the output kept: its head and its tail; all of it goes to the output cache as it comes.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from ...errors import ToolError
from ...types.sandbox import Launch
from ..fs.paths import UNPASSABLE
from ..sdk.context import ToolContext
from ..sdk.output_store import Stored, Writer

if TYPE_CHECKING:
    from subprocess import Popen

PROC = Path("/proc")
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD$|CREDENTIAL|AUTH(?!OR)|AUTHORI[SZ]ATION", re.IGNORECASE)
NO_SECRET = {"PWD", "OLDPWD", "SSH_AUTH_SOCK"}  # two folders, and the place of an agent that shows no key
MISLEADING = "CDPATH"  # by which cd leads elsewhere than was seen when the command was allowed
TICK = 0.05  # seconds between looks at the shell while somebody else may hold the pipe
LINGER = 0.2  # seconds that the pipe is still read once the shell has ended
GRACE = 0.5  # seconds from the request to end to the kill
CHUNK = 1 << 16
BACKGROUND = "what it left running in the background was ended"  # a sandbox says the same


class Unconfined(NamedTuple):
    """The launch of a command that runs in no sandbox."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    before_exec: None = None
    inherited: Sequence[int] = ()

    def settle(self) -> None:
        """Nothing ends with it."""

    def ended(self) -> Sequence[str]:
        return ()


def run(argv: Sequence[str], ctx: ToolContext) -> str | Stored:
    """What the program printed, and how it ended. Raises ToolError where it cannot be started, or is cancelled."""
    if any(UNPASSABLE.search(word) for word in argv):
        raise ToolError("a command can hold neither a NUL nor a lone surrogate")
    try:
        whole = ctx.outputs.writer() if ctx.outputs else None
    except OSError:  # a full disk breaks no command
        whole = None
    with closing(whole) if whole else nullcontext():
        output = Output(ctx.exec_max_output, whole)
        return output.with_ending(_execute(argv, ctx, output))


def _execute(argv: Sequence[str], ctx: ToolContext, output: Output) -> str:
    """How it ended."""
    process, left_over, notes = None, False, []
    try:
        with _interrupts_held():  # else one could come between the start and our knowing of it
            launch = _launch(argv, ctx)
            try:
                process = _start(launch, ctx)
            except BaseException:
                launch.settle()
                launch.ended()
                raise
        ended = _read_until_end(process, output, time.monotonic() + ctx.exec_timeout, ctx)
    finally:
        if process is not None:
            with _interrupts_held():  # what is protected is put back, come what may
                if process.poll() is not None:
                    launch.settle()
                    left_over = _stop(process)
                else:
                    left_over = _stop(process)
                    launch.settle()
                notes = [*launch.ended()]
    return _ending(process.returncode if ended else None, left_over, notes, ctx.exec_timeout)


class Output:
    """What was printed, as text: all of it while it is short, else its head and its tail. Linear in what is fed."""

    def __init__(self, most: int, whole: Writer | None = None) -> None:
        self._whole = whole
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head: list[str] = []
        self._head_room = most // 2
        self._tail: deque[str] = deque()
        self._tail_most = most - most // 2
        self._tail_size = 0
        self._cut = 0

    def feed(self, data: bytes, *, final: bool = False) -> None:
        if self._whole:
            self._whole.write(data)
        text = self._decoder.decode(data, final)
        if self._head_room:
            self._head.append(text[: self._head_room])
            text = text[self._head_room :]
            self._head_room -= len(self._head[-1])
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) > self._tail_most:
            self._cut += len(self._tail[0])
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        self.feed(b"", final=True)
        tail = "".join(self._tail)
        over = max(0, len(tail) - self._tail_most)
        cut = self._cut + over
        gap = f"\n[... {cut:,} characters cut out of the middle{self._where()} ...]\n" if cut else ""
        return ("".join(self._head) + gap + tail[over:]).replace("\0", "\ufffd")

    def _where(self) -> str:
        if not self._whole or not self._whole.size:
            return ""
        part = "" if self._whole.complete else f"; the first {self._whole.size:,} bytes of all"
        return f'{part}: tool_output_cache(ref_id="{self._whole.ref}")'

    def with_ending(self, ending: str) -> str | Stored:
        """The text and, on a line of its own, how it ended; with the reference of the whole, where there is one."""
        text = self.text()
        line_end = "" if not text or text.endswith("\n") else "\n"
        said = text + line_end + ending
        if self._whole:
            self._whole.write((line_end + ending).encode())
        return Stored(said, self._whole.ref) if self._whole else said


def _launch(argv: Sequence[str], ctx: ToolContext) -> Launch:
    environment = {
        name: value
        for name, value in ctx.environment.items()
        if name in NO_SECRET or not (name == MISLEADING or SECRET.search(name))
    }
    if ctx.sandbox is None:
        return Unconfined(argv, environment)
    try:
        return ctx.sandbox.launch(argv, ctx.workspace, environment)
    except OSError as error:
        raise ToolError(f"the sandbox could not be made ready: {error}") from error


def _start(launch: Launch, ctx: ToolContext) -> Popen[bytes]:
    import subprocess  # start-up is measured, and this is not needed before a command is run

    try:
        return subprocess.Popen(  # noqa: S603 - running what the model asks for, once allowed, is what this is for
            launch.argv,
            cwd=ctx.workspace,
            env=launch.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=launch.before_exec,
            pass_fds=launch.inherited,
        )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror}") from error
    except subprocess.SubprocessError as error:  # its own words for what failed before exec
        raise ToolError("the command could not be started: the sandbox or its limits could not be set") from error


def _read_until_end(process: Popen[bytes], output: Output, deadline: float, ctx: ToolContext) -> bool:
    """Read until the shell has ended; False if the deadline came first."""
    pipe = _pipe(process).fileno()
    ready = select.poll()
    ready.register(pipe, select.POLLIN)
    ended = False
    while True:
        ctx.raise_if_cancelled()
        left = deadline - time.monotonic()
        if ready.poll(max(0.0, min(left, TICK)) * 1000):
            data = os.read(pipe, CHUNK)
            if not data:
                return _wait(process, left)
            output.feed(data)
        if left <= 0:
            return ended
        if not ended and process.poll() is not None:
            ended = True
            deadline = min(deadline, time.monotonic() + LINGER)


def _pipe(process: Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    return process.stdout


def _wait(process: Popen[bytes], seconds: float) -> bool:
    from subprocess import TimeoutExpired

    try:
        process.wait(max(0.0, seconds))
    except TimeoutExpired:
        return False
    return True


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait until the block is through."""
    held: list[int] = []
    before = signal.getsignal(signal.SIGINT)  # None: not Python's own, and not to be put back by us
    try:
        if before is not None:
            signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    except ValueError:  # not the main thread, the only one that Ctrl-C comes to
        before = None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if held:
            signal.raise_signal(signal.SIGINT)


def _stop(process: Popen[bytes]) -> bool:
    """End the whole session, first by asking; True if anything of it was still running.

    Takes three times GRACE at most; whoever calls it lets Ctrl-C wait, so that nothing is left behind.
    """
    left_over = _signal(process, signal.SIGTERM)
    if left_over and _outlives_grace(process):
        _signal(process, signal.SIGKILL)
        _outlives_grace(process)
    _wait(process, GRACE)  # not for ever: what runs as another user cannot be killed
    _pipe(process).close()
    return left_over


def _outlives_grace(process: Popen[bytes]) -> bool:
    deadline = time.monotonic() + GRACE
    while (running := _signal(process, 0)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return running


def _signal(process: Popen[bytes], number: int) -> bool:
    """Send a signal to all of the command's session; True if anyone of it was alive.

    By groups, since the kernel signals a whole group at once, and nobody in it can fork away meanwhile.
    """
    process.poll()  # else the shell counts as alive until it is asked for
    groups = _groups(process.pid)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    return bool(groups)


def _groups(session: int) -> set[int]:
    """The session's process groups that somebody is alive in: job control and timeout(1) make their own.

    Without a /proc only the first group is known.
    """
    if PROC.is_dir():
        return set(_living(session))
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return set()
    except PermissionError:
        pass
    return {session}


def _living(session: int) -> Iterator[int]:
    """The group of every process of the session, less the dead (many a container has nobody who waits for orphans)."""
    for process in PROC.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            if os.getsid(int(process.name)) == session:  # first, as reading a file of /proc takes thirty times as long
                stat = (process / "stat").read_text(errors="replace")
                state, _parent, group, *_ = stat.rpartition(")")[2].split()
                if state not in "ZX":
                    yield int(group)


def _ending(code: int | None, left_over: bool, notes: Sequence[str], timeout: float) -> str:
    if code is None:
        how = f"timed out after {timeout:g} s, and was killed"
    elif code >= 0:
        how = f"exit code {code}"
    else:
        names = {each.value: each.name for each in signal.Signals}
        how = f"killed by {names.get(-code, f'signal {-code}')}"
    ended = [BACKGROUND] if left_over else []
    known = [each for each in dict.fromkeys([*ended, *notes]) if each != BACKGROUND or code is not None]
    return f"[{'; '.join([how, *known])}]"
