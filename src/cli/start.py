"""From settings to a running conversation: one question, or a chat."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import config
from ..errors import ConfigError, ServerError
from ..messages import Message, SystemMessage
from .debug import Debug

if TYPE_CHECKING:  # requests loads behind the prompt, not before it
    from ..agent import Agent
    from ..client import Client
    from ..security.approval import Approver

Choose = Callable[[list[str]], str]


def run(given: argparse.Namespace, debug_level: int) -> int:
    """Raises BotError."""
    overrides = {
        "vllm.base_url": given.base_url,
        "vllm.model": given.model,
        "vllm.enable_function_calling": False if given.no_function_calling else None,
        "workspace.dir": given.workspace,
    }
    settings = config.load(
        Path(given.config) if given.config else None,
        {key: value for key, value in overrides.items() if value is not None},
        os.environ,
    )
    debug = Debug(debug_level, settings.vllm.api_key)
    question = _question(given)
    if question is None:
        from .chat import open_chat

        return open_chat(settings, debug, yes=given.yes)
    from .ask import ask

    return ask(settings, debug, question, yes=given.yes)


def _question(given: argparse.Namespace) -> str | None:
    """The one question to answer, from the command line or standard input; None opens the chat."""
    if given.prompt is None and sys.stdin.isatty():
        return None
    question: str = sys.stdin.read() if given.prompt is None else given.prompt
    if not question.strip():
        raise ConfigError("The question is empty.", 'Ask one: vllm-bot -p "What is in this folder?"')
    return question


def opening(settings: config.Settings) -> list[Message]:
    """A conversation in which nothing has been said but the system prompt."""
    notes = settings.system_prompt
    workspace = notes.workspace_note.replace("{workspace}", str(settings.workspace.root))
    return [SystemMessage("\n\n".join(filter(None, [notes.role, workspace, notes.tools_note])))]


def agent(settings: config.Settings, model_name: str, approver: Approver) -> Agent:
    from ..agent import Agent
    from ..model import Model
    from ..tools import REGISTRY, ToolContext

    vllm, security = settings.vllm, settings.security
    model = Model(
        _client(settings),
        model_name,
        native=vllm.enable_function_calling,
        temperature=vllm.temperature,
        max_tokens=vllm.max_tokens,
    )
    context = ToolContext(...)
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
    from ..model import served_models

    with _client(settings) as client:
        names = served_models(client)
    if not names:
        raise ServerError(f"The server at {settings.vllm.base_url} serves no model.")
    return names[0] if len(names) == 1 else choose(names)


def _client(settings: config.Settings) -> Client:
    from ..client import Client

    return Client(settings.vllm.base_url, settings.vllm.api_key, settings.vllm.timeout)
