"""The check of a value for a key: its type, its limits, and what the type alone does not say.

A source of settings is a series of given values, each with its place, so that one check serves all of them. An error is
one line with the place and, for an unknown key, the nearest one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from posixpath import normpath
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ..errors import Advice, ConfigError
from ..types.lazy_pattern import LazyPattern
from .settings import BASE_URLS, CALL_PATHS, GUARDS, MAIN_SERVER, SECTIONS, Option, Section

MAX_NUMBER = 1e300  # excludes NaN and infinity; smaller integers fit into a float
TABLES = ("models", "servers")  # sections of objects by name, whose keys are those of `vllm`


class GivenValue(Struct, frozen=True):
    """A value for a key, and the place where it was given, for errors.

    `table` and `name`: of the entry that holds it, such as `models` and a pattern; the key is then one of `vllm`.
    `file`: the settings file that it stands in.
    """

    key: str
    value: Any
    place: str
    table: str = ""
    name: str = ""
    file: Path | None = None

    @property
    def full_key(self) -> str:
        if not self.table:
            return self.key
        return f"{self.table}.{self.name}.{self.key.partition('.')[2]}"


class Kind(Struct, frozen=True):
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


def _is_object(value: object, kind: type = object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(each, kind) for key, each in value.items()
    )


def _is_json(value: object) -> bool:
    """Not so: sets, bytes, NaN and values that contain themselves, as a YAML file or a program may give them."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


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
    Mapping[str, Any]: Kind("an object", _is_object, dict),
    Mapping[str, str]: Kind("an object of strings", lambda value: _is_object(value, str), dict),
    bool | str: Kind("true, false or a string", lambda value: isinstance(value, (bool, str))),
    tuple[str, ...]: Kind("a list of strings", partial(_is_list_of, str), tuple),
    tuple[Mapping[str, Any], ...]: Kind("a list of objects", partial(_is_list_of, dict), tuple),
}


class Setting(Struct, frozen=True):
    """A key that a user may set: its type, its default value, and what is said of it."""

    type: Any
    default: Any
    option: Option


def _list_settings(section: type[Section]) -> Iterator[tuple[str, Setting]]:
    defaults = section()
    for name, hint in section.__annotations__.items():
        yield name, Setting(hint.__origin__, getattr(defaults, name), hint.__metadata__[0])


SETTINGS: Mapping[str, Setting] = {
    f"{name}.{field}": setting for name, section in SECTIONS.items() for field, setting in _list_settings(section)
}


def check_value(given: GivenValue) -> GivenValue:
    """The value, checked and converted. Raises ConfigError."""
    key, value, place = given.key, given.value, given.place
    setting = _find_setting(given)
    kind = KINDS[setting.type]
    if not kind.accepts(value):
        shown = ""
        if not setting.option.secret and not setting.option.secret_parts:
            shown = f", got {shorten(value)}"
        expected = f"{place}: expected {kind.name}"
        raise ConfigError(Advice(expected + shown, expected.removesuffix(" or null") + shown))
    if not _is_json(value):
        raise ConfigError(f"{place}: it holds what JSON cannot: a set, bytes, NaN, or itself")
    if value is not None:
        _check_bounds(value, place, setting.option)
    if refine := REFINERS.get(key):
        return replace(given, value=refine(value, place))
    return replace(given, value=kind.convert(value))


def _find_setting(given: GivenValue) -> Setting:
    """The setting of a value. Raises ConfigError where there is none, or none there."""
    key, place, table, name = given.key, given.place, given.table, given.name
    if table == "servers" and (name == MAIN_SERVER or not _SERVER_NAME.fullmatch(name)):
        raise ConfigError(f"{place}: a server's name has letters, digits, _ . and -, and is not {MAIN_SERVER}")
    setting = SETTINGS.get(key)
    if setting is None:
        raise ConfigError(f"{place}: there is no such key{suggest_key(key)}")
    if table == "models" and not setting.option.per_model:
        raise ConfigError(f"{place}: this is a setting of the server, not of a model; set {key}")
    return setting


def _check_bounds(value: Any, place: str, option: Option) -> None:
    if option.least is not None and value < option.least:
        raise ConfigError(f"{place}: expected at least {option.least:g}, got {value}")
    if option.most is not None and value > option.most:
        raise ConfigError(f"{place}: expected at most {option.most:g}, got {value}")
    if option.choices and value not in option.choices:
        raise ConfigError(f"{place}: expected one of {', '.join(option.choices)}, got {shorten(value)}")


def _refine_base_url(value: str, place: str) -> str:
    """An address without a scheme stays as it is: it is completed by asking the server, see app/address.py."""
    if "@" in value:  # not shown, because a password stands before it
        what = f"{place}: an address holds no user and no password;"
        raise ConfigError(Advice(f"{what} set VLLM_API_KEY instead", f"{what} pass `api_key` instead"))
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        is_address = url.scheme in ("http", "https") and url.hostname and url.port != 0 and not url.query + url.fragment
    except ValueError:
        is_address = False
    if not is_address or " " in value or not value.isprintable():
        example = f"gpu:8000 or {BASE_URLS['vllm']}"
        raise ConfigError(f"{place}: expected an address such as {example}, got {shorten(value)}")
    return value.rstrip("/")


