"""Merging the settings of all sources.

The command line beats the environment, which beats the file that was named or that stands beside cli.py, which beats
the user's file, which beats the defaults. Keys are merged one by one, also those of each entry of `models` and
`servers`; a list replaces a list.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import asdict, replace

from ..errors import ConfigError
from ..types.lazy_pattern import LazyPattern
from .agents_md import get_user_guide
from .checks import SETTINGS, GivenValue, check_value, resolve_path, split_key
from .files import read_settings_file
from .locations import get_checkout_file, get_state_folder, get_user_file, list_default_files
from .settings import BASE_URLS, MAIN_SERVER, SECTIONS, Settings, VllmSettings, WorkspaceSettings

ENVIRONMENT = {"VLLM_BASE_URL": "vllm.base_url", "VLLM_MODEL": "vllm.model", "VLLM_API_KEY": "vllm.api_key"}
PROGRAM_KEYS = ("tools.mcp", "hooks.before_call", "hooks.after_call", "hooks.turn_end")  # rows with a `command`
SCRIPT_NAME = LazyPattern(r"(?!-)[\w.+@/-]{1,200}\.\w{1,10}")
DEBUG_LEVELS = {"1": 1, "2": 2}
VERTEX_URL = "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google"


def list_settings(settings: Settings) -> list[tuple[str, Any, str]]:
    """Each key with its value and where it was set. Secrets are not shown."""
    rows = []
    for key, setting in SETTINGS.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(settings, section), name)
        given_as = key
        if section == "vllm" and settings.server not in ("", MAIN_SERVER):
            row = settings.servers[settings.server]
            if key != "vllm.model" or value == row.model:  # another model was named beside the server's row
                given_as = f"servers.{settings.server}.{name}"
        rows.append((key, setting.option.hide(value), settings.places.get(given_as, "default")))
    for key, place in settings.places.items():
        if key not in SETTINGS:
            table, name, option_key = split_key(key)
            entry = settings.models[name] if table == "models" else asdict(settings.servers[name])
            value = entry[option_key.partition(".")[2]]
            rows.append((key, SETTINGS[option_key].option.hide(value), place))
    return rows


def load(path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings from the files, the environment, and the command line.

    `path`: the file that was named; without it the one beside cli.py counts, where it exists. `overrides` come from the
    command line, by dotted key; None means not given. Raises ConfigError.
    """
    values = _gather_values(path, overrides, environ)
    single = {key: each for key, each in values.items() if not each.table}  # keys that are in no table
    folder = single.get("workspace.dir", GivenValue("workspace.dir", WorkspaceSettings().dir, "workspace.dir"))
    workspace = resolve_path(str(folder.value), folder.place, "folder")
    tool_files = _find_tools(single)
    for key in PROGRAM_KEYS:
        tool_files += _find_program_files(single, key, workspace)
    sections: dict[str, Any] = {
        name: section(**_get_values(_select_section(name, single))) for name, section in SECTIONS.items()
    }
    main: VllmSettings = sections["vllm"]
    servers = _make_servers(values, main)
    protected = map(str, filter(None, (path, *list_default_files(environ), get_user_guide(environ))))
    settings = Settings(
        **sections,
        models={name: _get_values(entry) for name, entry in _group(values, "models").items()},
        servers=servers,
        state=get_state_folder(environ),
        root=workspace,
        added=_find_added(single.get("workspace.add_dirs"), workspace),
        files=tuple(Path(os.path.realpath(each)) for each in (*protected, *tool_files)),
        places={key: each.place for key, each in values.items()},
    )
    if servers:
        settings = settings.with_server(next(iter(servers)))
    if servers and main.model:  # which may be named together with its server
        settings = settings.with_model(main.model)
    return settings


def read_debug_level(environ: Mapping[str, str]) -> int:
    """0, 1 or 2, from DEBUG. Other programs use that variable too, so any other value counts as 0."""
    return DEBUG_LEVELS.get(environ.get("DEBUG", "").strip(), 0)


def _gather_values(
    path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]
) -> dict[str, GivenValue]:
    """The values that count, by their full key: those that are given, and what they decide. Raises ConfigError."""
    values = {each.full_key: check_value(each) for each in _read_sources(path, overrides, environ)}
    for entry in (_select_section("vllm", values), *_group(values, "servers").values()):
        values |= {each.full_key: each for each in _derive_values(entry)}
    return values | {each.full_key: each for each in _share_with_servers(values)}


def _read_sources(
    path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]
) -> Sequence[GivenValue]:
    """All values that are given, the weakest first."""
    files, given_values = [get_user_file(environ)], list[GivenValue]()
    if path is None:
        files.append(get_checkout_file())
    for file in files:
        if file and os.path.lexists(file):  # also one that cannot be read: that is an error
            given_values += read_settings_file(file)
    if path:
        given_values += read_settings_file(path)
    for name, key in ENVIRONMENT.items():
        if value := environ.get(name, "").strip():
            given_values.append(GivenValue(key, value, f"environment variable {name}"))
    for key, override in overrides.items():
        if override is not None:
            given_values.append(GivenValue(key, override, f"command line: {key}"))
    return given_values


def _share_with_servers(given: Mapping[str, GivenValue]) -> Iterator[GivenValue]:
    """What the command line says of how a model is asked, for each of `servers` too: it beats their entries.

    Raises ConfigError for an entry without an address.
    """
    shared = [
        each for each in given.values() if each.file is None and not each.table and SETTINGS[each.key].option.per_model
    ]
    for name, entry in _group(given, "servers").items():
        if "base_url" not in entry:
            place = next(iter(entry.values())).place.rpartition(".")[0]
            raise ConfigError(f"{place}: it has no base_url")
        for each in shared:
            yield replace(each, table="servers", name=name)


