"""Run one task: a clean folder, the agent with nobody to ask, the checks, the patch."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Union, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..app.factory import Factory
from ..app.library.result import Result, RunRecord
from ..app.library.structured import Form
from ..app.permissions import defer_sandbox, make_policy, make_tool_context
from ..app.runtime import Runtime
from ..app.state_files import SERVERS, ServerMemory
from ..config import Settings
from ..errors import BotError, ConnectFailed, ServerError, ServerLoading, ToolError, describe_error
from ..security.permissions.approval import NoApprover
from ..security.sandbox.container import ContainerOptions, remove_abandoned_containers
from ..security.sandbox.deferred import DeferredSandbox
from ..session.replay import replay
from ..session.session import Session
from ..tools.process.run import run
from ..types.messages import JSON, Response, ToolCall, UserMessage, sum_usage
from .results import SUCCESS, CheckResult, Row
from .tasks import Task
from .workspace import Repositories, TaskWorkspace

SHELL = "/bin/sh"
STATE = "state"  # in a task's private folder
MAX_CHECK_OUTPUT_CHARS = 4_000
MAX_ATTEMPTS = 5  # of a task whose server refuses it for its load
BACKOFF_S = 2.0  # before an attempt after a refusal, times the number of those made
OVERLOAD_STATUS = (429, 503)


class Job(Struct, frozen=True):
    """A task with what its process needs. `scratch`: the folder of this batch on this machine.

    `patch`: what is applied to the clean folder before the checks run, and no model is asked; None: the model works.
    """

    task: Task
    hash: str
    settings: Settings
    scratch: Path
    patch: str | None = None


class TaskOutcome(Struct, frozen=True):
    """`conversation`: the journal. `is_overload`: the server refused for its load, so the task may be tried again."""

    row: Row
    conversation: bytes = b""
    is_overload: bool = False


def run_task(job: Job) -> TaskOutcome:
    """Run the task and remove its folder. What goes wrong is in the row."""
    folder = get_folder(job)
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    began = time.monotonic()
    try:
        if job.patch is None:
            outcome = _run_in(folder, job)
        else:
            outcome = _evaluate_in(folder, job, job.patch)
    except BotError as error:
        reason = describe_error(error).replace(f"{folder}/", "")  # so that reports show what tasks have in common
        row = Row(job.task.id, job.hash, "error", reason, model=job.settings.vllm.model)
        outcome = TaskOutcome(row, is_overload=_is_overload(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - began, 3)
    return replace(outcome, row=outcome.row._replace(seconds=seconds, sample=job.task.sample))


def get_private_folder(job: Job) -> Path:
    """What the task's process keeps beside the folder in which the task works."""
    return get_folder(job) / "private"


def describe_ended(job: Job, status: str, reason: str, seconds: float = 0.0) -> TaskOutcome:
    """What there is of a task whose process was ended, or died: what its journal tells. Its folder is still there."""
    row = Row(job.task.id, job.hash, status, reason, seconds=seconds, model=job.settings.vllm.model)
    row = row._replace(sample=job.task.sample)
    settings = replace(job.settings, state=get_private_folder(job) / STATE)
    with suppress(BotError, OSError, ValueError):  # it did not come to that
        (path,) = Factory(settings).make_store().folder.glob("*.jsonl")
        return _add_conversation(row, path)
    return TaskOutcome(row)