def _refine_api_key(value: str, place: str) -> str:
    """The key without the line end it was pasted with. What an HTTP header cannot hold is refused, and not shown."""
    key = value.strip()
    if not _HEADER_WORD.fullmatch(key):
        what = "is one word of printable Latin-1 characters, and this is not"
        raise ConfigError(Advice(f"{place}: vllm.api_key {what}", f"{place}: `api_key` {what}"))
    return key


def _refine_headers(value: dict[str, str], place: str) -> dict[str, str]:
    """The values are not shown: they may be keys."""
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigError(f"{place}: {shorten(name)} cannot be the name of an HTTP header")
        if not _HEADER_WORD.fullmatch(text.replace(" ", "")):
            raise ConfigError(f"{place}: {name} holds characters that an HTTP header cannot hold")
    return {name: text.strip() for name, text in value.items()}


def _refine_extra_body(value: dict[str, Any], place: str) -> dict[str, Any]:
    if own := sorted(value.keys() & OWN_FIELDS):
        raise ConfigError(f"{place}: {own[0]} is filled in by the program and cannot be set")
    return value


def _refine_choices(known: Sequence[str], or_none: str, value: list[str], place: str) -> tuple[str, ...]:
    """`or_none`: what the error says where the list may be empty."""
    if not (value or or_none) or len(set(value)) < len(value) or not set(value) <= set(known):
        raise ConfigError(f"{place}: expected some of {', '.join(known)}, each once{or_none}, got {shorten(value)}")
    return tuple(value)


def _refine_hosts(value: list[str], place: str) -> tuple[str, ...]:
    return tuple(_read_name(each, place) for each in value)


def _read_name(text: str, place: str) -> str:
    """The name of a host, as requests are compared with it. An address of IPv6 needs no brackets."""
    from ..types.hosts import read_host  # start-up is measured

    name = read_host(text) or read_host(f"[{text}]")
    if name is None:
        raise ConfigError(f"{place}: expected names such as gateway.example, or addresses, got {shorten(text)}")
    return name


def _refine_paths(value: list[str], place: str) -> tuple[str, ...]:
    """Each without a slash at its end, as requests are compared with it."""
    for each in value:
        if not each.startswith("/") or not each.isprintable() or "?" in each:
            raise ConfigError(f"{place}: expected paths such as /sleep, got {shorten(each)}")
    return tuple(normpath("/" + each.lstrip("/")) for each in value)


REFINERS: Mapping[str, Callable[[Any, str], object]] = {
    "vllm.base_url": _refine_base_url,
    "vllm.api_key": _refine_api_key,
    "vllm.headers": _refine_headers,
    "vllm.paths": partial(_refine_choices, CALL_PATHS, ""),
    "serve.hosts": _refine_hosts,
    "serve.relay": _refine_paths,
    "serve.guards": partial(_refine_choices, GUARDS, ", or none"),
    "vllm.extra_body": _refine_extra_body,
    "vllm.ssl_verify": lambda value, place: (
        str(resolve_path(value, place, "file")) if isinstance(value, str) else value
    ),
}
# Fields of a request, of any API, that other settings or the conversation decide.
OWN_FIELDS = frozenset(
    ("contents", "messages", "model", "n", "stream", "stream_options", "system", "tool_choice", "tools")
)
_SERVER_NAME = LazyPattern(r"[\w.-]+")
_HEADER_NAME = LazyPattern("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_WORD = LazyPattern("[!-~\xa1-\xac\xae-\xff]*")


def resolve_path(name: str, place: str, kind: Literal["file", "folder"], beside: Path = Path()) -> Path:
    """The file or folder, with links resolved. An empty name may be a variable that was not set: it names none."""
    with suppress(OSError, ValueError, RuntimeError):  # the name is too long, has a NUL, or the home of an unknown user
        path = Path(os.path.realpath(beside / Path(name).expanduser()))
        if name and (path.is_file() if kind == "file" else path.is_dir()):
            return path
    raise ConfigError(f"{place}: there is no {kind} {shorten(name)}")


def split_key(key: str) -> tuple[str, str, str]:
    """Table, name and key of a setting: `("", "", "vllm.model")`, or `("servers", "big", "vllm.base_url")`."""
    table, _, rest = key.partition(".")
    name, dot, last = rest.rpartition(".")
    if table not in TABLES or not dot:
        return "", "", key
    return table, name, f"vllm.{last}"


def suggest_key(key: object) -> str:
    """The key or section that was probably meant, by its last name; if none is similar, what lists them."""
    import difflib  # start-up is measured

    section, _, name = str(key).rpartition(".")
    names = {each.partition(".")[2]: each for each in SETTINGS}
    if not section:
        names |= dict.fromkeys((*SECTIONS, *TABLES), "")
    beside = [each for each, full in names.items() if full.startswith(f"{section}.")]
    near = difflib.get_close_matches(name, beside, n=1) or difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    if not near:
        return "; `vllm-bot config` lists all"
    return f"; the nearest is {names[near[0]] or near[0]}"


def shorten(value: object) -> str:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML has keys of other types, and lists that contain themselves
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
