"""What an agent may be given: its options with their defaults, and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypedDict, Union

from ...errors import ConfigError
from ...tools import DependencyKey, Tool
from ...tools.sdk.validation import find_near
from ...types.messages import JSON, Message, ToolChoice
from .approval import AsyncApprove

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
    sampling: Mapping[str, Any] = MappingProxyType({})

    def check(self) -> Options:
        """The same, with whole paths and names. Raises TypeError for an unknown name, ConfigError for a wrong value."""
        for name in self.sampling:
            if name not in Sampling.__annotations__:
                names = {**self._asdict(), **Sampling.__annotations__}
                near = find_near(name, names)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
                raise TypeError(f"An agent has no option {name!r}: {hint}")
        for name, value in {**self._asdict(), **self.sampling}.items():
            _check_value(name, value)
        for key in self.overrides:
            if not (isinstance(key, (DependencyKey, str)) or callable(key)):
                raise ConfigError(f"overrides: expected a dependency's function or DependencyKey, got {key!r}.")
        sampling = {**dict.fromkeys(Sampling.__annotations__), **self.sampling}
        return self._replace(workspace=_check_folder(self.workspace), sampling=sampling)


_NUMBERS: Mapping[str, tuple[float | None, float | None]] = {  # the least and the greatest; None: no limit
    "temperature": (0, None),
    "top_p": (0, 1),
    "top_k": (-1, None),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repetition_penalty": (0, None),
    "seed": (None, None),
    "max_tokens": (1, None),
    "max_tool_turns": (1, None),
}
_WHOLE = ("top_k", "seed", "max_tokens", "max_tool_turns")
_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "model": (str, "a name"),
    "system": (str, "a text"),
    "overrides": (Mapping, "a mapping of a dependency's function to another"),
    "compact": (bool, "True or False"),
    "workspace": ((str, Path), "the path of a folder"),
    "reasoning_effort": (str, "a word, such as 'low'"),
    "chat_template_kwargs": (Mapping, "a mapping, such as {'enable_thinking': False}"),
    "extra_body": (Mapping, "a mapping, such as {'best_of': 2}"),
}


def _check_value(name: str, value: Any) -> None:
    """Raises ConfigError."""
    if name in _KINDS and (value is not None or name not in Sampling.__annotations__):
        kinds, wanted = _KINDS[name]
        if not isinstance(value, kinds):
            raise ConfigError(f"{name}: expected {wanted}, got {value!r}.")
    elif name == "stop" and value is not None:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) and text for text in texts):
            raise ConfigError(f"stop: expected a text or a list of texts, got {value!r}.")
    elif name in _NUMBERS and (value is not None or name not in Sampling.__annotations__):
        _check_number(name, value)


def _check_number(name: str, value: Any) -> None:
    least, most = _NUMBERS[name]
    wanted = "a whole number" if name in _WHOLE else "a number"
    if isinstance(value, bool) or not isinstance(value, int if name in _WHOLE else (int, float)):
        raise ConfigError(f"{name}: expected {wanted}, got {value!r}.")
    if not (float("-inf") if least is None else least) <= value <= (float("inf") if most is None else most):
        limits = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ConfigError(f"{name}: expected {limits}, got {value!r}.")


def _check_folder(workspace: str | Path) -> Path:
    folder = Path(workspace).resolve()
    if not folder.is_dir():
        raise ConfigError(f"workspace: there is no folder {folder}.")
    return folder
