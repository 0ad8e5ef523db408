"""A process between this program and a command, which ends all that the command started.

It is forked right before the command's program is started, adopts every orphan below it (PR_SET_CHILD_SUBREAPER), and
holds one end of a pipe whose other end only this program has. When that end closes, because the command is to stop
or because this program was killed, and also when the command's program has ended, the supervisor ends every process
that is left with SIGTERM, then SIGKILL. A process cannot escape by a session of its own. Sources: prctl(2), proc(5).

Outside Linux there are no subreapers: there it ends the process group of the command.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from .proc import list_descendants

KILL_GRACE_S = 0.5  # from SIGTERM to SIGKILL
END_TIMEOUT_S = 5.0  # after SIGKILL; on an idle machine a process ends within 10 ms
LINGER_S = 0.2  # in which background processes may end after the program has ended
PAUSE_S = 0.01  # between two looks at processes
KILL_PAUSE_S = 0.1  # between two tries to kill them
MAX_ROUNDS = 50  # of stopping processes that start others
MAX_REAPED = 1000  # dead processes at a time: some programs make them without an end
MAX_FD = 1 << 16
LEFT_OVER = b"l"
EVERYTHING = -1  # for kill(2): all that the caller may send a signal to, but itself
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGPIPE)
IS_LINUX = sys.platform == "linux"
_prctl = ctypes.CDLL(None).prctl if IS_LINUX else None


class Supervisor:
    """One for each command. `wrap` gives Popen's preexec_fn; call `release` after Popen, `end` when it is to stop."""

    def __init__(self) -> None:
        self._order_fd, self._order = os.pipe()
        self._report, self._report_fd = os.pipe()

    def wrap(
        self, before_exec: Callable[[], None] | None, scope_signals: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """What Popen calls between fork and exec. It returns in a child of the supervisor.

        `scope_signals`: see Launch.
        """
        import resource  # not in the child, where another thread might hold the lock of imports

        order_fd, report_fd = self._order_fd, self._report_fd

        def fork() -> None:  # pragma: no cover - runs in the child
            _set_option(PR_SET_CHILD_SUBREAPER, 1)
            if scope_signals:
                scope_signals()
            parent = os.getpid()
            if pid := os.fork():
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os._exit(_supervise(_Family(pid, is_scoped=scope_signals is not None), order_fd, report_fd))
            os.setpgid(0, 0)  # so that `kill 0` does not reach the supervisor; the session is the one that is recorded
            _set_option(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it was killed before the option was set
                os._exit(1)
            if before_exec:
                before_exec()

        return fork

    def release(self) -> None:
        """Close the ends of the pipes that only the supervisor may hold."""
        os.close(self._order_fd)
        os.close(self._report_fd)

    def end(self) -> None:
        """Have all processes of the command ended; the supervisor ends after them. Call it once."""
        os.close(self._order)

    def close(self) -> bool:
        """After `end`, once the supervisor has ended: whether the command left anything running."""
        with os.fdopen(self._report, "rb") as report:
            os.set_blocking(self._report, False)
            return report.read(1) == LEFT_OVER


def _set_option(option: int, value: int) -> None:  # pragma: no cover - runs in the child
    if _prctl:
        zero = ctypes.c_ulong(0)
        _prctl(option, ctypes.c_ulong(value), zero, zero, zero)


class _Family:  # pragma: no cover - lives in the supervisor
    """The program and all that it started. `status`: the program's wait status, once it has ended.

    `is_scoped`: a signal to -1 reaches them and nothing else.
    """

    def __init__(self, pid: int, *, is_scoped: bool) -> None:
        self.pid = pid
        self._is_scoped = is_scoped
        self.status: int | None = None

    def reap(self) -> bool:
        """Whether any of them lives: those that have lost their parent are children of this process."""
        try:
            for _ in range(MAX_REAPED):
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self.pid:
                    self.status = status
                if not pid:
                    break
        except ChildProcessError:
            if IS_LINUX:
                return False
            try:
                os.killpg(self.pid, 0)
            except OSError:
                return False
        return True

    def list_living(self) -> set[int]:
        self.reap()
        return {each.pid for each in list_descendants(os.getpid())}

    def wait_until_ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.reap():
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_S)
        return True

    def send(self, number: int) -> None:
        """Send a signal to all: some fork faster than they can be listed.

        The kernel reaches all at once, or else those of the program's group. Then before SIGKILL the others are
        stopped, so that none can start another in between.
        """
        if self._is_scoped:
            _send_each({EVERYTHING}, number)
            return
        with suppress(OSError):  # nothing of it is left
            os.killpg(self.pid, number)
        if number == signal.SIGKILL:
            stopped: set[int] = set()
            for _ in range(MAX_ROUNDS):
                if not (others := self.list_living() - stopped):
                    break
                _send_each(others, signal.SIGSTOP)
                stopped |= others
        _send_each(self.list_living(), number)


def _supervise(family: _Family, order_fd: int, report_fd: int) -> int:  # pragma: no cover - runs in the supervisor
    """Wait for the program or the order to stop; returns the exit code, or dies of the signal that ended it."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    first, last = sorted((order_fd, report_fd))
    for start, end in ((0, first), (first + 1, last), (last + 1, MAX_FD)):
        os.closerange(start, end)
    _wait_for_program(family, order_fd)
    if not family.wait_until_ended(0 if family.status is None else LINGER_S):
        with suppress(OSError):
            os.write(report_fd, LEFT_OVER)
        family.send(signal.SIGTERM)
        has_ended, deadline = family.wait_until_ended(KILL_GRACE_S), time.monotonic() + END_TIMEOUT_S
        while not has_ended and time.monotonic() < deadline:
            family.send(signal.SIGKILL)
            has_ended = family.wait_until_ended(KILL_PAUSE_S)
    code = 1 if family.status is None else os.waitstatus_to_exitcode(family.status)
    if code >= 0:
        return code
    with suppress(OSError):  # SIGKILL needs no default handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 1


def _wait_for_program(family: _Family, order_fd: int) -> None:  # pragma: no cover - runs in the supervisor
    """Return when the program has ended, or the other end of the pipe is closed."""
    poll, pause_ms = select.poll(), 1000 * PAUSE_S
    poll.register(order_fd, select.POLLIN)
    if hasattr(os, "pidfd_open"):  # only on Linux, and not in each Python there, such as conda's
        with suppress(OSError):  # before Linux 5.3
            poll.register(os.pidfd_open(family.pid), select.POLLIN)
            pause_ms = 60_000
    while family.status is None:
        ready = [fd for fd, _event in poll.poll(pause_ms)]
        family.reap()
        if order_fd in ready:
            return


def _send_each(pids: set[int], number: int) -> None:  # pragma: no cover - runs in the supervisor
    for pid in pids:
        with suppress(OSError):  # it has just ended, or belongs to another user
            os.kill(pid, number)
