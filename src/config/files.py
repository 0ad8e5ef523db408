"""Settings files: their text to given values, and a value written into one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..errors import ConfigError
from ..types.strict_json import loads_strict
from .checks import SETTINGS, TABLES, GivenValue, shorten, split_key, suggest_key
from .settings import SECTIONS

REMOVED = object()
MCP_SERVERS = "mcpServers"
_JSON_RULES = "JSON has no comments, no comma behind the last entry, and none but double quotes"


def read_settings_file(path: Path) -> Iterator[GivenValue]:
    """What the file gives, not checked yet. Raises ConfigError for a file that cannot be read."""
    sections = read_file(path)
    if not isinstance(sections, dict):
        raise ConfigError(f"{path}: expected an object of sections, got {shorten(sections)}")
    _move_mcp_servers(path, sections)
    for section, values in sections.items():
        if section not in SECTIONS and section not in TABLES:
            raise ConfigError(f"{path}: {section}: there is no such section{suggest_key(section)}")
        if section in SECTIONS:
            for given_value in _read_section(f"{path}: {section}", section, values):
                yield replace(given_value, file=path)
            continue
        for name, entry in _expect_object(f"{path}: {section}", values).items():
            if not _expect_object(f"{path}: {section}.{name}", entry):
                raise ConfigError(f"{path}: {section}.{name}: it is empty")
            for given_value in _read_section(f"{path}: {section}.{name}", "vllm", entry):
                yield replace(given_value, table=section, name=str(name), file=path)


def write_setting(path: Path, key: str, value: object) -> None:
    """Set a key in a JSON file, or remove it where `value` is REMOVED; what else the file holds stays as it is.

    The new content replaces the old at once. Raises ConfigError for a file that cannot be read or written.
    """
    if path.suffix.lower() != ".json":
        raise ConfigError(f"{path}: only a .json file can be changed by a command; edit this one by hand")
    sections: dict[Any, Any] = {}
    if os.path.lexists(path):
        sections = _expect_object(str(path), read_file(path))
    table, name, option = split_key(key)
    section, _, last = option.partition(".")
    folders = (table, name) if table else (section,)
    holders = [sections]
    for each in folders:
        holders.append(_expect_object(f"{path}: {each}", holders[-1].setdefault(each, {})))
    if value is REMOVED:
        holders[-1].pop(last, None)
        for each, holder, inner in zip(reversed(folders), reversed(holders[:-1]), reversed(holders[1:]), strict=True):
            if not inner:
                del holder[each]
    else:
        holders[-1][last] = value
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_json(Path(os.path.realpath(path)), sections)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ConfigError(f"{path}: it would hold half of a surrogate pair, {half}, which is no text") from error


def replace_json(file: Path, content: object) -> None:
    """Write a file that only its owner reads, atomically; of a write that fails nothing is left. Raises OSError."""
    new = file.with_suffix(f".{os.getpid()}")
    new.unlink(missing_ok=True)  # of a program that was killed
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            json.dump(content, out, indent=2, ensure_ascii=False)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def parse_words(key: str, words: Sequence[str]) -> object:
    """The value that words of a command line stand for: JSON where the key's type is no string.

    A list of strings may be given as words. The value is not checked.
    """
    setting, text = SETTINGS.get(split_key(key)[2]), " ".join(words)
    if setting is None or setting.type is str:
        return text
    try:
        value: object = loads_strict(text)
    except (ValueError, RecursionError):
        value = text
    if setting.type == tuple[str, ...] and not isinstance(value, list):
        return [*words]
    return value


def _read_section(place: str, section: str, values: object) -> Iterator[GivenValue]:
    for name, value in _expect_object(place, values).items():
        key = "on" if name is True else name  # YAML 1.1 reads this word as a boolean
        yield GivenValue(f"{section}.{key}", value, f"{place}.{key}")


def _expect_object(place: str, values: object) -> dict[Any, Any]:
    if not isinstance(values, dict):
        raise ConfigError(f"{place}: expected an object, got {shorten(values)}")
    return values


def _move_mcp_servers(path: Path, sections: dict[Any, Any]) -> None:
    """Turn `mcpServers`, an object of servers by name as most programs have it, into rows of tools.mcp."""
    tools = sections.get("tools", {})
    if tools is None and MCP_SERVERS in sections:
        tools = {}  # a section of YAML in which all is commented out
    if not isinstance(tools, dict):
        return
    for holder in (sections, tools):
        if MCP_SERVERS in holder:
            servers = holder.pop(MCP_SERVERS)
            if not isinstance(servers, dict) or not all(isinstance(row, dict) for row in servers.values()):
                raise ConfigError(f"{path}: {MCP_SERVERS}: expected an object of servers by name, each an object")
            rows = [{"name": name, **row} for name, row in servers.items()]
            listed = tools.setdefault("mcp", [])
            if isinstance(listed, list):
                tools["mcp"] = [*listed, *rows]
            sections["tools"] = tools


def read_file(path: Path) -> object:
    parse = PARSERS.get(path.suffix.lower())
    if parse is None:
        raise ConfigError(f"{path}: settings are read from a .json, .yaml or .yml file")
    try:
        return parse(path, path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: it is no UTF-8 text; save it in that encoding") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _parse_json(path: Path, text: str) -> object:
    try:
        return loads_strict(text, error=lambda key: ValueError(f"{shorten(key)} stands twice in one object"))
    except json.JSONDecodeError as error:
        why = _JSON_RULES if text.strip() else "the file is empty; {} is the least there can be"
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg} ({why})") from error


def _parse_yaml(path: Path, text: str) -> object:
    from ..types.strict_yaml import InvalidYaml, load_strict  # start-up is measured

    try:
        return load_strict(text)
    except InvalidYaml as error:
        raise ConfigError(f"{path}: {error}") from error


PARSERS = {".json": _parse_json, ".yaml": _parse_yaml, ".yml": _parse_yaml}
