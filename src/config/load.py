"""Settings: read, merged, checked. The only reader of the environment.

Command line over environment over file over defaults. Each source becomes a flat table of dotted keys
(`vllm.model`) with the place it came from, so that one check serves all, and an error is one line that
names the place, the key and, where a key is unknown, the nearest one there is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, fields
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ..errors import ConfigError
from ..types.strict_json import loads_strict
from .locations import default_files, state_folder
from .settings import BASE_URLS, SECTIONS, Settings, Vllm, Workspace

ENVIRONMENT = {"VLLM_BASE_URL": "vllm.base_url", "VLLM_MODEL": "vllm.model", "VLLM_API_KEY": "vllm.api_key"}
DEBUG_LEVELS = {"1": 1, "2": 2}
_VERTEX_URL = "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google"
_JSON_IS = "JSON has no comments, no comma behind the last entry, and none but double quotes"
LARGEST = 1e300  # so that a number is neither NaN nor infinite, and any integer fits a float


class Kind(NamedTuple):
    """What a field's type means in a file: its name for people, whether a value is one, and how it is kept."""

    name: str
    holds: Callable[[object], bool]
    keep: Callable[[Any], object] = lambda value: value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_objects(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(isinstance(key, str) for key in each) for each in value
    )


def _or_none(kind: Kind) -> Kind:
    return Kind(
        f"{kind.name} or null",
        lambda value: value is None or kind.holds(value),
        lambda value: None if value is None else kind.keep(value),
    )


