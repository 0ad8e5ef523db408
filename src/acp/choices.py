"""What a user can choose in an editor: the mode and the model, as the protocol's modes and options, and commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    UnstructuredCommandInput,
)
from msgspec.structs import replace

from ..app.factory import Factory
from ..config import Settings
from ..errors import BotError
from ..negotiation import ServerApi
from ..security.permissions.modes import MODES
from ..tools.sources.skills import SkillSet
from .commands import COMMANDS, COUNT_HINT

MODE, MODEL = "mode", "model"
LIST_TIMEOUT_S = 3.0  # for the models of one server
MAX_NAME_CHARS = 32  # of an MCP server
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def show_modes(mode: str) -> Any:
    """Our five modes, for editors that know no options."""
    modes = [SessionMode(id=name, name=name.capitalize(), description=row.about) for name, row in MODES.items()]
    return SessionModeState(current_mode_id=mode, available_modes=modes)


def show_options(settings: Settings, models: Iterable[str]) -> list[Any]:
    """The mode and the model."""
    mode = settings.security.mode_in_force
    modes = [
        SessionConfigSelectOption(value=name, name=name.capitalize(), description=row.about)
        for name, row in MODES.items()
    ]
    current = name_model(settings)
    names = dict.fromkeys([current, *models])  # in their order, each once
    choices = [SessionConfigSelectOption(value=name, name=name) for name in names]
    return [
        SessionConfigOptionSelect(
            id=MODE,
            name="Mode",
            description="What may happen without asking",
            category="mode",
            type="select",
            current_value=mode,
            options=modes,
        ),
        SessionConfigOptionSelect(
            id=MODEL, name="Model", category="model", type="select", current_value=current, options=choices
        ),
    ]


def name_model(settings: Settings) -> str:
    """As `Settings.with_model` takes it: SERVER:MODEL where servers have names."""
    if not settings.server:
        return settings.vllm.model
    return f"{settings.server}:{settings.vllm.model}"


def list_models(settings: Settings) -> list[str]:
    """The models of every configured server; of one that does not answer, the one that its settings name."""
    if not settings.servers:
        return _list_of_server(settings)
    with ThreadPoolExecutor(len(settings.servers)) as pool:
        listed = pool.map(_list_of_server, map(settings.with_server, settings.servers))
        return [name for names in listed for name in names]


def _list_of_server(settings: Settings) -> list[str]:
    try:
        with Factory(settings).connections.open_server(LIST_TIMEOUT_S) as server:
            names = server.ask(ServerApi.list_models)
    except BotError:
        names = [settings.vllm.model] if settings.vllm.model else []
    return [name_model(replace(settings, vllm=replace(settings.vllm, model=name))) for name in names]


def show_commands(skills: SkillSet) -> Any:
    """Our own commands, and the user's skills and commands."""
    commands = [_show_command(name, about, COUNT_HINT) for name, about in COMMANDS.items()]
    commands += [
        _show_command(skill.name, skill.description or skill.name, "what it is about")
        for skill in skills.skills.values()
        if skill.name not in COMMANDS
    ]
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=commands)


def _show_command(name: str, about: str, hint: str) -> AvailableCommand:
    hinted_input = AvailableCommandInput(root=UnstructuredCommandInput(hint=hint))
    return AvailableCommand(name=name, description=about, input=hinted_input)


def convert_mcp_servers(servers: Sequence[Any] | None) -> tuple[dict[str, Any], ...]:
    """The MCP servers that the editor passes, as rows of `tools.mcp`. Raises ValueError for a kind that we lack."""
    return tuple(map(_convert_mcp_server, servers or ()))


def _convert_mcp_server(server: Any) -> dict[str, Any]:
    kind = getattr(server, "type", "stdio")
    name = _NOT_OF_NAMES.sub("_", server.name)[:MAX_NAME_CHARS]
    if kind == "stdio":
        env = {each.name: each.value.replace("$", "$$") for each in server.env}  # `$` stands for a variable in rows
        return {"name": name, "command": [server.command, *server.args], "env": env}
    if kind == "http":
        headers = {each.name: each.value.replace("$", "$$") for each in server.headers}
        return {"name": name, "url": server.url, "headers": headers}
    raise ValueError(f"the MCP server {server.name} is of kind {kind}; there are stdio and http")
