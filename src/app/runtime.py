"""A running agent: its model, tools, policy and sandbox, made from settings.

This module loads the model and the tools, so the chat imports it once its prompt is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from threading import Event as CancelToken
from typing import TYPE_CHECKING

from msgspec import Struct

from ..agent.loop import AgentLoop
from ..agent.pruning import compute_output_budget
from ..agent.subagents import SubagentModel
from ..config import Settings
from ..errors import BotError, describe_error
from ..security.permissions.approval import Answer, Approver, CannotRun, Request
from ..security.sandbox.deferred import DeferredSandbox
from ..session.session import Session
from ..session.state import TODO_WRITE
from ..tools import REGISTRY, ToolContext
from ..tools.fs.text_files import DISK, TextFiles
from ..tools.process.jobs import Jobs
from ..tools.sdk.wiring import Wiring
from ..types.effects import AgentSteps
from ..types.events import CallFinished, Completed, Event, Notice
from ..types.file_names import escape_name
from ..types.messages import JSON, Message, ToolCall, UserMessage
from ..types.process import StartedProcess
from .connect import Connections
from .library.result import RunRecord, list_attempts
from .model import Model
from .permissions import defer_sandbox, make_hooks, make_policy, make_tool_context
from .state_files import ServerMemory, TrustMemory
from .toolset import make_tools

if TYPE_CHECKING:
    from ..tools.fs.baseline import FileWatch
    from .library.structured import Form


class Workplace(Struct, frozen=True):
    """Where the commands of a chat run, whichever models it uses, and where its tools find files.

    `jobs` are those in the background; `find_watch` gives what finds their changes to files, and those of other calls.
    """

    sandbox: DeferredSandbox
    jobs: Jobs
    find_watch: Callable[[], FileWatch]
    files: TextFiles = DISK


class Runtime(Struct, frozen=True):
    """A running agent, and what a front end shows or saves of it.

    `sandbox` is where commands run; None if the tools run none. `todos` are content and status, as the model keeps
    them; None if its tools keep no list. `make_repairing` makes the agent whose answer is held to a schema.
    """

    agent: AgentLoop
    model: Model
    settings: Settings
    sandbox: DeferredSandbox | None = None
    todos: list[tuple[str, str]] | None = None
    cancelled: CancelToken | None = None  # see Factory
    workplace: Workplace | None = None
    make_repairing: Callable[[dict[str, JSON]], Runtime] | None = None

    def answer(self, session: Session, question: UserMessage, form: Form | None = None) -> Generator[Event, None, None]:
        """Put a question to the agent; the session records what happens. Raises BotError.

        A question that gets no answer is taken back, however it ends. `form`: of the answer. Before the first calls
        that may run a command, a Notice tells if there is no sandbox for it.
        """
        record = RunRecord()
        session.messages.append(question)
        try:
            for schema in list_attempts(form, record, session.messages):
                asked = self.make_repairing(schema) if schema and self.make_repairing else self
                steps = asked.agent.run(session.messages, self.cancelled, "none" if schema else "auto")
                driven = asked.model.drive(steps, session.save_waiting)
                with self._watch_jobs(session), closing(session.follow(driven)) as events:
                    yield from self._offer_set_aside()
                    for event in events:
                        record.add(event)
                        yield event
                        yield from self._tell_of_sandbox(event, asked.agent)
        finally:
            session.forget_last(question)

    def _watch_jobs(self, session: Session) -> AbstractContextManager[None]:
        """While commands in the background run, what they change in files is recorded."""
        if self.workplace and self.workplace.jobs.running:
            return self.workplace.find_watch().watch_jobs(session.record_changes)
        return nullcontext()

    def _tell_of_sandbox(self, event: Event, agent: AgentLoop) -> Iterator[Notice]:
        """Before the first command: whether there is no sandbox for it. Behind a call: what it left to run later."""
        if isinstance(event, CallFinished):
            yield from self._offer_set_aside()
        elif self.sandbox and isinstance(event, Completed):
            is_needed = any(map(agent.may_run_command, event.response.calls))
            if is_needed and (warning := self.sandbox.take_warning()):
                yield Notice(warning)

    def _offer_set_aside(self) -> Iterator[Notice]:
        """Ask whether to put back what a command left to run later. Where nobody can be asked, it stays aside."""
        if not self.sandbox or not (items := self.sandbox.take_set_aside()):
            return
        why = "they would run later by themselves, so they are set aside; yes puts them back"
        call = ToolCall("", "put_back", {"files": [*map(str, items)]})

        def refuse_change(_: ToolCall) -> Request:
            raise CannotRun("what was set aside is put back as it is")

        request = Request(call, why, refuse_change, needs_person=True)
        answer = self.agent.approver.approve(request)
        is_wanted = (answer if isinstance(answer, Answer) else answer.result()).allowed
        for item in items:
            name, kept_name = escape_name(item.path), escape_name(item.kept)
            if not is_wanted:
                yield Notice(f"Set aside, as it would run by itself: {name} is now {kept_name}")
                continue
            try:
                self.sandbox.put_back(item)
            except OSError as error:
                yield Notice(f"{name} could not be put back from {kept_name}: {error.strerror}")

    def compact(self, session: Session, hint: str) -> Generator[Event, None, None]:
        """Replace the older part of the conversation by a summary. Raises BotError."""
        if self.agent.compactor is None:
            raise BotError("This conversation cannot be summarized.")
        steps = self.agent.compactor.compact_now(session.messages, self.agent.tools, hint)
        return session.follow(self.model.drive(steps))

    def restore_todos(self, session: Session) -> None:
        """Make the to-do list that of this conversation."""
        if self.todos is None:
            return
        self.todos.clear()
        if (arguments := session.state.last_todos) is not None:
            REGISTRY[TODO_WRITE].execute(arguments, ToolContext(Path(), wiring=Wiring(todos=self.todos)))

    def save_server_facts(self) -> str:
        """Save what was learned about the server. Returns a message if that failed, else an empty string."""
        model, path = self.model, self.model.path.for_others
        if path.is_learned:
            try:
                memory = ServerMemory(self.settings.state)
                memory.save(self.settings.vllm.base_url, model.name, model.server_version, path)
            except OSError as error:
                return f"What was learned about the server could not be saved: {describe_error(error)}"
        return ""

    def describe(self, session: Session) -> dict[str, str]:
        """Who answers, for traces."""
        return {
            "server": self.settings.vllm.base_url,
            "provider": self.settings.vllm.provider,
            "model": self.model.name,
            "workspace": str(self.settings.root),
            "session": session.id,
        }


def make_workplace(settings: Settings, files: TextFiles = DISK) -> Workplace:
    jobs = Jobs()

    @cache
    def find_watch() -> FileWatch:
        from ..tools.fs.baseline import Baseline, FileWatch  # start-up is measured

        others = [Baseline(each, settings.state, f"{each}/") for each in settings.added]
        return FileWatch([Baseline(settings.root, settings.state), *others], lambda: bool(jobs.running))

    return Workplace(defer_sandbox(settings), jobs, find_watch, files)


def make_runtime(
    connections: Connections,
    model_name: str,
    approver: Approver,
    find_session: Callable[[], Session] | None,
    only: Sequence[str] | None = None,
    answer_schema: Mapping[str, JSON] | None = None,
    workplace: Workplace | None = None,
) -> Runtime:
    """See Factory.make_runtime."""
    settings = connections.settings
    sandbox = workplace.sandbox if workplace else defer_sandbox(settings)
    model = connections.make_model(model_name, answer_schema=answer_schema)
    _recall_path(settings, model)
    policy = make_policy(settings, sandbox)
    context = make_tool_context(settings, policy)
    if workplace:
        context = context.rewire(chat_jobs=workplace.jobs, files=workplace.files)
    if settings.get_model_settings(model.name).diagnostics and TrustMemory(settings.state, settings.root).is_trusted:
        from ..tools.sources.diagnostics import Diagnostics  # start-up is measured

        context = context.rewire(diagnose=Diagnostics().check)  # it asks the project's checkers, which run its code
    agent = AgentLoop(
        model.core,
        make_tools(settings, only, lambda: model.context_length),
        _record_in(find_session, context, workplace),
        approver,
        policy,
        max_tool_turns=settings.agent.max_tool_turns,
        finishes_announced=settings.agent.finish_announced,
        max_parallel_calls=settings.agent.max_parallel_calls,
        compactor=connections.make_compactor(model),
        output_budget=lambda: compute_output_budget(model.core.context_limit),
        review_board=connections.make_review_board(),
        hooks=make_hooks(settings, lambda: find_session().id if find_session else ""),
        open_subagent=partial(_open_subagent, connections, model, find_session),
    )

    def make_repairing(schema: dict[str, JSON]) -> Runtime:
        return make_runtime(connections, model_name, approver, find_session, only, schema, workplace)

    return Runtime(
        agent, model, settings, sandbox, context.wiring.todos, connections.cancelled, workplace, make_repairing
    )


def _recall_path(settings: Settings, model: Model) -> None:
    """Begin with the path that is remembered of the model."""
    if settings.get_model_settings(model.name).enable_function_calling:
        memory = ServerMemory(settings.state)
        if path := memory.find(settings.vllm.base_url, model.name, lambda: model.server_version):
            model.path = path


@contextmanager
def _open_subagent(
    connections: Connections,
    parent: Model,
    find_session: Callable[[], Session] | None,
    server: str,
    opening: Sequence[Message],
    cancelled: CancelToken,
) -> Iterator[SubagentModel]:
    """See OpenModel of src/agent/subagents.py."""
    settings = connections.settings.with_model(server) if server else connections.settings
    theirs = Connections(settings, connections.sleep, cancelled)
    with theirs.make_model(theirs.choose_model() if server else parent.name) as model:
        if server:
            _recall_path(settings, model)
        else:
            model.path, model.max_tokens = parent.path, parent.max_tokens
        meta: dict[str, JSON] = {"model": model.name, "server": settings.vllm.base_url}
        session = find_session().start_task(opening, meta) if find_session else Session(opening, settings.root)

        def drive(steps: AgentSteps[None]) -> Generator[Event, None, None]:
            return session.follow(model.drive(steps, session.save_waiting))

        with closing(session):
            yield SubagentModel(
                model.core,
                session.messages,
                drive,
                theirs.make_compactor(model),
                lambda: compute_output_budget(model.core.context_limit),
            )


def _record_in(
    find_session: Callable[[], Session] | None, context: ToolContext, workplace: Workplace | None
) -> ToolContext:
    """The context, with the files that tools write and the processes they start recorded, where there is a session."""
    if find_session is None:
        return context

    def record_write(path: str, content: bytes | None) -> None:
        find_session().record_write(path, content)

    def record_process(process: StartedProcess) -> None:
        find_session().record_process(process)

    def record_process_end(process: StartedProcess) -> None:
        find_session().record_process(process, has_ended=True)

    def watch_files(only_files: bool) -> AbstractContextManager[None]:
        session = find_session()
        if workplace is None or session.path is None:
            return nullcontext()
        return workplace.find_watch().watch(session.record_changes, only_files=only_files)

    return context.rewire(
        before_write=record_write, watch_files=watch_files, on_start=record_process, on_end=record_process_end
    )
