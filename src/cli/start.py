"""From settings to what a conversation needs: its first message, the agent, the model's name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import config
from ..errors import ConfigError, ServerError
from ..messages import Message, Notice, SystemMessage
from .render import Screen

if TYPE_CHECKING:  # requests loads behind the prompt, not before it
    from ..agent import Agent
    from ..client import Client
    from ..security.approval import Approver

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


def warn(settings: config.Settings, screen: Screen) -> None:
    """Say what of the settings lets others listen in."""
    from urllib.parse import urlsplit

    url = urlsplit(settings.vllm.base_url)
    if url.scheme == "http" and settings.vllm.api_key and not _is_local(url.hostname or ""):
        screen.draw(Notice(f"The API key goes to {url.netloc} unencrypted: anyone between here and there can read it."))
    if url.scheme == "https" and not settings.vllm.ssl_verify:
        screen.draw(Notice(f"Nobody checks that {url.netloc} is who it says (vllm.ssl_verify is false)."))


def _is_local(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def agent(
    settings: config.Settings, model_name: str, approver: Approver, sleep: Callable[[float], None] = time.sleep
) -> Agent:
    """`sleep` waits between attempts."""
    from ..agent import Agent
    from ..model import Model
    from ..retry import Patience
    from ..tools import REGISTRY, ToolContext

    vllm, security = settings.vllm, settings.security
    model = Model(
        _client(settings, sleep),
        model_name,
        native=vllm.enable_function_calling,
        temperature=vllm.temperature,
        max_tokens=vllm.max_tokens,
        patience=Patience(vllm.retries, vllm.load_timeout),
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


def served_model(
    settings: config.Settings, screen: Screen, choose: Choose, sleep: Callable[[float], None] = time.sleep
) -> str:
    """The model that the server serves; `choose` is asked where it serves several. Raises BotError."""
    import random

    from ..model import served_models
    from ..retry import Patience, persist

    names: list[str] = []
    patience = Patience(settings.vllm.retries, settings.vllm.load_timeout)
    with _client(settings, sleep) as client:
        for event in persist(lambda: iter([served_models(client)]), patience, sleep, random.random):
            if isinstance(event, Notice):
                screen.draw(event)
            else:
                names = event
    if not names:
        raise ServerError(f"The server at {settings.vllm.base_url} serves no model.")
    return names[0] if len(names) == 1 else choose(names)


def _client(settings: config.Settings, sleep: Callable[[float], None]) -> Client:
    from ..client import Client, Clocks

    vllm = settings.vllm
    clocks = Clocks(vllm.connect_timeout, vllm.first_token_timeout, vllm.timeout, vllm.total_timeout)
    return Client(vllm.base_url, vllm.api_key, clocks, ssl_verify=vllm.ssl_verify, sleep=sleep)
