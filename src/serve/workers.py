"""The worker processes of one gateway: started together, stopped together, and replaced where one is killed."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess

from msgspec import Struct
from prometheus_client.multiprocess import mark_process_dead

ENDING = (signal.SIGTERM, signal.SIGINT)
SHUTDOWN_S = 30.0  # for streams to finish after SIGTERM
NOTICE_S = 1.0  # from the signal, before the wait is told
STREAMS_FINISH = f"Streams may finish for {SHUTDOWN_S:g} seconds; Ctrl-C ends them at once."
STEADY_S = 10.0  # a worker that ends before that has hardly worked
MAX_DELAY_S = 30.0  # before another try
TERMINAL = "/dev/tty"

log = logging.getLogger(__name__.rpartition(".")[0])


class Place(Struct):
    """The place of a worker, and of those that replace it. Times are of the monotonic clock.

    `failures`: how many workers ended early, one after another. `due`: when the next one starts.
    """

    began: float = 0.0
    due: float = 0.0
    failures: int = 0
    is_restart: bool = False


class WorkerSupervisor:
    """`make_worker(is_restart)` makes a process, which is not started yet."""

    def __init__(self, make_worker: Callable[[bool], BaseProcess], count: int) -> None:
        self._make_worker = make_worker
        self._count = count
        self._workers: dict[BaseProcess, Place] = {}
        self._vacant: list[Place] = []
        self.is_stopped = False
        self._are_started = False

    def start(self) -> None:
        for _ in range(self._count):
            self._fill(Place())
        if self.is_stopped:  # maybe before the last one was among the workers
            self.stop(signal.SIGTERM)
        self._are_started = True

    def stop(self, number: int, _: object = None) -> None:
        """Handle a signal. Raises KeyboardInterrupt at a second Ctrl-C."""
        if self.is_stopped and self._are_started and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_stopped = True
        for worker in list(self._workers):
            worker.terminate()

    def reload(self) -> None:
        """Have each worker read its keys."""
        for worker in list(self._workers):
            if worker.pid is not None:
                with suppress(ProcessLookupError):  # it has ended
                    os.kill(worker.pid, signal.SIGHUP)

    def wait(self) -> None:
        """Until all have ended. Raises KeyboardInterrupt."""
        silent_waits = 0
        try:
            while self._workers or self._vacant:
                ended = connection.wait([worker.sentinel for worker in self._workers], NOTICE_S)
                if self.is_stopped and not ended:
                    silent_waits += 1
                    if silent_waits == 2:  # the first one may have begun long before the signal
                        log.warning(STREAMS_FINISH)
                self._note_ended([worker for worker in self._workers if not worker.is_alive()])
                self._replace_ended()
        finally:
            for worker in list(self._workers):
                worker.kill()
                worker.join()

    def _note_ended(self, ended: Sequence[BaseProcess]) -> None:
        for worker in ended:
            place = self._workers.pop(worker)
            mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # it has no requests at work
            code, ended_early = worker.exitcode or 0, time.monotonic() - place.began < STEADY_S
            # The first ones end like this where the gateway cannot run. Later ones may find what changes again.
            could_not_begin = ended_early and code >= 0 and not place.is_restart
            if self.is_stopped or could_not_begin:  # it has said why
                continue
            delay = min(2.0**place.failures, MAX_DELAY_S) if ended_early else 0.0
            place.failures = place.failures + 1 if ended_early else 0
            next_try = f"is tried again in {delay:g} s" if place.failures > 1 else "is replaced"
            log.warning("A worker ended (%s) and %s.", describe_exit(code), next_try)
            place.due, place.is_restart = time.monotonic() + delay, True
            self._vacant.append(place)

    def _replace_ended(self) -> None:
        if self.is_stopped:
            self._vacant.clear()
        now = time.monotonic()
        for place in [each for each in self._vacant if each.due <= now]:
            self._vacant.remove(place)
            self._fill(place)

    def _fill(self, place: Place) -> None:
        with block_interrupts():
            if self.is_stopped:
                return
            worker = self._make_worker(place.is_restart)
            worker.start()
            place.began = time.monotonic()
            self._workers[worker] = place
        if self.is_stopped:  # by a signal that came before it was among the workers
            worker.terminate()


def supervise(make_worker: Callable[[bool], BaseProcess], count: int, *, reloads: bool) -> None:
    """Start the workers, pass signals on, and wait for all. `reloads`: at SIGHUP they read the keys anew.

    Raises KeyboardInterrupt at a second Ctrl-C.
    """
    supervisor = WorkerSupervisor(make_worker, count)
    for number in ENDING:  # first of all: a start that is interrupted leaves a worker with half of what it needs
        signal.signal(number, supervisor.stop)
    if reloads:
        handle = make_hangup_handler(supervisor.reload, lambda: supervisor.stop(signal.SIGTERM))
        signal.signal(signal.SIGHUP, lambda *_: handle())
    supervisor.start()
    supervisor.wait()


def make_hangup_handler(reload: Callable[[], None], stop: Callable[[], object]) -> Callable[[], None]:
    """What SIGHUP does: reload, or stop if the terminal has gone in which the program was started without nohup."""
    is_ended_by_terminal = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN and has_terminal()

    def handle() -> None:
        if is_ended_by_terminal and not has_terminal():
            stop()
        else:
            reload()

    return handle


def has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def describe_exit(code: int) -> str:
    """The exit code of a process, or the name of the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Processes that are started within never get SIGINT, which a terminal sends to all: this process ends them.

    SIGHUP waits until they handle it.
    """
    resource_tracker.ensure_running()  # the start of the first process starts it, which unblocks the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
