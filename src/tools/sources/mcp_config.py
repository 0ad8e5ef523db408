"""The rows of `tools.mcp`, checked: which MCP servers there are, and how each is started or reached."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from msgspec import Struct

from ...errors import ConfigError
from .rows import Key, check_row, is_command, is_list_of, is_number, is_string, one_of

STRINGS = Key("an object of strings", lambda value: isinstance(value, dict) and all(map(is_string, value.values())))
DURATION = Key("a number of seconds", lambda value: is_number(value) and 0 < value < 1e6)
ADDRESS = re.compile("https?://.+")
KEYS = {
    "name": Key(
        "1 to 32 letters, digits, _ or -, and stands before its tools' names",
        lambda value: is_string(value) and bool(re.fullmatch(r"[a-zA-Z0-9_-]{1,32}", value)),
    ),
    "command": Key("a program, or a list of it and its arguments", is_command),
    "args": Key("a list of strings", lambda value: value == [] or is_list_of(is_string, value)),
    "env": STRINGS,
    "cwd": Key("a folder", lambda value: is_string(value) and "\0" not in value),
    "url": Key("an http:// or https:// address", lambda value: is_string(value) and bool(ADDRESS.fullmatch(value))),
    "headers": STRINGS,
    "type": one_of("stdio", "http", "streamable-http"),  # other programs have it; command or url says as much
    "disabled": Key("true or false", lambda value: isinstance(value, bool)),
    "risk": one_of("high", "low", "annotations"),
    "timeout": DURATION,
    "start_timeout": DURATION,
}


class McpServerConfig(Struct, frozen=True):
    """A row of `tools.mcp`: either a `command` to start, with its arguments, or the `url` of a server."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    risk: str = "high"
    timeout: float = 60.0  # seconds of one call
    start_timeout: float = 20.0  # seconds until its tools are listed


def parse_servers(
    rows: Sequence[Mapping[str, Any]], environ: Mapping[str, str], workspace: Path
) -> list[McpServerConfig]:
    """Check the rows, and replace `${NAME}` in env and headers from `environ`. Raises ConfigError."""
    configs = [
        config
        for number, row in enumerate(rows)
        if (config := _read_config(f"tools.mcp[{number}]", row, environ, workspace))
    ]
    names = [config.name for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"tools.mcp: two servers have the name {name!r}")
    return configs


def _read_config(
    place: str, row: Mapping[str, Any], environ: Mapping[str, str], workspace: Path
) -> McpServerConfig | None:
    """The row, checked; None for a server that is disabled."""
    row = check_row(place, row, KEYS, required=("name",))
    row.pop("type", "")
    if row.pop("disabled", False):
        return None
    if ("command" in row) == ("url" in row):
        raise ConfigError(f"{place}: either command or url is needed")
    for key in ("env", "headers"):
        row[key] = _substitute(f"{place}: {key}", row.get(key, {}), environ)
    row["cwd"] = str(workspace / os.path.expanduser(row.get("cwd", ".")))  # noqa: PTH111 - raises nothing, as Path does
    command = row.get("command", [])
    if isinstance(command, str):
        command = [command]
        _refuse_command_line(place, command[0], row["cwd"])
    row["command"] = (*command, *row.pop("args", ()))
    return McpServerConfig(**row)


def _refuse_command_line(place: str, command: str, folder: str) -> None:
    """Raise ConfigError if the string is not a program but one with its arguments."""
    if len(command.split()) < 2 or shutil.which(command) or shutil.which(f"{folder}/{command}"):
        return
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        words = command.split()
    raise ConfigError(f'{place}: command is one program; write its arguments apart: "command": {json.dumps(words)}')


def _substitute(place: str, values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    try:
        return {str(name): Template(value).substitute(environ) for name, value in values.items()}
    except KeyError as error:
        raise ConfigError(f"{place}: there is no environment variable {error.args[0]}") from error
    except ValueError as error:
        raise ConfigError(f"{place}: a $ stands for a variable, as in ${{NAME}}; write $$ for a dollar") from error
