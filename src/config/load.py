"""Merging the settings of all sources.

The command line beats the environment, which beats the file that was named or that stands beside cli.py, which beats
the user's file, which beats the defaults. Keys are merged one by one, also those of each entry of `models` and
`servers`; a list replaces a list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
    given = {each.full_key: check_value(each) for each in _read_sources(path, overrides, environ)}
    single = {key: each for key, each in given.items() if not each.table}  # keys that are in no table
    folder = single.get("workspace.dir", GivenValue("workspace.dir", WorkspaceSettings().dir, "workspace.dir"))
    workspace = resolve_path(str(folder.value), folder.place, "folder")
    tool_files = _find_tools(single)
    for key in PROGRAM_KEYS:
        tool_files += _find_program_files(single, key, workspace)
    main, servers = _make_servers(single, _group(given, "servers"))
    sections: dict[str, Any] = {
        name: section(**_get_values(_select_section(name, single))) for name, section in SECTIONS.items()
    }
    protected = map(str, filter(None, (path, *list_default_files(environ), get_user_guide(environ))))
    settings = Settings(
        **{**sections, "vllm": main},
        models={name: _get_values(entry) for name, entry in _group(given, "models").items()},
        servers=servers,
        state=get_state_folder(environ),
        root=workspace,
        added=_find_added(single.get("workspace.add_dirs"), workspace),
        files=tuple(Path(os.path.realpath(each)) for each in (*protected, *tool_files)),
        places=_list_places(given),
    )
    if servers:
        settings = settings.with_server(next(iter(servers)))
    if servers and main.model:  # which may be named together with its server
        settings = settings.with_model(main.model)
    return settings


def read_debug_level(environ: Mapping[str, str]) -> int:
    """0, 1 or 2, from DEBUG. Other programs use that variable too, so any other value counts as 0."""
    return DEBUG_LEVELS.get(environ.get("DEBUG", "").strip(), 0)


def _read_sources(
    path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]
) -> Sequence[GivenValue]:
    """All values that are given, the weakest first."""
    files, given = [get_user_file(environ)], list[GivenValue]()
    if path is None:
        files.append(get_checkout_file())
    for file in files:
        if file and os.path.lexists(file):  # also one that cannot be read: that is an error
            given += read_settings_file(file)
    if path:
        given += read_settings_file(path)
    for name, key in ENVIRONMENT.items():
        if value := environ.get(name, "").strip():
            given.append(GivenValue(key, value, f"environment variable {name}"))
    for key, override in overrides.items():
        if override is not None:
            given.append(GivenValue(key, override, f"command line: {key}"))
    return given


def _make_servers(
    single: Mapping[str, GivenValue], entries: Mapping[str, Mapping[str, GivenValue]]
) -> tuple[VllmSettings, dict[str, VllmSettings]]:
    """The server of `vllm`, and all by name where there are several: that one first, if it has an address.

    Raises ConfigError.
    """
    for entry in entries.values():
        if not entry.keys() & {"base_url", "provider"}:
            place = next(iter(entry.values())).place.rpartition(".")[0]
            raise ConfigError(f"{place}: it has no base_url")
    main = _make_server(_select_section("vllm", single))
    servers = {}
    if entries and ("vllm.base_url" in single or "vllm.provider" in single):
        servers[MAIN_SERVER] = main
    return main, servers | {name: _make_server(entry) for name, entry in entries.items()}


def _list_places(given: Mapping[str, GivenValue]) -> dict[str, str]:
    """Where each key was set, and the two that others decide."""
    places = {key: each.place for key, each in given.items()}
    if "vllm.available_models" in places:
        places["vllm.model"] = places["vllm.available_models"]
    if "vllm.provider" in places:
        places.setdefault("vllm.base_url", places["vllm.provider"])
    return places


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


def _make_server(entry: Mapping[str, GivenValue]) -> VllmSettings:
    """The settings of one server. Without an address it is the provider's own; without a model one is chosen."""
    vllm = VllmSettings(**_get_values(entry))
    if "base_url" not in entry and "provider" in entry:
        if not BASE_URLS[vllm.provider]:
            key = f"{entry['provider'].full_key.rpartition('.')[0]}.base_url"
            raise ConfigError(
                f"{entry['provider'].place}: {vllm.provider} has no address of its own; set {key} to {VERTEX_URL}"
            )
        vllm = replace(vllm, base_url=BASE_URLS[vllm.provider])
    if not vllm.available_models:
        return vllm
    if vllm.default_model_index >= len(vllm.available_models):
        last = len(vllm.available_models) - 1
        place = entry["default_model_index"].place
        raise ConfigError(f"{place}: {vllm.default_model_index}, and the last of available_models is {last}")
    return replace(vllm, model=vllm.model or vllm.available_models[vllm.default_model_index])


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
        for part in {"command", "args"} & row.keys():
            row[part], named = _resolve_words(row[part], start, beside, has_program=part == "command")
            files += named
    known[key] = replace(given, value=tuple(rows))
    return files


def _resolve_words(words: Any, start: Path, beside: Path, *, has_program: bool) -> tuple[Any, list[str]]:
    """The words, of which one that names a file beside the settings file means that one; and all files they name."""
    if not isinstance(words, list):
        resolved, files = _resolve_words([words], start, beside, has_program=has_program)
        return resolved[0], files
    resolved, files = [*words], list[str]()
    first = int(has_program and "/" not in str(words[:1]))  # it is searched in PATH
    for place, word in enumerate(words[first:], first):
        if isinstance(word, str):
            files += _list_named_files(word, start, beside)
            if beside != start and os.path.isfile(beside / word):  # noqa: PTH113 - raises nothing
                resolved[place] = str(beside / word)
    return resolved, files


def _list_named_files(word: str, start: Path, beside: Path) -> list[str]:
    names = list(filter(None, (word, word.partition("=")[2])))  # --config=server.json
    files = list(filter(os.path.isfile, (str(folder / name) for name in names for folder in (beside, start))))
    scripts = [str(start / name) for name in names if SCRIPT_NAME.fullmatch(name)]
    return files or [script for script in scripts if not os.path.lexists(script)]
