"""Settings: read, merged, checked. The only reader of the environment.

Command line over environment over file over defaults. Each source becomes a flat table of dotted keys
(`vllm.model`) with the place it came from, so that one check serves all, and an error is one line that
names the place, the key and, where a key is unknown, the nearest one there is. What a key may hold is
said once, at its field; docs/configuration.md is checked against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .errors import ConfigError


def option(
    default: object, about: str, *, least: float | None = None, choices: Iterable[str] = (), secret: bool = False
) -> Any:
    """A field that a user may set: what it is for, the least a number may be, and what a word may be."""
    return field(default=default, repr=not secret, metadata={"about": about, "least": least, "choices": choices})


BASE_URLS = {  # of each provider; Vertex AI's names the project and the region
    "vllm": "http://localhost:8000/v1",
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "vertex": "",
}


@dataclass(frozen=True, slots=True)
class Vllm:
    provider: str = option("vllm", f"Whose API the server speaks: {', '.join(BASE_URLS)}", choices=BASE_URLS)
    base_url: str = option(BASE_URLS["vllm"], "Address of the server, up to and with `/v1`; unset: the provider's own")
    model: str = option("", "Model to use; empty: the one `default_model_index` names, else the server is asked")
    api_key: str = option("", "Sent as the provider wants it; better kept in `VLLM_API_KEY`", secret=True)
    temperature: float | None = option(None, "Sampling temperature; null: the server's default", least=0)
    max_tokens: int | None = option(None, "Longest answer in tokens; null: as much as the context holds", least=1)
    available_models: tuple[str, ...] = option((), "Models to choose from")
    default_model_index: int = option(0, "Which of `available_models` is used, counted from 0", least=0)
    enable_function_calling: bool = option(True, "Send `tools` to the server; false: tools are asked for in text only")
    timeout: float = option(300.0, "Longest silence in the middle of an answer, in seconds", least=0.01)
    connect_timeout: float = option(5.0, "Longest wait for a connection, in seconds", least=0.01)
    first_token_timeout: float = option(600.0, "Longest wait for an answer's first token, in seconds", least=0.01)
    total_timeout: float = option(3600.0, "Longest time for one answer in all, in seconds", least=0.01)
    load_timeout: float = option(300.0, "Longest wait for a server that is loading its model, in seconds", least=0)
    retries: int = option(2, "Further attempts after a failure, while nothing of the answer has been shown", least=0)
    ssl_verify: bool | str = option(True, "Check TLS certificates: true, false, or the path of a CA file (PEM)")


@dataclass(frozen=True, slots=True)
class TextProtocol:
    constrained: str = option(
        "auto",
        "Let vLLM allow nothing but a valid call after `TOOL_CALL:`; auto: until it refuses",
        choices=("auto", "on", "off"),
    )


@dataclass(frozen=True, slots=True)
class Agent:
    max_tool_turns: int = option(10, "Turns with tools before the model is asked to sum up", least=1)


@dataclass(frozen=True, slots=True)
class Workspace:
    dir: str = option(".", "Folder the tools work in; relative to the current folder")
    max_file_size_mb: float = option(10.0, "Largest file that is read whole, written or edited, in MB", least=0.001)

    @property
    def root(self) -> Path:
        """The folder itself, where no link and no change of the current folder can move it."""
        return Path(self.dir).expanduser().resolve()


@dataclass(frozen=True, slots=True)
class Security:
    exec_enabled: bool = option(True, "Whether commands may be run at all")
    exec_timeout: float = option(120.0, "Longest run of a command, in seconds", least=0.1)
    exec_max_output: int = option(
        30_000, "Longest output of a command, in characters; the middle is cut out", least=100
    )
    allowed_commands: tuple[str, ...] = option((), "Commands that run without asking, by their first words")


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    role: str = option("You are a helpful assistant in a terminal.", "Who the model is")
    workspace_note: str = option(
        "Your files are in {workspace}. Paths are relative to it, and nothing outside it can be reached.",
        "What the model is told of the workspace; `{workspace}` is replaced by its path",
    )
    tools_note: str = option(
        "Use the tools to look and to act, rather than guessing or asking the user to do it.",
        "What the model is told of tools in general",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    vllm: Vllm = field(default_factory=Vllm)
    text_protocol: TextProtocol = field(default_factory=TextProtocol)
    agent: Agent = field(default_factory=Agent)
    workspace: Workspace = field(default_factory=Workspace)
    security: Security = field(default_factory=Security)
    system_prompt: SystemPrompt = field(default_factory=SystemPrompt)
    files: tuple[Path, ...] = ()  # where settings are looked for, there or not: no tool may write these


SECTIONS: Mapping[str, type] = {
    "vllm": Vllm,
    "text_protocol": TextProtocol,
    "agent": Agent,
    "workspace": Workspace,
    "security": Security,
    "system_prompt": SystemPrompt,
}
ENVIRONMENT = {"VLLM_BASE_URL": "vllm.base_url", "VLLM_MODEL": "vllm.model", "VLLM_API_KEY": "vllm.api_key"}
DEBUG_LEVELS = {"1": 1, "true": 1, "yes": 1, "on": 1, "2": 2}
_VERTEX_URL = "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google"
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


def _or_none(kind: Kind) -> Kind:
    return Kind(
        f"{kind.name} or null",
        lambda value: value is None or kind.holds(value),
        lambda value: None if value is None else kind.keep(value),
    )


def _bool_or_path(value: bool | str) -> bool | str:
    return str(Path(value).expanduser()) if isinstance(value, str) else value


INTEGER = Kind("an integer", _is_integer)
NUMBER = Kind("a number", _is_number, float)
KINDS = {
    "str": Kind("a string", lambda value: isinstance(value, str)),
    "bool": Kind("true or false", lambda value: isinstance(value, bool)),
    "int": INTEGER,
    "float": NUMBER,
    "int | None": _or_none(INTEGER),
    "float | None": _or_none(NUMBER),
    "bool | str": Kind("true, false or a string", lambda value: isinstance(value, (bool, str)), _bool_or_path),
    "tuple[str, ...]": Kind("a list of strings", _is_strings, tuple),
}
OPTIONS: Mapping[str, Field[Any]] = {
    f"{name}.{each.name}": each for name, section in SECTIONS.items() for each in fields(section)
}


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
    source = path or next((each for each in usual if each.is_file()), None)
    sources = chain(_from_file(source), _from_environment(environ), _from_command_line(overrides))
    known = {given.key: _checked(given) for given in sources}
    _choose_model(known)
    _check_ca_file(known)
    _choose_base_url(known)
    settings = Settings(
        **{name: section(**_values_of(name, known)) for name, section in SECTIONS.items()},
        files=tuple(each.resolve() for each in ((path,) if path else ()) + usual),
    )
    if not settings.workspace.root.is_dir():
        place = known["workspace.dir"].place if "workspace.dir" in known else "workspace.dir"
        raise ConfigError(f"{place}: there is no folder {settings.workspace.dir}")
    return settings


def debug_level(environ: Mapping[str, str]) -> int:
    """0, 1 or 2, from DEBUG. Many programs read it, so that a value which means nothing here is 0."""
    return DEBUG_LEVELS.get(environ.get("DEBUG", "").strip().lower(), 0)


def default_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where settings are looked for without --config: beside cli.py in a checkout, then in the user's folder.

    Never in the current folder: many projects have a config.json, and it is not ours.
    """
    here = Path(__file__).resolve().parent
    is_checkout = here.name == "src" and (here.parent / "cli.py").is_file()
    folders = [here.parent] if is_checkout else []
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        folders.append(base / "vllm-bot")
    elif "HOME" in environ:
        folders.append(Path(environ["HOME"], ".config", "vllm-bot"))
    return tuple(folder / "config.json" for folder in folders)


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where the program keeps what it learns: XDG_STATE_HOME, else ~/.local/state."""
    base = Path(environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME") or Path.home(), ".local", "state")
    return base / "vllm-bot"


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
            yield Given(f"{section}.{name}", value, f"{path}: {section}.{name}")


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
    least = option.metadata["least"]
    if least is not None and value is not None and value < least:
        raise ConfigError(f"{place}: expected at least {least:g}, got {value}")
    choices = option.metadata["choices"]
    if choices and value not in choices:
        raise ConfigError(f"{place}: expected one of {', '.join(choices)}, got {_shown(value)}")
    return Given(key, _base_url(str(value), place) if key == "vllm.base_url" else kind.keep(value), place)


def _base_url(value: str, place: str) -> str:
    from urllib.parse import urlsplit

    try:
        url = urlsplit(value)
        is_address = url.scheme in ("http", "https") and url.hostname and url.port != 0 and not url.query + url.fragment
    except ValueError:
        is_address = False
    if not is_address or " " in value or not value.isprintable():
        raise ConfigError(f"{place}: expected an address such as {Vllm().base_url}, got {_shown(value)}")
    return value.rstrip("/")


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


def _check_ca_file(known: Mapping[str, Given]) -> None:
    given = known.get("vllm.ssl_verify")
    if given and isinstance(given.value, str) and not Path(given.value).is_file():
        raise ConfigError(f"{given.place}: there is no file {_shown(given.value)}")


def _choose_base_url(known: dict[str, Given]) -> None:
    """Where no address is given, take the provider's own."""
    if "vllm.base_url" in known or "vllm.provider" not in known:
        return
    _, provider, place = known["vllm.provider"]
    if not BASE_URLS[str(provider)]:
        raise ConfigError(f"{place}: {provider} has no address of its own; set vllm.base_url to {_VERTEX_URL}")
    known["vllm.base_url"] = Given("vllm.base_url", BASE_URLS[str(provider)], place)


def _parsed(path: Path) -> object:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path}: settings are read from a .json, .yaml or .yml file")
    try:
        return reader(path, path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _json(path: Path, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from error


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


def _nearest(key: str) -> str:
    import difflib  # only for a mistake

    near = difflib.get_close_matches(str(key), [*SECTIONS, *OPTIONS], n=1, cutoff=0)
    return f"; the nearest is {near[0]}"


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
