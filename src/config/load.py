"""Reading, merging and checking the settings.

The command line beats the environment, which beats the file, which beats the defaults. Each source becomes a series
of dotted keys (`vllm.model`) with the place of each, so one check serves all sources. An error is one line with the
place, the key and, for an unknown key, the nearest one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ..errors import ConfigError
from ..types.strict_json import loads_strict
from .locations import get_state_folder, list_default_files
from .settings import BASE_URLS, SECTIONS, Settings, VllmSettings, WorkspaceSettings

ENVIRONMENT = {"VLLM_BASE_URL": "vllm.base_url", "VLLM_MODEL": "vllm.model", "VLLM_API_KEY": "vllm.api_key"}
MCP_SERVERS = "mcpServers"
DEBUG_LEVELS = {"1": 1, "2": 2}
VERTEX_URL = "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google"
_JSON_RULES = "JSON has no comments, no comma behind the last entry, and none but double quotes"
MAX_NUMBER = 1e300  # excludes NaN and infinity; smaller integers fit into a float


class Kind(NamedTuple):
    """How a type is read: its name for people, the check of a value, and the conversion."""

    name: str
    accepts: Callable[[object], bool]
    convert: Callable[[Any], object] = lambda value: value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_list_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, kind) and (not isinstance(each, dict) or all(isinstance(key, str) for key in each))
        for each in value
    )


KINDS: Mapping[Any, Kind] = {
    str: Kind("a string", lambda value: isinstance(value, str)),
    bool: Kind("true or false", lambda value: isinstance(value, bool)),
    int: Kind("an integer", _is_integer),
    float: Kind("a number", _is_number, float),
    int | None: Kind("an integer or null", lambda value: value is None or _is_integer(value)),
    float | None: Kind(
        "a number or null",
        lambda value: value is None or _is_number(value),
        lambda value: value if value is None else float(value),
    ),
    bool | str: Kind("true, false or a string", lambda value: isinstance(value, (bool, str))),
    tuple[str, ...]: Kind("a list of strings", partial(_is_list_of, str), tuple),
    tuple[Mapping[str, Any], ...]: Kind("a list of objects", partial(_is_list_of, dict), tuple),
}
OPTIONS: Mapping[str, Field[Any]] = {
    f"{name}.{each.name}": each for name, section in SECTIONS.items() for each in fields(section)
}
HIDDEN = "(set)"  # in place of a secret


def list_settings(settings: Settings) -> list[tuple[str, Any, str]]:
    """Each key with its value and where it was set. Secrets are not shown."""
    rows = []
    for key, option in OPTIONS.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(settings, section), name)
        rows.append((key, HIDDEN if value and not option.repr else value, settings.places.get(key, "default")))
    return rows


class GivenValue(NamedTuple):
    """A value for a key, and the place where it was given, for errors."""

    key: str
    value: object
    place: str


def load(path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings from `path` (or the first default file that exists), the environment, and the command line.

    `overrides` come from the command line, by dotted key; None means not given. Raises ConfigError.
    """
    usual = list_default_files(environ)
    source = path or next(filter(os.path.lexists, usual), None)  # also if it cannot be read: that is an error
    variables = ((name, key, environ.get(name, "").strip()) for name, key in ENVIRONMENT.items())
    sources = chain(
        _read_settings_file(source) if source else (),
        (GivenValue(key, value, f"environment variable {name}") for name, key, value in variables if value),
        (GivenValue(key, value, f"command line: {key}") for key, value in overrides.items() if value is not None),
    )
    known = {given.key: _check(given) for given in sources}
    _choose_model(known)
    _choose_base_url(known)
    workspace = _find_workspace(known)
    tool_files = _find_tools(known, source) + _find_server_files(known, source, workspace)
    return Settings(
        **{name: section(**_collect_section(name, known)) for name, section in SECTIONS.items()},
        state=get_state_folder(environ),
        root=workspace,
        files=tuple(Path(os.path.realpath(each)) for each in (*((path,) if path else ()), *usual, *tool_files)),
        places={key: given.place for key, given in known.items()},
    )


def read_debug_level(environ: Mapping[str, str]) -> int:
    """0, 1 or 2, from DEBUG. Other programs use that variable too, so any other value counts as 0."""
    return DEBUG_LEVELS.get(environ.get("DEBUG", "").strip(), 0)


