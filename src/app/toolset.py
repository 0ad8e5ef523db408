"""The tools that a model is offered: the built-in ones, and those of the user, of MCP servers and of skills."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..agent.permission import PermissionGate
from ..config import Settings
from ..errors import ConfigError
from ..security.permissions.approval import REFUSE_ALL
from ..security.permissions.rules import find_idle_rules
from ..tools import REGISTRY, Registry, Tool, registry_of
from ..tools.builtin.task import offer_task, submit_plan
from ..tools.sdk.tool_search import fill_much, make_search_tools
from ..tools.sources import python_files
from ..tools.sources.skills import make_skill_tool
from ..types.messages import ToolDefinition
from .permissions import make_policy
from .state_files import TrustMemory

if TYPE_CHECKING:
    from ..tools.sources.mcp import McpServers


def make_tools(
    settings: Settings, only: Sequence[str] | None = None, get_context: Callable[[], int | None] = lambda: None
) -> Registry:
    """The tools the model may call, including the user's own. Without exec, no commands are offered.

    `only`: the names of those that are offered; None: all. `get_context`: the length of the model's context in tokens,
    which bounds what is told of skills. Raises ConfigError for a file that cannot be loaded, a name
    that is taken, or one that no tool has.
    """
    registry = _load_tools(settings, get_context)
    if only is not None:
        names = [tool.definition.name for tool in registry]
        if unknown := [name for name in only if name not in names]:
            raise ConfigError(f"There is no tool {unknown[0]}.", f"There are {', '.join(names)}.")
        registry = registry.without(*(name for name in names if name not in only))
    return _lead_to_named(registry, settings.tools.search, get_context)


def _lead_to_named(registry: Registry, search: str, get_context: Callable[[], int | None]) -> Registry:
    """The registry, with what finds the tools that are only named; or with none that are, where `search` is not on."""
    named = [each for each in registry.definitions if each.named_by]
    if not named:
        return registry
    if search == "always" or (search == "auto" and fill_much(named, get_context())):
        return registry.plus(make_search_tools(named))
    offered = registry_of(replace(tool, definition=replace(tool.definition, named_by="")) for tool in registry)
    offered.notices = registry.notices
    return offered


def _load_tools(settings: Settings, get_context: Callable[[], int | None]) -> Registry:
    builtin = REGISTRY.plus([offer_task(settings.servers), submit_plan])
    registry = builtin if settings.security.exec_enabled else builtin.without("exec")
    more, notices = _load_own_tools(settings, builtin, registry)
    skills = TrustMemory(settings.state, settings.root).load_skills(os.environ)
    for_model = [each for each in skills.skills.values() if not each.is_command]
    if for_model and "skill" not in (each.definition.name for each in more):
        more.append(make_skill_tool(for_model, get_context()))
    idle = find_idle_rules(settings.security.rules, [each.definition.name for each in (*builtin, *more)])
    registry = registry.plus(_name_workspace(tool, settings.root) for tool in more)
    registry.notices += [*notices, *skills.problems, *idle]
    return registry


def _load_own_tools(settings: Settings, builtin: Registry, offered: Registry) -> tuple[list[Tool], list[str]]:
    """The user's, from files and MCP servers, and notices: no server keeps the program from starting.

    `offered`: those of the built-in ones that the model gets, beside which an MCP tool's name has to be free.
    """
    files = settings.tools
    more = python_files.load(files.modules, [each.name for each in builtin.definitions])
    if files.commands and settings.security.exec_enabled:
        from ..tools.sources import yaml_commands  # loads what runs commands

        more += yaml_commands.load(files.commands)
    if not files.mcp:
        return more, []
    servers = connect_mcp(settings)
    notices: list[str] = []
    taken = {tool.definition.name for tool in (*offered, *more)}
    for tool in servers.tools:
        name = tool.definition.name
        if name in taken:
            notices.append(f"The tool {name} of an MCP server is left out: another tool has that name.")
        else:
            more.append(tool)
    return more, [*notices, *servers.notices]


def _name_workspace(tool: Tool, root: Path) -> Tool:
    """The tool with the path of the workspace in place of `{workspace_dir}` in what the model is told of it."""
    definition = tool.definition
    text = json.dumps([definition.description, definition.parameters])
    if "{workspace_dir}" not in text:
        return tool
    description, parameters = json.loads(text.replace("{workspace_dir}", json.dumps(str(root))[1:-1]))
    return replace(tool, definition=replace(definition, description=description, parameters=parameters))


def connect_mcp(settings: Settings) -> McpServers:
    """The MCP servers of these settings."""
    return _connect_mcp(json.dumps(settings.tools.mcp), settings.root)


@cache
def _connect_mcp(rows: str, root: Path) -> McpServers:
    """The MCP servers in `rows`, which is JSON; connected once in a run of the program."""
    from ..tools.sources.mcp import McpServers  # loads asyncio
    from ..tools.sources.mcp_config import parse_servers

    return McpServers(parse_servers(json.loads(rows), os.environ, root))


def list_offered(settings: Settings, tools: Registry) -> tuple[ToolDefinition, ...]:
    """The tools that the model is offered in the mode of the settings."""
    return PermissionGate(tools, REFUSE_ALL, make_policy(settings, None), None).list_offered()