def _add_conversation(row: Row, journal: Path) -> TaskOutcome:
    """The row with the counts of its conversation, and that. Raises BotError and OSError if there is none."""
    messages = replay(journal, whole=True).messages
    responses = [each for each in messages if isinstance(each, Response)]
    calls = [call for each in responses for call in each.requested_calls]
    usage = sum_usage(messages)
    row = row._replace(
        usage={"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        calls=len(calls),
        turns=len(responses),
        repairs=sum(not isinstance(call, ToolCall) or bool(call.repaired) for call in calls),
        session=journal.stem,
        model=next((each.model for each in reversed(responses) if each.model), row.model),
    )
    return TaskOutcome(row, journal.read_bytes())


def point_to(settings: Settings, address: str) -> Settings:
    """The settings for another server with the same key."""
    places = {**settings.places, "vllm.base_url": "argument of batch"}
    return replace(settings, vllm=replace(settings.vllm, base_url=address), places=places)


def get_folder(job: Job) -> Path:
    """Where the task works: its name is short, and fit for every file system."""
    return job.scratch / "tasks" / sha256(f"{job.task.id} {job.hash}".encode()).hexdigest()[:16]


def remove_traces(job: Job, *, was_killed: bool) -> None:
    """Of a task whose process has ended: its folder, and the containers that a killed one could not remove."""
    shutil.rmtree(get_folder(job), ignore_errors=True)
    security = job.settings.security
    if was_killed and (image := job.task.image or security.container_image):
        remove_abandoned_containers(ContainerOptions(image, security.container_runtime), os.environ)


def _is_overload(error: BaseException) -> bool:
    return isinstance(error, (ServerLoading, ConnectFailed)) or (
        isinstance(error, ServerError) and error.status in OVERLOAD_STATUS
    )


def _run_in(folder: Path, job: Job) -> TaskOutcome:
    """Raises BotError for what prevents the task from starting."""
    task = job.task
    private = get_private_folder(job)
    private.mkdir(parents=True, mode=0o700)
    workspace = TaskWorkspace(folder / "workspace", private)
    readable = workspace.prepare(task, Repositories(job.scratch / "repositories"))
    settings = _adapt_settings(job, workspace.root, private / STATE, readable)
    factory = Factory(settings)
    store = factory.make_store()
    session = factory.make_session(settings.vllm.model, store)
    runtime = factory.make_runtime(settings.vllm.model, NoApprover(), lambda: session, task.tools)
    if settings.security.container_image and runtime.sandbox:
        runtime.sandbox.choose_now()  # before anything is asked
    progress = _Progress()
    with runtime.model:
        try:
            with closing(session):
                progress.value = _converse(runtime, session, task, progress)
        except BotError as error:
            progress.failure, progress.is_overload = describe_error(error), _is_overload(error)
        finally:
            path = runtime.model.path
            if path.is_learned:  # it serves the tasks that start from now on
                vllm = job.settings.vllm
                ServerMemory(job.scratch).save(vllm.base_url, vllm.model, runtime.model.server_version, path)
    checks: tuple[CheckResult, ...] = ()
    if not progress.failure:
        checks = tuple(_check(each, runtime.settings, runtime.sandbox) for each in task.checks)
    patch, problem = workspace.make_patch()
    row = progress.make_row(job)._replace(patch=patch, checks=checks, path=runtime.model.path.mode, session=session.id)
    if problem and row.status == SUCCESS:
        row = row._replace(status="error")
    outcome = TaskOutcome(row._replace(reason=row.reason or problem))
    with suppress(BotError, OSError):  # nothing was said
        outcome = _add_conversation(outcome.row, store.journal_path(session.id))
    return replace(outcome, is_overload=progress.is_overload)


def _evaluate_in(folder: Path, job: Job, patch: str) -> TaskOutcome:
    """The checks in a clean folder with the patch. Raises BotError where there is none."""
    private = get_private_folder(job)
    private.mkdir(parents=True, mode=0o700)
    workspace = TaskWorkspace(folder / "workspace", private)
    readable = workspace.prepare(job.task, Repositories(job.scratch / "repositories"))
    workspace.apply(patch)
    settings = _adapt_settings(job, workspace.root, private / STATE, readable)
    sandbox = defer_sandbox(settings)
    checks = tuple(_check(command, settings, sandbox) for command in job.task.checks)
    return TaskOutcome(Row(job.task.id, job.hash, SUCCESS, checks=checks))


def _adapt_settings(job: Job, root: Path, state: Path, readable: tuple[str, ...]) -> Settings:
    settings, task = job.settings, job.task
    state.mkdir()
    if (shared := job.scratch / SERVERS).exists():
        shutil.copyfile(shared, state / SERVERS)
    seed = settings.get_model_settings(settings.vllm.model).seed
    if seed is not None:  # so that each run of a task differs, and comes out again
        settings = settings.with_model_values(settings.vllm.model, {"seed": seed + task.sample - 1})
    security = replace(
        settings.security,
        mode=task.mode,
        sandbox_read=(*settings.security.sandbox_read, *readable),
        container_image=task.image or settings.security.container_image,
    )
    workspace = replace(settings.workspace, dir=str(root))
    # Each task has a folder of its own, so none is added to it.
    return replace(settings, root=root, added=(), state=state, workspace=workspace, security=security)


STATUSES = {"stuck": "no_answer", "no_answer": "no_answer", "other": "error"}  # by stop reason; else it is "limit"


class _Progress:
    """What the events of a task say. `value`: the answer, if it has the schema; `failure`: what ended it, in words."""

    def __init__(self) -> None:
        self.record = RunRecord()
        self.value: Union[JSON, UnsetType] = UNSET
        self.failure = ""
        self.is_overload = False

    def make_row(self, job: Job) -> Row:
        """Without what the model left in its folder, and without the counts of its conversation."""
        result = self.record.make_result()
        status, reason = self._judge(result, has_form=job.task.schema is not None)
        answer: JSON = result.text
        if self.value is not UNSET:
            answer = self.value
        return Row(job.task.id, job.hash, status, reason, answer, model=job.settings.vllm.model)

    def _judge(self, result: Result[object], *, has_form: bool) -> tuple[str, str]:
        """Status and reason. `has_form`: the answer has to have one."""
        if self.failure:
            return "error", self.failure
        if not result.is_complete:
            return STATUSES.get(result.stop_reason, "limit"), result.ending
        if has_form and self.value is UNSET:
            return "invalid", "The answer does not have the form of the schema, and its repair does not either."
        return SUCCESS, ""


def _converse(runtime: Runtime, session: Session, task: Task, progress: _Progress) -> Union[JSON, UnsetType]:
    """Ask, and ask once more where the answer is not of the schema. Returns the value that has the schema, if any:
    null is one.
    """
    form, text = None, task.prompt
    if task.schema is not None:
        form = Form(task.schema)
        text = f"{task.prompt}\n\n{form.instructions}"
    with closing(runtime.answer(session, UserMessage(text), form)) as events:
        for event in events:
            progress.record.add(event)
    answer = progress.record.text
    if form is None or not progress.record.make_result().is_complete or form.find_mistake(answer):
        return UNSET
    return cast("JSON", form.read(answer))  # of a schema that is JSON


def _check(command: str, settings: Settings, sandbox: DeferredSandbox | None) -> CheckResult:
    """Run a check where it may change files, so that it can build."""
    try:
        context = make_tool_context(settings, make_policy(settings, sandbox))
        done = run([SHELL, "-c", "--", command], context, "write")
    except ToolError as error:
        return CheckResult(command, None, str(error))
    return CheckResult(command, done.exit_code, done.text[-MAX_CHECK_OUTPUT_CHARS:])