def _read_settings_file(path: Path) -> Iterator[GivenValue]:
    sections = _read_file(path)
    if not isinstance(sections, dict):
        raise ConfigError(f"{path}: expected an object of sections, got {_shorten(sections)}")
    _move_mcp_servers(path, sections)
    for section, values in sections.items():
        if section not in SECTIONS:
            raise ConfigError(f"{path}: {section}: there is no such section{_suggest(section)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {section}: expected an object, got {_shorten(values)}")
        for name, value in values.items():
            key = "on" if name is True else name  # YAML 1.1 reads this word as a boolean
            yield GivenValue(f"{section}.{key}", value, f"{path}: {section}.{key}")


def _move_mcp_servers(path: Path, sections: dict[Any, Any]) -> None:
    """Turn `mcpServers`, an object of servers by name as most programs have it, into rows of tools.mcp."""
    tools = sections.get("tools", {})
    for holder in (sections, tools) if isinstance(tools, dict) else ():
        if MCP_SERVERS in holder:
            servers = holder.pop(MCP_SERVERS)
            if not isinstance(servers, dict) or not all(isinstance(row, dict) for row in servers.values()):
                raise ConfigError(f"{path}: {MCP_SERVERS}: expected an object of servers by name, each an object")
            rows = [{"name": name, **row} for name, row in servers.items()]
            given = tools.get("mcp", [])
            tools["mcp"] = [*given, *rows] if isinstance(given, list) else given
            sections["tools"] = tools


def _check(given: GivenValue) -> GivenValue:
    """The value, checked and converted. Raises ConfigError."""
    key, value, place = given
    option = OPTIONS.get(key)
    if option is None:
        raise ConfigError(f"{place}: there is no such key{_suggest(key)}")
    kind = KINDS[option.type]
    if not kind.accepts(value):
        shown = f", got {_shorten(value)}" if option.repr else ""
        raise ConfigError(f"{place}: expected {kind.name}{shown}")
    least, most, choices = (option.metadata[name] for name in ("least", "most", "choices"))
    if least is not None and value is not None and value < least:
        raise ConfigError(f"{place}: expected at least {least:g}, got {value}")
    if most is not None and value is not None and value > most:
        raise ConfigError(f"{place}: expected at most {most:g}, got {value}")
    if choices and value not in choices:
        raise ConfigError(f"{place}: expected one of {', '.join(choices)}, got {_shorten(value)}")
    refine = REFINERS.get(key)
    return GivenValue(key, refine(value, place) if refine else kind.convert(value), place)


def _refine_base_url(value: str, place: str) -> str:
    from urllib.parse import urlsplit

    if "@" in value:  # not shown, because a password stands before it
        raise ConfigError(f"{place}: an address holds no user and no password; set VLLM_API_KEY instead")
    try:
        url = urlsplit(value)
        is_address = url.scheme in ("http", "https") and url.hostname and url.port != 0 and not url.query + url.fragment
    except ValueError:
        is_address = False
    if not is_address or " " in value or not value.isprintable():
        meant = f"; did you mean http://{value.rstrip('/')}?" if value and "://" not in value else ""
        raise ConfigError(f"{place}: expected an address such as {BASE_URLS['vllm']}, got {_shorten(value)}{meant}")
    return value.rstrip("/")


def _refine_api_key(value: str, place: str) -> str:
    """The key without the line end it was pasted with. What an HTTP header cannot hold is refused, and not shown."""
    key = value.strip()
    if not _HEADER_WORD.fullmatch(key):
        raise ConfigError(f"{place}: vllm.api_key is one word of printable Latin-1 characters, and this is not")
    return key


REFINERS: Mapping[str, Callable[[Any, str], object]] = {
    "vllm.base_url": _refine_base_url,
    "vllm.api_key": _refine_api_key,
    "vllm.ssl_verify": lambda value, place: str(_resolve(value, place, "file")) if isinstance(value, str) else value,
}
_HEADER_WORD = re.compile("[!-~\xa1-\xac\xae-\xff]*")


def _find_workspace(known: Mapping[str, GivenValue]) -> Path:
    given = known.get("workspace.dir", GivenValue("workspace.dir", WorkspaceSettings().dir, "workspace.dir"))
    return _resolve(str(given.value), given.place, "folder")


def _resolve(name: str, place: str, kind: Literal["file", "folder"], beside: Path = Path()) -> Path:
    """The file or folder, with links resolved. An empty name may be a variable that was not set: it names none."""
    with suppress(OSError, ValueError, RuntimeError):  # the name is too long, has a NUL, or the home of an unknown user
        path = Path(os.path.realpath(beside / Path(name).expanduser()))
        if name and (path.is_file() if kind == "file" else path.is_dir()):
            return path
    raise ConfigError(f"{place}: there is no {kind} {_shorten(name)}")