INTEGER = Kind("an integer", _is_integer)
NUMBER = Kind("a number", _is_number, float)
KINDS = {
    "str": Kind("a string", lambda value: isinstance(value, str)),
    "bool": Kind("true or false", lambda value: isinstance(value, bool)),
    "int": INTEGER,
    "float": NUMBER,
    "int | None": _or_none(INTEGER),
    "float | None": _or_none(NUMBER),
    "bool | str": Kind("true, false or a string", lambda value: isinstance(value, (bool, str))),
    "tuple[str, ...]": Kind("a list of strings", _is_strings, tuple),
    "tuple[Mapping[str, Any], ...]": Kind("a list of objects", _is_objects, tuple),
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


class Given(NamedTuple):
    """A value for a key, and where it was given, for the error that names the place."""

    key: str
    value: object
    place: str


def load(path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings, from `path` (or the first default file there is), the environment, and the command line.

    `overrides` are the command line's, by dotted key; None means not given. Raises ConfigError.
    """
    usual = default_files(environ)
    source = path or next(filter(os.path.lexists, usual), None)  # a folder too, or what cannot be read: it is said so
    sources = chain(_from_file(source), _from_environment(environ), _from_command_line(overrides))
    known = {given.key: _checked(given) for given in sources}
    _choose_model(known)
    _choose_base_url(known)
    sources_of_tools = _find_tools(known, source)
    return Settings(
        **{name: section(**_values_of(name, known)) for name, section in SECTIONS.items()},
        state=state_folder(environ),
        root=_workspace(known),
        files=tuple(Path(os.path.realpath(each)) for each in (*((path,) if path else ()), *usual, *sources_of_tools)),
        places={key: given.place for key, given in known.items()},
    )


def debug_level(environ: Mapping[str, str]) -> int:
    """0, 1 or 2, from DEBUG. Many programs read it, so that a value which means nothing here is 0."""
    return DEBUG_LEVELS.get(environ.get("DEBUG", "").strip(), 0)


def _from_file(path: Path | None) -> Iterator[Given]:
    if path is None:
        return
    sections = _parsed(path)
    if not isinstance(sections, dict):
        raise ConfigError(f"{path}: expected an object of sections, got {_shown(sections)}")
    for section, values in sections.items():
        if section not in SECTIONS:
            raise ConfigError(f"{path}: {section}: there is no such section{_nearest(section)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {section}: expected an object, got {_shown(values)}")
        for name, value in values.items():
            key = "on" if name is True else name  # YAML 1.1 reads the word as a truth value
            yield Given(f"{section}.{key}", value, f"{path}: {section}.{key}")


def _from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    for variable, key in ENVIRONMENT.items():
        if value := environ.get(variable, "").strip():
            yield Given(key, value, f"environment variable {variable}")


def _from_command_line(overrides: Mapping[str, object]) -> Iterator[Given]:
    for key, value in overrides.items():
        if value is not None:
            yield Given(key, value, f"command line: {key}")


def _checked(given: Given) -> Given:
    """With the value as it is kept; ConfigError says what is wrong with it."""
    key, value, place = given
    option = OPTIONS.get(key)
    if option is None:
        raise ConfigError(f"{place}: there is no such key{_nearest(key)}")
    kind = KINDS[str(option.type)]
    if not kind.holds(value):
        came = f", got {_shown(value)}" if option.repr else ""
        raise ConfigError(f"{place}: expected {kind.name}{came}")
    least, most = option.metadata["least"], option.metadata["most"]
    if least is not None and value is not None and value < least:
        raise ConfigError(f"{place}: expected at least {least:g}, got {value}")
    if most is not None and value is not None and value > most:
        raise ConfigError(f"{place}: expected at most {most:g}, got {value}")
    choices = option.metadata["choices"]
    if choices and value not in choices:
        raise ConfigError(f"{place}: expected one of {', '.join(choices)}, got {_shown(value)}")
    refine = REFINED.get(key)
    return Given(key, refine(value, place) if refine else kind.keep(value), place)


def _base_url(value: str, place: str) -> str:
    from urllib.parse import urlsplit

    if "@" in value:  # never shown: what stands before it is a password
        raise ConfigError(f"{place}: an address holds no user and no password; set VLLM_API_KEY instead")
    try:
        url = urlsplit(value)
        is_address = url.scheme in ("http", "https") and url.hostname and url.port != 0 and not url.query + url.fragment
    except ValueError:
        is_address = False
    if not is_address or " " in value or not value.isprintable():
        meant = f"; did you mean http://{value.rstrip('/')}?" if value and "://" not in value else ""
        raise ConfigError(f"{place}: expected an address such as {Vllm().base_url}, got {_shown(value)}{meant}")
    return value.rstrip("/")


def _api_key(value: str, place: str) -> str:
    """Whatever its source, less the line end it was pasted with; what no HTTP header holds is refused, unseen."""
    key = value.strip()
    if not HEADER_WORD.fullmatch(key):
        raise ConfigError(f"{place}: vllm.api_key is one word of printable Latin-1 characters, and this is not")
    return key


def _ca_file(value: bool | str, place: str) -> bool | str:
    return str(_existing(value, place, "file")) if isinstance(value, str) else value


REFINED: Mapping[str, Callable[[Any, str], object]] = {
    "vllm.base_url": _base_url,
    "vllm.api_key": _api_key,
    "vllm.ssl_verify": _ca_file,
}
HEADER_WORD = re.compile("[!-~\xa1-\xac\xae-\xff]*")


def _workspace(known: Mapping[str, Given]) -> Path:
    given = known.get("workspace.dir", Given("workspace.dir", Workspace().dir, "workspace.dir"))
    return _existing(str(given.value), given.place, "folder")


def _existing(name: str, place: str, kind: Literal["file", "folder"], beside: Path = Path()) -> Path:
    """The file or folder itself, links resolved; an empty name is a variable that was not set, and none is meant."""
    with suppress(OSError, ValueError, RuntimeError):  # a name too long, a NUL in it, the home of nobody
        path = Path(os.path.realpath(beside / Path(name).expanduser()))
        if name and (path.is_file() if kind == "file" else path.is_dir()):
            return path
    raise ConfigError(f"{place}: there is no {kind} {_shown(name)}")


def _values_of(section: str, known: Mapping[str, Given]) -> dict[str, Any]:
    return {key.partition(".")[2]: given.value for key, given in known.items() if key.startswith(f"{section}.")}


def _choose_model(known: dict[str, Given]) -> None:
    """Where no model is named, take the one that default_model_index names among those available."""
    vllm = Vllm(**_values_of("vllm", known))
    if not vllm.available_models:
        return
    if vllm.default_model_index >= len(vllm.available_models):
        last = len(vllm.available_models) - 1
        place = known["vllm.default_model_index"].place
        raise ConfigError(f"{place}: {vllm.default_model_index}, and the last of available_models is {last}")
    chosen = vllm.model or vllm.available_models[vllm.default_model_index]
    known["vllm.model"] = Given("vllm.model", chosen, known["vllm.available_models"].place)


def _choose_base_url(known: dict[str, Given]) -> None:
    """Where no address is given, take the provider's own."""
    if "vllm.base_url" in known or "vllm.provider" not in known:
        return
    _, provider, place = known["vllm.provider"]
    if not BASE_URLS[str(provider)]:
        raise ConfigError(f"{place}: {provider} has no address of its own; set vllm.base_url to {_VERTEX_URL}")
    known["vllm.base_url"] = Given("vllm.base_url", BASE_URLS[str(provider)], place)


def _find_tools(known: dict[str, Given], source: Path | None) -> list[str]:
    """The files that tools come from, made absolute: in a settings file they are relative to its folder.

    They are among the files that no tool may write, since what stands in them runs.
    """
    found: list[str] = []
    for key in ("tools.modules", "tools.commands"):
        if given := known.get(key):
            folder = source.parent if source and given.place.startswith(f"{source}:") else Path()
            names = cast("tuple[str, ...]", given.value)
            files = [str(_existing(name, given.place, "file", folder)) for name in names]
            known[key] = given._replace(value=tuple(files))
            found += files
    return found


def _parsed(path: Path) -> object:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path}: settings are read from a .json, .yaml or .yml file")
    try:
        return reader(path, path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: it is no UTF-8 text; save it in that encoding") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _json(path: Path, text: str) -> object:
    try:
        return loads_strict(text, error=lambda key: ValueError(f"{_shown(key)} stands twice in one object"))
    except json.JSONDecodeError as error:
        why = _JSON_IS if text.strip() else "the file is empty; {} is the least there can be"
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg} ({why})") from error


def _yaml(path: Path, text: str) -> object:
    import yaml  # only who writes YAML pays for it

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path}: {where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from error


READERS = {".json": _json, ".yaml": _yaml, ".yml": _yaml}


def _nearest(key: object) -> str:
    """The key or section that was probably meant, by its last name; nothing where none is near."""
    import difflib  # only for a mistake

    section, _, name = str(key).rpartition(".")
    names = {each.partition(".")[2]: each for each in OPTIONS} | ({} if section else dict.fromkeys(SECTIONS, ""))
    beside = [each for each, full in names.items() if full.startswith(f"{section}.")]
    near = difflib.get_close_matches(name, beside, n=1) or difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f"; the nearest is {names[near[0]] or near[0]}" if near else ""


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML knows keys that are no strings, and lists that hold themselves
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
