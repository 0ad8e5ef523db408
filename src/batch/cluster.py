"""The same tasks on a Ray cluster. Ray Data reads the tasks, spreads them, retries and spills; it has no tool loop.

Each task runs in a process of its own, as on one machine, so that one that breaks its process breaks no worker of Ray.
The rows come back to the driver, which alone writes. How many tasks run on each server is decided by one actor, with
the rule of load.py. Nodes share no files: each clones the repositories it needs.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..config import Settings
from ..errors import BotError, ConfigError
from ..security.sandbox.scratch import hold_folder, remove_abandoned
from .load import LOOK_INTERVAL_S, LoadControl, fetch_waiting
from .pool import ProcessPool
from .task_run import BACKOFF_S, MAX_ATTEMPTS, Job, TaskOutcome, point_to
from .tasks import BatchOptions

POLL_S = 0.2  # between two questions for room on a server
CPUS_PER_TASK = 0.05  # a task waits for its model most of the time; a worker of Ray takes about 115 MB
SHUT = "shut"  # no task may start any more


def run_on_ray(jobs: Sequence[Job], options: BatchOptions, is_over_budget: Callable[[], bool]) -> Iterator[TaskOutcome]:
    """What came of each job, in the order in which they end. Raises BotError."""
    ray = _start(options.ray or "", options.ray_runtime_env)
    try:
        gate = ray.remote(num_cpus=0)(Gate).remote(options.servers, options.jobs, jobs[0].settings)
        data = ray.data.from_items([{"number": number} for number in range(len(jobs))], override_num_blocks=len(jobs))
        shared = ray.put((tuple(jobs), options.timeout))

        def run(item: Mapping[str, int]) -> dict[str, Any]:
            jobs, timeout = ray.get(shared)
            number = int(item["number"])
            outcome = _run_on_node(jobs[number], timeout, _GateClient(ray, gate, number))
            return {"outcome": pickle.dumps(outcome)}

        workers = ray.data.TaskPoolStrategy(size=min(options.jobs, len(jobs)))
        done = data.map(run, compute=workers, **{"num_cpus": CPUS_PER_TASK, **options.ray_needs})
        for row in done.iter_rows():
            outcome: TaskOutcome | None = pickle.loads(row["outcome"])  # noqa: S301 - of our own worker
            if outcome is not None:
                yield outcome
            if is_over_budget():
                ray.get(gate.shut.remote())
        _clean_nodes(ray, jobs[0].scratch.name)
    finally:
        ray.shutdown()


def _start(address: str, runtime_env: Mapping[str, Any]) -> Any:
    """The ray module, connected. Raises BotError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    try:
        import ray
        import ray.data
        import ray.runtime_env
    except ImportError as error:
        raise ConfigError(f"--ray needs {error.name}.", "Install it: pip install 'vllm-bot[ray]'") from error
    runtime = make_runtime_env(ray, runtime_env)
    own: dict[str, Any] = {}
    if not address:
        own["include_dashboard"] = False
    try:
        ray.init(address or None, runtime_env=runtime, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise BotError(f"The Ray cluster {address} cannot be used: {error}") from error
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = False  # a slow task holds up no other
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def make_runtime_env(ray: Any, given: Mapping[str, Any]) -> Any:
    """Ray's RuntimeEnv, which checks what it is given. Raises ConfigError."""
    try:
        if not isinstance(given.get("env_vars", {}), dict):  # of which Ray says that it has no length
            raise TypeError("env_vars: expected an object of names and texts")
        runtime = ray.runtime_env.RuntimeEnv(**given)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ConfigError(f"--ray-runtime-env: {reason}.", "It takes what Ray's runtime_env does.") from error
    # Workers find this program where the driver has it, unless it is installed there.
    runtime["env_vars"] = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **runtime.env_vars()}
    return runtime


class Gate:
    """An actor: which server each task runs on. It looks at their load each second."""

    def __init__(self, servers: Sequence[str], jobs: int, settings: Settings) -> None:
        self._control = LoadControl(servers, jobs)
        self._settings = {address: point_to(settings, address) for address in servers}
        self._held: dict[int, str] = {}  # the server of each task that runs
        self._shut = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def acquire(self, number: int) -> str | None:
        """A server, SHUT, or None: there is no room yet."""
        self.release(number, is_overload=False)  # of a worker that died; Ray runs its task again
        if self._shut.is_set():
            return SHUT
        address = self._control.acquire()
        if address:
            self._held[number] = address
        return address

    def release(self, number: int, *, is_overload: bool) -> None:
        if address := self._held.pop(number, None):
            self._control.release(address, is_overload=is_overload)

    def shut(self) -> None:
        """No task starts any more."""
        self._shut.set()

    def _look(self) -> None:
        while not self._shut.wait(LOOK_INTERVAL_S):
            for address, settings in self._settings.items():
                self._control.note_waiting(address, fetch_waiting(settings) or 0.0)


class _GateClient:
    """The gate, for the task of one number."""

    def __init__(self, ray: Any, gate: Any, number: int) -> None:
        self._ray, self._gate, self._number = ray, gate, number

    def acquire(self) -> str:
        """Waits until there is room. Returns SHUT if no task may start any more."""
        while (address := self._ray.get(self._gate.acquire.remote(self._number))) is None:
            time.sleep(POLL_S)
        return str(address)

    def release(self, *, is_overload: bool) -> None:
        self._ray.get(self._gate.release.remote(self._number, is_overload=is_overload))


def _run_on_node(job: Job, timeout: float, gate: _GateClient) -> TaskOutcome | None:
    """What came of the job; None if it may not start any more."""
    scratch = _enter_scratch(job.scratch.name)
    pool = ProcessPool(timeout)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        if (address := gate.acquire()) == SHUT:
            return None
        try:
            pool.start(replace(job, scratch=scratch, settings=point_to(job.settings, address)))
            while not (ended := pool.wait(timeout)):
                pass
        finally:
            pool.stop()
        outcome = ended[0][1]
        gate.release(is_overload=outcome.is_overload)
        if not outcome.is_overload:
            break
        time.sleep(BACKOFF_S * attempt)
    return outcome


def _enter_scratch(name: str) -> Path:
    """The folder of this batch on this node, where all temporary files go: Ray kills its workers in the end."""
    scratch = Path(tempfile.gettempdir())
    if scratch.name != name:
        remove_abandoned(scratch)
        scratch /= name
        hold_folder(scratch)  # until this worker ends
        tempfile.tempdir = str(scratch)
    return scratch


def _clean_nodes(ray: Any, name: str) -> None:
    """Remove the folder of this batch on every node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def remove() -> None:
        shutil.rmtree(_enter_scratch(name), ignore_errors=True)

    task = ray.remote(num_cpus=0)(remove)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    ray.get(
        [task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)).remote() for node in nodes]
    )