def _collect_section(section: str, known: Mapping[str, GivenValue]) -> dict[str, Any]:
    return {key.partition(".")[2]: given.value for key, given in known.items() if key.startswith(f"{section}.")}


def _choose_model(known: dict[str, GivenValue]) -> None:
    """If no model is named, use the one at default_model_index of those available."""
    vllm = VllmSettings(**_collect_section("vllm", known))
    if not vllm.available_models:
        return
    if vllm.default_model_index >= len(vllm.available_models):
        last = len(vllm.available_models) - 1
        place = known["vllm.default_model_index"].place
        raise ConfigError(f"{place}: {vllm.default_model_index}, and the last of available_models is {last}")
    chosen = vllm.model or vllm.available_models[vllm.default_model_index]
    known["vllm.model"] = GivenValue("vllm.model", chosen, known["vllm.available_models"].place)


def _choose_base_url(known: dict[str, GivenValue]) -> None:
    """If no address is given, use the provider's own."""
    if "vllm.base_url" in known or "vllm.provider" not in known:
        return
    _, provider, place = known["vllm.provider"]
    if not BASE_URLS[str(provider)]:
        raise ConfigError(f"{place}: {provider} has no address of its own; set vllm.base_url to {VERTEX_URL}")
    known["vllm.base_url"] = GivenValue("vllm.base_url", BASE_URLS[str(provider)], place)


def _find_tools(known: dict[str, GivenValue], source: Path | None) -> list[str]:
    """The files that define tools, made absolute: in a settings file they are relative to its folder.

    Tools may not write them, because their content is executed.
    """
    found: list[str] = []
    for key in ("tools.modules", "tools.commands"):
        if given := known.get(key):
            folder = source.parent if source and given.place.startswith(f"{source}:") else Path()
            names = cast("tuple[str, ...]", given.value)
            files = [str(_resolve(name, given.place, "file", folder)) for name in names]
            known[key] = given._replace(value=tuple(files))
            found += files
    return found


def _find_server_files(known: dict[str, GivenValue], source: Path | None, workspace: Path) -> list[str]:
    """The files that the commands of MCP servers name, such as their scripts. Tools may not write them.

    A server without a `cwd` starts in the workspace; a word that names a file beside the settings file means that file.
    """
    given, found = known.get("tools.mcp"), list[str]()
    if given is None:
        return found

    def resolve(word: Any, start: Path, beside: Path) -> Any:
        if not isinstance(word, str):
            return word
        names = filter(None, (word, word.partition("=")[2]))  # --config=server.json
        found.extend(filter(is_file, (str(folder / name) for name in names for folder in (beside, start))))
        return str(beside / word) if beside != start and is_file(beside / word) else word

    is_file = os.path.isfile  # raises nothing, as Path.is_file does
    rows = [dict(row) for row in cast("tuple[Mapping[str, Any], ...]", given.value)]
    for row in rows:
        start = workspace / os.path.expanduser(str(row.get("cwd", ".")))  # noqa: PTH111 - raises nothing
        beside = source.parent.absolute() if source and "cwd" not in row else start
        for key in {"command", "args"} & row.keys():
            words = row[key] if isinstance(row[key], list) else [row[key]]
            names_program = key == "command" and "/" not in str(words[:1])  # it is searched in PATH
            first = words[:1] if names_program else []
            resolved = first + [resolve(each, start, beside) for each in words[len(first) :]]
            row[key] = resolved if isinstance(row[key], list) else resolved[0]
    known["tools.mcp"] = given._replace(value=tuple(rows))
    return found


def _read_file(path: Path) -> object:
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
        return loads_strict(text, error=lambda key: ValueError(f"{_shorten(key)} stands twice in one object"))
    except json.JSONDecodeError as error:
        why = _JSON_RULES if text.strip() else "the file is empty; {} is the least there can be"
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg} ({why})") from error


def _parse_yaml(path: Path, text: str) -> object:
    import yaml  # start-up is measured

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path}: {where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from error


PARSERS = {".json": _parse_json, ".yaml": _parse_yaml, ".yml": _parse_yaml}


def _suggest(key: object) -> str:
    """The key or section that was probably meant, by its last name; "" if none is similar."""
    import difflib  # start-up is measured

    section, _, name = str(key).rpartition(".")
    names = {each.partition(".")[2]: each for each in OPTIONS} | ({} if section else dict.fromkeys(SECTIONS, ""))
    beside = [each for each, full in names.items() if full.startswith(f"{section}.")]
    near = difflib.get_close_matches(name, beside, n=1) or difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f"; the nearest is {names[near[0]] or near[0]}" if near else ""


def _shorten(value: object) -> str:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML has keys of other types, and lists that contain themselves
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
