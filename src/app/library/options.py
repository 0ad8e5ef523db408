"""What an agent may be given: its options with their defaults, and the checks of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypedDict, Union

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
NO_OVERRIDES: Overrides = MappingProxyType({})
SYSTEM = "You are a helpful assistant. Use the tools to look and to act, rather than guessing."


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


class Options(NamedTuple):
    """What an agent is made of, as it was given."""

    tools: Tools
    model: str
    system: str = SYSTEM
    approve: AsyncApprove | None = None
    tool_choice: ToolChoice = "auto"
    conversation: Stored = None
    overrides: Overrides = NO_OVERRIDES
    max_tool_turns: int = 10
    compact: bool = True
    workspace: str | Path = "."
    add_dirs: Sequence[str | Path] = ()
    timeout: float | None = None
    finish_announced: bool = False
    sampling: Mapping[str, Any] = MappingProxyType({})

    def check(self) -> Options:
        """The same, with whole paths and names. Raises TypeError for an unknown name, ConfigError for a wrong value."""
        if unknown := [each for each in self.sampling if each not in Sampling.__annotations__]:
            names = {**self._asdict(), **Sampling.__annotations__}
            raise TypeError(describe_unknown("An agent", unknown[0], names))
        for name, (kinds, wanted) in _KINDS.items():
            if not isinstance(value := getattr(self, name), kinds):
                raise ConfigError(f"{name}: expected {wanted}, got {value!r}.")
        given = {f"vllm.{name}": value for name, value in self.sampling.items() if value is not None}
        with rewording():
            for key, value in {"agent.max_tool_turns": self.max_tool_turns, **given}.items():
                _check_setting(key, value)
        _check_overrides(self.overrides)
        sampling = {**dict.fromkeys(Sampling.__annotations__), **self.sampling}
        workspace = resolve_path(str(self.workspace), "workspace", "folder")
        added = tuple(resolve_path(str(each), "add_dirs", "folder") for each in self.add_dirs)
        home = os.path.expanduser("~")  # noqa: PTH111 - raises nothing, as Path's does
        check_added(added, workspace, (), {**os.environ, "HOME": home})
        timeout = _check_timeout(self.timeout)
        return self._replace(workspace=workspace, add_dirs=added, sampling=sampling, timeout=timeout)


def describe_unknown(owner: str, name: str, names: Collection[str]) -> str:
    """That there is no such option, and which was meant, or which there are."""
    near = find_near(name, dict.fromkeys(names))
    hint = f"there are {', '.join(names)}."
    if near:
        hint = f"did you mean {near[0]}?"
    return f"{owner} has no option {name!r}: {hint}"


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "model": (str, "a name"),
    "system": (str, "a text"),
    "overrides": (Mapping, "a mapping of a dependency's function to another"),
    "compact": (bool, "True or False"),
    "workspace": ((str, Path), "the path of a folder"),
    "add_dirs": ((list, tuple), "a list of folders"),
}


def _check_overrides(overrides: Overrides) -> None:
    """Raises ConfigError."""
    for key in overrides:
        if not (isinstance(key, (DependencyKey, str)) or callable(key)):
            raise ConfigError(f"overrides: expected a dependency's function or DependencyKey, got {key!r}.")


def _check_timeout(seconds: float | None) -> float | None:
    """At most as long as the system's clocks can hold. Raises ConfigError."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ConfigError(f"timeout: expected seconds, more than 0, or None, got {seconds!r}.")
    return min(seconds, WEEK_S)


def _check_setting(key: str, value: Any) -> None:
    """Check a value as that of the key of a settings file, which has lists and objects only. Raises ConfigError."""
    if isinstance(value, Mapping):
        value = dict(value)
    elif isinstance(value, tuple):
        value = list(value)
    elif key == "vllm.stop" and isinstance(value, str):
        value = [value]
    check_value(GivenValue(key, value, key.partition(".")[2]))
