"""A running agent: its model, tools, policy and sandbox, made from settings.

This module loads the model and the tools, so the chat imports it once its prompt is shown.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from threading import Event as CancelToken
from typing import TYPE_CHECKING, NamedTuple

from ..agent.loop import AgentLoop
from ..agent.permission import PermissionGate
from ..agent.pruning import compute_output_budget
from ..agent.subagents import SubagentModel
from ..config import Settings
from ..errors import BotError, ConfigError, describe_error
from ..security.permissions.approval import REFUSE_ALL, Answer, Approver, Request
from ..security.permissions.policy import Policy
from ..security.permissions.rules import find_idle_rules, parse_rules
from ..security.sandbox.deferred import DeferredSandbox, SandboxChoice
from ..security.sandbox.limits import ResourceLimits
from ..security.sandbox.view import SandboxView, complete_view, select_environment
from ..security.shell.workspace import list_start_files
from ..session.session import Session
from ..session.state import TODO_WRITE
from ..tools import REGISTRY, Registry, Tool, ToolContext
from ..tools.builtin.task import offer_task, submit_plan
from ..tools.process.jobs import Jobs
from ..tools.sdk.output_store import Outputs
from ..tools.sources import python_files
from ..types.effects import AgentSteps
from ..types.events import CallFinished, Completed, Event, Notice
from ..types.file_names import escape_name
from ..types.messages import JSON, Message, ToolCall, ToolChoice, ToolDefinition
from ..types.process import StartedProcess
from ..types.sandbox import Sandbox
from .connect import Connections
from .model import Model
from .state_files import ALLOWED, RuleMemory, ServerMemory, TrustMemory

if TYPE_CHECKING:
    from ..tools.fs.baseline import FileWatch
    from ..tools.sources.mcp import McpServers


class Workplace(NamedTuple):
    """Where the commands of a chat run, whichever models it uses.

    `jobs` are those in the background; `find_watch` gives what finds their changes to files, and those of other calls.
    """

    sandbox: DeferredSandbox
    jobs: Jobs
    find_watch: Callable[[], FileWatch]


class Runtime(NamedTuple):
    """A running agent, and what a front end shows or saves of it.

    `sandbox` is where commands run; None if the tools run none. `todos` are content and status, as the model keeps
    them; None if its tools keep no list.
    """

    agent: AgentLoop
    model: Model
    settings: Settings
    sandbox: DeferredSandbox | None = None
    todos: list[tuple[str, str]] | None = None
    cancelled: CancelToken | None = None  # see Factory
    workplace: Workplace | None = None

    def answer(self, session: Session, tool_choice: ToolChoice = "auto") -> Generator[Event, None, None]:
        """Answer the last message of the session, which records what happens. Raises BotError.

        Before the first calls that may run a command, a Notice tells if there is no sandbox for it.
        """
        if self.sandbox:
            yield from self._offer_set_aside(self.sandbox)
        driven = self.model.drive(self.agent.run(session.messages, self.cancelled, tool_choice), session.save_waiting)
        work, record = self.workplace, session.record_changes
        watched = work.find_watch().watch_jobs(record) if work and work.jobs.running else nullcontext()
        with watched, closing(session.follow(driven)) as events:
            for event in events:
                yield event
                if isinstance(event, Completed) and any(map(self.agent.may_run_command, event.response.calls)):
                    yield from self._warn_of_sandbox()
                if isinstance(event, CallFinished) and self.sandbox:
                    yield from self._offer_set_aside(self.sandbox)

    def _warn_of_sandbox(self) -> Iterator[Notice]:
        if self.sandbox and (warning := self.sandbox.take_warning()):
            yield Notice(warning)

    def _offer_set_aside(self, sandbox: DeferredSandbox) -> Iterator[Notice]:
        """Ask whether to put back what a command left to run later. Where nobody can be asked, it stays aside."""
        if not (items := sandbox.take_set_aside()):
            return
        why = "they would run later by themselves, so they are set aside; yes puts them back"
        call = ToolCall("", "put_back", {"files": [*map(str, items)]})
        request = Request(call, why, lambda _call: "what was set aside is put back as it is", needs_person=True)
        answer = self.agent.approver.approve(request)
        is_wanted = (answer if isinstance(answer, Answer) else answer.result()).allowed
        for item in items:
            name, kept = escape_name(item.path), escape_name(item.kept)
            if not is_wanted:
                yield Notice(f"Set aside, as it would run by itself: {name} is now {kept}")
                continue
            try:
                sandbox.put_back(item)
            except OSError as error:
                yield Notice(f"{name} could not be put back from {kept}: {error.strerror}")

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
        if (arguments := session.todos) is not None:
            REGISTRY[TODO_WRITE].execute(arguments, ToolContext(Path(), todos=self.todos))

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


def make_workplace(settings: Settings) -> Workplace:
    jobs = Jobs()

    @cache
    def find_watch() -> FileWatch:
        from ..tools.fs.baseline import Baseline, FileWatch  # start-up is measured

        return FileWatch(Baseline(settings.root, settings.state), lambda: bool(jobs.running))

    return Workplace(defer_sandbox(settings), jobs, find_watch)


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
    context = replace(make_tool_context(settings, sandbox), chat_jobs=workplace.jobs if workplace else None)
    agent = AgentLoop(
        model.core,
        make_tools(settings, only, lambda: model.context_length),
        _record_in(find_session, context, workplace) if find_session else context,
        approver,
        make_policy(settings, sandbox),
        max_tool_turns=settings.agent.max_tool_turns,
        max_parallel_calls=settings.agent.max_parallel_calls,
        compactor=connections.make_compactor(model),
        output_budget=lambda: compute_output_budget(model.core.context_limit),
        review_board=connections.make_review_board(),
        open_subagent=partial(_open_subagent, connections, model, find_session),
    )
    return Runtime(agent, model, settings, sandbox, context.todos, connections.cancelled, workplace)


def _recall_path(settings: Settings, model: Model) -> None:
    """Begin with the path that is remembered of the model."""
    if settings.get_model_settings(model.name).enable_function_calling:
        memory = ServerMemory(settings.state)
        if known := memory.find(settings.vllm.base_url, model.name, lambda: model.server_version):
            model.path = known


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


def _record_in(find_session: Callable[[], Session], context: ToolContext, workplace: Workplace | None) -> ToolContext:
    """The context, with the files that tools write and the processes they start recorded."""

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

    recorded = replace(context, before_write=record_write, watch_files=watch_files)
    return replace(recorded, on_start=record_process, on_end=record_process_end)


def make_tool_context(settings: Settings, sandbox: Sandbox | None) -> ToolContext:
    """What tools work with, under these settings."""
    return ToolContext(
        workspace=settings.root,
        max_file_bytes=int(settings.workspace.max_file_size_mb * 1_000_000),
        protected=(*settings.files, _resolve_state(settings)),
        environment=select_environment(os.environ, settings.security.environment, settings.keys),
        exec_timeout=settings.security.exec_timeout,
        exec_max_timeout=settings.longest_timeout,
        exec_max_output=settings.security.exec_max_output,
        outputs=Outputs(settings.state / "outputs"),
        sandbox=sandbox,
        can_show=make_policy(settings, sandbox).can_show,
    )


def make_tools(
    settings: Settings, only: Sequence[str] | None = None, get_context: Callable[[], int | None] = lambda: None
) -> Registry:
    """The tools the model may call, including the user's own. Without exec, no commands are offered.

    `only`: the names of those that are offered; None: all. `get_context`: the length of the model's context in tokens,
    which bounds what is told of skills. Raises ConfigError for a file that cannot be loaded, a name
    that is taken, or one that no tool has.
    """
    registry = _load_tools(settings, get_context)
    if only is None:
        return registry
    known = [tool.definition.name for tool in registry]
    if unknown := [name for name in only if name not in known]:
        raise ConfigError(f"There is no tool {unknown[0]}.", f"There are {', '.join(known)}.")
    return registry.without(*(name for name in known if name not in only))


def _load_tools(settings: Settings, get_context: Callable[[], int | None]) -> Registry:
    files, runs_commands = settings.tools, settings.security.exec_enabled
    whole = REGISTRY.plus([offer_task(settings.servers), submit_plan])
    registry = whole if runs_commands else whole.without("exec")
    more = python_files.load(files.modules, [each.name for each in whole.definitions])
    notices: list[str] = []
    if files.commands and runs_commands:
        from ..tools.sources import yaml_commands  # loads yaml

        more += yaml_commands.load(files.commands)
    if files.mcp:
        servers = _connect_mcp(json.dumps(files.mcp), settings.root)
        taken = {tool.definition.name for tool in (*registry, *more)}
        for tool in servers.tools:
            name = tool.definition.name
            if name in taken:  # no error: a server must not keep the program from starting
                notices.append(f"The tool {name} of an MCP server is left out: another tool has that name.")
            else:
                more.append(tool)
        notices += servers.notices
    loaded = TrustMemory(settings.state, settings.root).load_skills(os.environ)
    notices += loaded.problems
    skills = [each for each in loaded.skills.values() if not each.is_command]
    if skills and "skill" not in (each.definition.name for each in more):
        from ..tools.sources.skills import make_skill_tool

        more.append(make_skill_tool(skills, get_context()))
    notices += find_idle_rules(settings.security.rules, [each.definition.name for each in (*whole, *more)])
    if not more and not notices:
        return registry
    registry = registry.plus(_name_workspace(tool, settings.root) for tool in more)
    registry.notices += notices
    return registry


def _name_workspace(tool: Tool, root: Path) -> Tool:
    """The tool with the path of the workspace in place of `{workspace_dir}` in what the model is told of it."""
    told = tool.definition
    text = json.dumps([told.description, told.parameters, told.strict_parameters])
    if "{workspace_dir}" not in text:
        return tool
    description, parameters, strict = json.loads(text.replace("{workspace_dir}", json.dumps(str(root))[1:-1]))
    told = replace(told, description=description, parameters=parameters, strict_parameters=strict)
    return replace(tool, definition=told)


@cache
def _connect_mcp(rows: str, root: Path) -> McpServers:
    """The MCP servers in `rows`, which is JSON; connected once in a run of the program."""
    from ..tools.sources.mcp import McpServers  # loads asyncio
    from ..tools.sources.mcp_config import parse_servers

    return McpServers(parse_servers(json.loads(rows), os.environ, root))


def list_offered(settings: Settings, tools: Registry) -> tuple[ToolDefinition, ...]:
    """The tools that the model is offered in the mode of the settings."""
    return PermissionGate(tools, REFUSE_ALL, make_policy(settings, None), None).list_offered()


def make_policy(settings: Settings, sandbox: Sandbox | None) -> Policy:
    """What may run, where commands run in `sandbox`. Raises ConfigError for an invalid rule."""
    security = settings.security
    saved = RuleMemory(settings.state, settings.root).read()
    return Policy(
        workspace=settings.root,
        mode=security.mode_in_force,
        rules=(*parse_rules(security.rules), *parse_rules(saved)),
        allowed_commands=security.allowed_commands,
        protected=(*settings.files, _resolve_state(settings), *list_start_files(os.environ.get("HOME", ""))),
        sandbox=sandbox,
    )


def defer_sandbox(settings: Settings) -> DeferredSandbox:
    """The best sandbox that works here and that the settings allow; trying it out takes about 20 ms.

    What it shows to commands is what the folders hold now, before the model could write into them.
    """
    security, environment, state = settings.security, dict(os.environ), _resolve_state(settings)
    name, policy = sha256(os.fsencode(settings.root)).hexdigest()[:16], make_policy(settings, None)
    own = SandboxView(
        settings.root,
        readable=tuple(map(Path, security.sandbox_read)),
        protected=(*settings.files, state / ALLOWED),
        network=security.sandbox_network,
        hidden=(state,),
        cache=state / "caches" / name,
        aside=state / "aside" / name,
        is_unreadable=policy.is_unreadable if policy.denies_reading else None,
    )
    visible = complete_view(own, environment, (sys.prefix, sys.base_prefix))
    limits = ResourceLimits(security.exec_memory_mb, security.exec_processes, security.exec_file_size_mb)

    def choose_sandbox() -> SandboxChoice:
        from ..security.sandbox.choose import choose  # loads all kinds of sandboxes

        return choose(security.sandbox if security.exec_enabled else "off", visible, limits, environment)

    return DeferredSandbox(choose_sandbox)


def _resolve_state(settings: Settings) -> Path:
    """The state folder, which tools may not touch even if it is inside the workspace."""
    return Path(os.path.realpath(settings.state))
