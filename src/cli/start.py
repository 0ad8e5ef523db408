"""From settings to what a conversation needs: its first message, the agent, the model's name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import config
from ..errors import ConfigError, ServerError
from ..messages import Message, SystemMessage

if TYPE_CHECKING:  # requests loads behind the prompt, not before it
    from ..agent import Agent
    from ..client import Client
    from ..security.approval import Approver
    from ..wire.providers import Provider

Choose = Callable[[list[str]], str]


def opening(settings: config.Settings) -> list[Message]:
    """A conversation in which nothing has been said but the system prompt."""
    notes = settings.system_prompt
    where = notes.workspace_note.replace("{workspace}", str(workspace(settings)))
    return [SystemMessage("\n\n".join(filter(None, [notes.role, where, notes.tools_note])))]


def workspace(settings: config.Settings) -> Path:
    """The folder the tools work in, links resolved. Raises ConfigError where it is none."""
    folder = Path(settings.workspace.dir).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"workspace.dir: there is no folder {folder}.", "Make it, or name another with --workspace.")
    return folder.resolve()


def agent(settings: config.Settings, model_name: str, approver: Approver) -> Agent:
    from ..agent import Agent
    from ..model import Model, random_id
    from ..model import Path as CallPath
    from ..tools import REGISTRY, ToolContext

    vllm, security = settings.vllm, settings.security
    model = Model(
        _client(settings),
        model_name,
        codec=_provider(settings).codec(random_id),
        is_vllm=vllm.provider == "vllm",
        path=CallPath() if vllm.enable_function_calling else CallPath("text", "enable_function_calling is false"),
        temperature=vllm.temperature,
        max_tokens=vllm.max_tokens,
    )
    context = ToolContext(
        workspace=workspace(settings),
        max_file_bytes=int(settings.workspace.max_file_size_mb * 1_000_000),
        protected=settings.files,
        environment=dict(os.environ),
        exec_enabled=security.exec_enabled,
        exec_timeout=security.exec_timeout,
        exec_max_output=security.exec_max_output,
    )
    return Agent(
        model,
        REGISTRY,
        context,
        approver,
        allowed_commands=security.allowed_commands,
        max_tool_turns=settings.agent.max_tool_turns,
    )


def served_model(settings: config.Settings, choose: Choose) -> str:
    """The model that the server serves; `choose` is asked where it serves several. Raises BotError."""
    from ..model import random_id, served_models

    with _client(settings) as client:
        names = served_models(client, _provider(settings).codec(random_id))
    if not names:
        raise ServerError(f"The server at {settings.vllm.base_url} serves no model.")
    return names[0] if len(names) == 1 else choose(names)


def _client(settings: config.Settings) -> Client:
    from ..client import Client

    vllm, provider = settings.vllm, _provider(settings)
    return Client(
        vllm.base_url,
        vllm.api_key,
        vllm.timeout,
        key_header=provider.key_header,
        key_prefix=provider.key_prefix,
        headers=provider.headers,
    )


def _provider(settings: config.Settings) -> Provider:
    from ..wire.providers import PROVIDERS

    return PROVIDERS[settings.vllm.provider]
