"""What an agent may be given: its options with their defaults, and the checks of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict, TypeVar, Union

from ...config import GivenValue, check_value
from ...config.checks import resolve_path
from ...config.settings import WEEK_S
from ...errors import ConfigError
from ...security.shell.workspace import check_added
from ...tools import DependencyKey, Tool
from ...tools.sdk.validation import find_near
from ...types.messages import JSON, Message, ToolChoice
from .approval import AsyncApprove
from .wording import rewording

Tools: TypeAlias = Iterable[Union[Tool, Callable[..., object]]]
Stored: TypeAlias = Union[Sequence[Message], Mapping[str, Any], None]
Overrides: TypeAlias = Mapping[Any, Callable[..., Any]]  # a factory, its DependencyKey or the key's id -> another
FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


class Sampling(TypedDict, total=False):
    """How a model answers. What is not given, or None, is left to the server."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    reasoning_effort: str | None  # low, medium or high, and what else the model knows
    chat_template_kwargs: Mapping[str, JSON] | None  # what the chat template is given
    max_tokens: int | None  # of one answer
    extra_body: Mapping[str, JSON] | None  # more fields of the request, as this server names them


class AgentOptions(Sampling, total=False):
    """What an agent may be given by name, beside its tools and who approves. What is not given is as in DEFAULTS."""

    system: str
    tool_choice: ToolChoice
    conversation: Stored
    overrides: Overrides
    max_tool_turns: int
    compact: bool
    workspace: str | Path
    add_dirs: Sequence[str | Path]
    timeout: float | None
    finish_announced: bool


DEFAULTS: AgentOptions = {
    "system": "You are a helpful assistant. Use the tools to look and to act, rather than guessing.",
    "tool_choice": "auto",
    "conversation": None,
    "overrides": MappingProxyType({}),
    "max_tool_turns": 10,
    "compact": True,
    "workspace": ".",
    "add_dirs": (),
    "timeout": None,
    "finish_announced": False,
}


class Options(AgentOptions, total=False):
    """All that an agent is made of."""

    tools: Tools
    model: str
    approve: AsyncApprove | None


def name_options(function: FunctionT) -> FunctionT:
    """Have `help`, and completion in a notebook, name what `**options` are, as type checkers and editors do."""
    described = signature(function)
    *named, _ = described.parameters.values()
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=kind.__forward_arg__)
        for name, kind in AgentOptions.__annotations__.items()
    ]
    vars(function)["__signature__"] = described.replace(parameters=[*named, *options])
    return function


def check_options(given: Options) -> Options:
    """The same, with the defaults and with whole paths. Raises TypeError for an unknown name, ConfigError for a wrong
    value."""
    check_names("An agent", given, Options.__annotations__)
    options: Options = {**DEFAULTS, **given}
    _check_values(options)
    for key in options["overrides"]:
        if not (isinstance(key, (DependencyKey, str)) or callable(key)):
            raise ConfigError(f"overrides: expected a dependency's function or DependencyKey, got {key!r}.")
    workspace = resolve_path(str(options["workspace"]), "workspace", "folder")
    added = tuple(resolve_path(str(each), "add_dirs", "folder") for each in options["add_dirs"])
    home = os.path.expanduser("~")  # noqa: PTH111 - raises nothing, as Path's does
    check_added(added, workspace, (), {**os.environ, "HOME": home})
    timeout = options["timeout"]
    if timeout is not None:
        if not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ConfigError(f"timeout: expected seconds, more than 0, or None, got {timeout!r}.")
        timeout = min(timeout, WEEK_S)  # as long as the system's clocks can hold
    return {**options, "workspace": workspace, "add_dirs": added, "timeout": timeout}


def check_model(model: str, sampling: Sampling) -> None:
    """Raises TypeError for an unknown name, ConfigError for a wrong value."""
    check_names("A model", sampling, Sampling.__annotations__)
    _check_values({"model": model, **sampling})


def check_names(owner: str, given: Iterable[str], names: Collection[str]) -> None:
    """Raises TypeError for an option that there is not: which was meant, or which there are."""
    for name in given:
        if name not in names:
            near = find_near(name, dict.fromkeys(names))
            hint = f"there are {', '.join(names)}."
            if near:
                hint = f"did you mean {near[0]}?"
            raise TypeError(f"{owner} has no option {name!r}: {hint}")


_SETTINGS = {name: f"vllm.{name}" for name in Sampling.__annotations__} | {"max_tool_turns": "agent.max_tool_turns"}
_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "model": (str, "a name"),
    "system": (str, "a text"),
    "overrides": (Mapping, "a mapping of a dependency's function to another"),
    "compact": (bool, "True or False"),
    "workspace": ((str, Path), "the path of a folder"),
    "add_dirs": ((list, tuple), "a list of folders"),
}


def _check_values(options: Mapping[str, Any]) -> None:
    """Raises ConfigError."""
    for name, value in options.items():
        if name in _KINDS:
            kinds, wanted = _KINDS[name]
            if not isinstance(value, kinds):
                raise ConfigError(f"{name}: expected {wanted}, got {value!r}.")
        elif name in _SETTINGS and value is not None:
            with rewording():
                _check_setting(_SETTINGS[name], value)


def _check_setting(key: str, value: Any) -> None:
    """Check a value as that of the key of a settings file, which has lists and objects only. Raises ConfigError."""
    if isinstance(value, Mapping):
        value = dict(value)
    elif isinstance(value, tuple):
        value = list(value)
    elif key == "vllm.stop" and isinstance(value, str):
        value = [value]
    check_value(GivenValue(key, value, key.partition(".")[2]))
