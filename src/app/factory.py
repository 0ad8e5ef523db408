"""From settings to what a conversation needs: tools, policy, sandbox, agent, session."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .. import config
from ..types.events import Notice
from ..types.messages import JSON, Message, SystemMessage
from . import connect

if TYPE_CHECKING:  # requests loads behind the prompt, not before it
    import argparse

    from ..agent.compaction import Compactor
    from ..agent.loop import Agent
    from ..model import Model
    from ..security.permissions.approval import Approver
    from ..security.permissions.policy import Policy
    from ..security.sandbox.choose import SandboxChoice
    from ..session.session import Session
    from ..session.store import Store
    from ..tools import Registry, ToolContext
    from ..tools.sdk.context import BeforeWrite
    from ..tools.sources.mcp import Servers
    from ..types.sandbox import Sandbox
    from .saved_rules import Allowed
    from .server_memory import Learnt


def settings_of(given: argparse.Namespace, **more: object) -> config.Settings:
    """The settings in force under these options, and under `more`, by dotted key. Raises ConfigError."""
    overrides = {
        "vllm.base_url": given.base_url,
        "vllm.model": given.model,
        "vllm.enable_function_calling": False if given.no_function_calling else None,
        "workspace.dir": given.workspace,
        "security.profile": given.profile,
        "agent.max_tool_turns": given.max_turns,
        **more,
    }
    settings = config.load(Path(given.config) if given.config else None, overrides, os.environ)
    if not given.allow:
        return settings
    from ..security.permissions.rules import parse_allow_option

    rules = (*settings.security.rules, *(parse_allow_option(text).to_entry() for text in given.allow))
    return replace(
        settings,
        security=replace(settings.security, rules=rules),
        places={**settings.places, "security.rules": f"{settings.places.get('security.rules', 'default')}, --allow"},
    )


def opening(settings: config.Settings) -> list[Message]:
    """The beginning of a conversation: the system prompt."""
    notes = settings.system_prompt
    where = notes.workspace_note.replace("{workspace}", str(settings.root))
    guides = config.as_prompt(config.guides(settings.root)) if settings.workspace.agents_md else ""
    if guides:
        from ..types.special_tokens import neutralize_with_note

        guides = neutralize_with_note(guides)
    return [SystemMessage("\n\n".join(filter(None, [notes.role, where, notes.tools_note, guides])))]


def tools(settings: config.Settings) -> Registry:
    """The tools the model may call, including the user's own. Without exec, no commands are offered.

    Raises ConfigError for a file that cannot be loaded or a name that is taken.
    """
    from ..tools import REGISTRY, Tool

    given, runs_commands = settings.tools, settings.security.exec_enabled
    if given.modules:
        from ..tools.sources.python_files import load

        load(given.modules)
    registry = REGISTRY if runs_commands else REGISTRY.without("exec")
    more: list[Tool] = []
    notices: list[str] = []
    if given.commands and runs_commands:
        from ..tools.sources.yaml_commands import load as load_commands

        more += load_commands(given.commands)
    if given.mcp:
        servers = _servers(json.dumps(given.mcp), settings.root)
        taken = {tool.definition.name for tool in (*registry, *more)}
        for tool in servers.tools:
            if tool.definition.name in taken:  # no error: a server must not keep the program from starting
                notices.append(
                    f"The tool {tool.definition.name} of an MCP server is left out: another tool has that name."
                )
            else:
                more.append(tool)
        notices += servers.notices
    if not more and not notices:
        return registry
    registry = registry.plus(more)
    registry.notices += notices
    return registry


@cache
def _servers(rows: str, root: Path) -> Servers:
    """The MCP servers in `rows`, which is JSON; connected once per run of the program."""
    from ..tools.sources.mcp import Servers, specs

    return Servers(specs(json.loads(rows), os.environ, root))


def warn(settings: config.Settings, screen: connect.Shown) -> None:
    """Warn about settings that let others listen in."""
    from urllib.parse import urlsplit

    url = urlsplit(settings.vllm.base_url)
    if url.scheme == "http" and settings.vllm.api_key and not _is_local(url.hostname or ""):
        screen.draw(Notice(f"The API key goes to {url.netloc} unencrypted: anyone between here and there can read it."))
    if url.scheme == "https" and not settings.vllm.ssl_verify:
        screen.draw(Notice(f"The identity of {url.netloc} is not checked (vllm.ssl_verify is false)."))


def _is_local(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def secrets(settings: config.Settings) -> list[str]:
    """The API keys in use: the server's and the reviewers'."""
    return [settings.vllm.api_key, *(str(each.get("api_key", "")) for each in settings.review.models)]


def store(settings: config.Settings) -> Store:
    """Where conversations are saved, with secrets removed."""
    from ..session.store import Store

    def redact(text: str) -> str:
        from ..security.text.redact import (
            redact as redact_secrets,
        )  # start-up is measured: not before something is written

        return redact_secrets(text, secrets(settings))

    return Store(settings.state, redact)


def cleaner(settings: config.Settings) -> Callable[[str], str]:
    """A function that removes terminal escapes and secrets from a text."""
    from ..security.text.redact import redact
    from ..security.text.sanitize import sanitize

    return lambda text: redact(sanitize(text), secrets(settings))


def session(settings: config.Settings, model_name: str, where: Store) -> Session:
    """A new conversation."""
    meta: dict[str, JSON] = {"workspace": str(settings.root), "server": settings.vllm.base_url}
    if model_name:
        meta["model"] = model_name
    return where.new(opening(settings), settings.root, meta)


def session_for(settings: config.Settings, resume: str | None) -> tuple[Session, list[str]]:
    """The session to continue ("" is the last one, None a new one), and notices about it. Raises BotError."""
    where = store(settings)
    if resume is None:
        return session(settings, settings.vllm.model, where), []
    return where.resume(resume, opening(settings), settings.root)


def about(settings: config.Settings, model: str, session_id: str) -> dict[str, str]:
    """Who answers, for traces."""
    return {
        "server": settings.vllm.base_url,
        "provider": settings.vllm.provider,
        "model": model,
        "workspace": str(settings.root),
        "session": session_id,
    }


class Bot(NamedTuple):
    """What answers: the agent with its model, and where facts learned about the server are saved."""

    agent: Agent
    model: Model
    learnt: Learnt
    server: str
    sandbox: str = ""  # a description for people
    todos: list[tuple[str, str]] | None = None  # content and status, as the model keeps them
    warning: str = ""  # about the sandbox, shown before commands run

    def recall(self, session: Session) -> None:
        """Take up what there is to do in this conversation."""
        if self.todos is None:
            return
        from ..session.todos import TODO_WRITE
        from ..tools import REGISTRY, ToolContext

        self.todos.clear()
        if (wrote := session.todos) is not None:
            REGISTRY[TODO_WRITE].execute(wrote, ToolContext(Path(), todos=self.todos))

    def keep(self) -> str:
        """Save what was learned about the server. Returns a message if that failed, else an empty string."""
        model = self.model
        if model.path.is_learnt:
            try:
                self.learnt.keep(self.server, model.name, model.server_version, model.path)
            except OSError as error:
                return f"What was learned about the server could not be saved: {error}"
        return ""


def bot(
    settings: config.Settings,
    model_name: str,
    approver: Approver,
    *,
    relearn: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    before_write: BeforeWrite | None = None,
) -> Bot:
    """`relearn`: forget what was learned about every server. `sleep` waits between retries.

    `before_write` receives the content of a file before a tool writes it.
    """
    from ..agent.loop import Agent
    from ..agent.pruning import budget
    from .server_memory import Learnt

    chosen = sandbox(settings)
    model, context = connect.model(settings, model_name, sleep), _context(settings, chosen.sandbox)
    learnt = Learnt(settings.state)
    if relearn:
        learnt.forget()
    if settings.vllm.enable_function_calling:
        model.path = learnt.recall(settings.vllm.base_url, model_name, model.server_version) or model.path
    agent = Agent(
        model,
        tools(settings),
        replace(context, before_write=before_write) if before_write else context,
        approver,
        policy(settings),
        max_tool_turns=settings.agent.max_tool_turns,
        max_parallel_calls=settings.agent.max_parallel_calls,
        compactor=_compactor(settings, model, sleep),
        output_budget=lambda: budget(model.context_length),
        panel=connect.panel(settings, sleep),
    )
    return Bot(agent, model, learnt, settings.vllm.base_url, chosen.sandbox.description, context.todos, chosen.warning)


def _own(settings: config.Settings) -> Path:
    """The state folder, which tools may not touch even if it is inside the workspace."""
    return Path(os.path.realpath(settings.state))


def sandbox(settings: config.Settings) -> SandboxChoice:
    """The best sandbox that works here and that the settings allow. Takes about 20 ms, as it is tried out."""
    from ..security.sandbox.choose import choose
    from ..security.sandbox.limits import ResourceLimits
    from ..security.sandbox.view import build_view
    from .saved_rules import FILE

    security, environment = settings.security, dict(os.environ)
    seen = build_view(
        settings.root,
        environment,
        protected=(*settings.files, _own(settings) / FILE),
        hidden=[_own(settings)],
        readable=security.sandbox_read,
        installations=(sys.prefix, sys.base_prefix),
        network=security.sandbox_network,
    )
    limits = ResourceLimits(security.exec_memory_mb, security.exec_processes, security.exec_file_size_mb)
    return choose(security.sandbox if security.exec_enabled else "off", seen, limits, environment)


def _compactor(settings: config.Settings, model: Model, sleep: Callable[[float], None]) -> Compactor:
    from functools import cache

    from ..agent.compaction import Compactor

    name = settings.agent.compact_model

    @cache
    def writer() -> Model:
        return connect.model(settings, name, sleep) if name and name != model.name else model

    return Compactor(model, at=settings.agent.compact_at, writer=writer)


def policy(settings: config.Settings) -> Policy:
    """What may run. Raises ConfigError for an invalid rule."""
    from ..security.permissions.policy import Policy
    from ..security.permissions.rules import parse_rules
    from ..security.shell.workspace import list_start_files

    security = settings.security
    return Policy(
        workspace=settings.root,
        profile=security.profile,
        rules=(*parse_rules(security.rules), *parse_rules(allowed(settings).rules())),
        allowed_commands=security.allowed_commands,
        protected=(*settings.files, _own(settings), *list_start_files(os.environ.get("HOME", ""))),
        path=os.environ.get("PATH", os.defpath),
    )


def allowed(settings: config.Settings) -> Allowed:
    """The rules that the user saved with `always` in this workspace."""
    from .saved_rules import Allowed

    return Allowed(settings.state, settings.root)


def _context(settings: config.Settings, sandbox: Sandbox) -> ToolContext:
    from ..tools import ToolContext
    from ..tools.sdk.output_store import Outputs

    security = settings.security
    return ToolContext(
        workspace=settings.root,
        max_file_bytes=int(settings.workspace.max_file_size_mb * 1_000_000),
        protected=(*settings.files, _own(settings)),
        environment=dict(os.environ),
        exec_timeout=security.exec_timeout,
        exec_max_output=security.exec_max_output,
        outputs=Outputs(settings.state / "outputs"),
        sandbox=sandbox,
    )