def _make_servers(given: Mapping[str, GivenValue], main: VllmSettings) -> dict[str, VllmSettings]:
    """All servers by name, where they have names: that of `vllm` first, if it has an address."""
    servers = {name: VllmSettings(**_get_values(entry)) for name, entry in _group(given, "servers").items()}
    if servers and "vllm.base_url" in given:
        return {MAIN_SERVER: main, **servers}
    return servers


def _group(given: Mapping[str, GivenValue], table: str) -> dict[str, dict[str, GivenValue]]:
    """The values of each entry of a table, by the entry's name and the key."""
    entries: dict[str, dict[str, GivenValue]] = {}
    for each in given.values():
        if each.table == table:
            entries.setdefault(each.name, {})[each.key.partition(".")[2]] = each
    return entries


def _select_section(section: str, known: Mapping[str, GivenValue]) -> dict[str, GivenValue]:
    return {key.partition(".")[2]: given for key, given in known.items() if key.startswith(f"{section}.")}


def _get_values(entry: Mapping[str, GivenValue]) -> dict[str, Any]:
    return {name: given.value for name, given in entry.items()}


def _derive_values(entry: Mapping[str, GivenValue]) -> Iterator[GivenValue]:
    """What a server's other values decide: the address is its provider's own, the model is one of a list.

    Raises ConfigError.
    """
    vllm = VllmSettings(**_get_values(entry))
    if "base_url" not in entry and "provider" in entry:
        provider = entry["provider"]
        if not BASE_URLS[vllm.provider]:
            key = f"{provider.full_key.rpartition('.')[0]}.base_url"
            what = f"{provider.place}: {vllm.provider} has no address of its own"
            raise ConfigError(f"{what}; set {key} to {VERTEX_URL}")
        yield replace(provider, key="vllm.base_url", value=BASE_URLS[vllm.provider])
    if vllm.model or not vllm.available_models:
        return
    if vllm.default_model_index >= len(vllm.available_models):
        last = len(vllm.available_models) - 1
        place = entry["default_model_index"].place
        raise ConfigError(f"{place}: {vllm.default_model_index}, and the last of available_models is {last}")
    model = vllm.available_models[vllm.default_model_index]
    yield replace(entry["available_models"], key="vllm.model", value=model)


def _find_added(given: GivenValue | None, workspace: Path) -> tuple[Path, ...]:
    """The folders that are added to the workspace.

    Those of a file are for any workspace: one that is this workspace, in it or around it is left out.
    """
    if given is None:
        return ()
    named = cast("tuple[str, ...]", given.value)
    folders = dict.fromkeys(resolve_path(name, given.place, "folder") for name in named)
    if given.file is None:
        return tuple(folders)
    return tuple(each for each in folders if not (each.is_relative_to(workspace) or workspace.is_relative_to(each)))


def _find_tools(known: dict[str, GivenValue]) -> list[str]:
    """The files that define tools, made absolute: in a settings file they are relative to its folder.

    Tools may not write them, because their content is executed.
    """
    tool_files: list[str] = []
    for key in ("tools.modules", "tools.commands"):
        if given := known.get(key):
            folder = given.file.parent if given.file else Path()
            names = cast("tuple[str, ...]", given.value)
            files = [str(resolve_path(name, given.place, "file", folder)) for name in names]
            known[key] = replace(given, value=tuple(files))
            tool_files += files
    return tool_files


def _find_program_files(known: dict[str, GivenValue], key: str, workspace: Path) -> list[str]:
    """The files that the commands of these rows name, such as their scripts. Tools may not write them.

    A program without a `cwd` starts in the workspace. A word that names a file beside the settings file means that one.
    A script that is missing where the program starts counts as well: who creates it decides what runs.
    """
    given, files = known.get(key), list[str]()
    if given is None:
        return files
    rows = [dict(row) for row in cast("tuple[Mapping[str, Any], ...]", given.value)]
    for row in rows:
        start = beside = workspace / os.path.expanduser(str(row.get("cwd", ".")))  # noqa: PTH111 - raises nothing
        if given.file and "cwd" not in row:
            beside = given.file.parent.absolute()
        for part in ("command", "args"):
            named = list[str]()
            match row.get(part):
                case [*words]:
                    row[part], named = _resolve_words(words, start, beside, has_program=part == "command")
                case str(word):
                    (row[part],), named = _resolve_words([word], start, beside, has_program=part == "command")
            files += named
    known[key] = replace(given, value=tuple(rows))
    return files


def _resolve_words(words: list[Any], start: Path, beside: Path, *, has_program: bool) -> tuple[list[Any], list[str]]:
    """The words, of which one that names a file beside the settings file means that one; and all files they name."""
    resolved, files = [*words], list[str]()
    first = int(has_program and "/" not in str(words[:1]))  # it is searched in PATH
    for place, word in enumerate(words[first:], first):
        if isinstance(word, str):
            files += _list_named_files(word, start, beside)
            if beside != start and os.path.isfile(beside / word):  # noqa: PTH113 - raises nothing
                resolved[place] = str(beside / word)
    return resolved, files


def _list_named_files(word: str, start: Path, beside: Path) -> list[str]:
    """The files that a word names, as a whole or behind its `=`: those that exist, or else the missing script."""
    files = list[str]()
    for name in filter(None, (word, word.partition("=")[2])):  # --config=server.json
        existing = [str(folder / name) for folder in (beside, start) if os.path.isfile(folder / name)]  # noqa: PTH113
        if not existing and SCRIPT_NAME.fullmatch(name) and not os.path.lexists(start / name):
            files.append(str(start / name))
        files += existing
    return files
