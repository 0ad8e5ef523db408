"""The neutral format: what passes between the rooms, whoever the provider is. Values only, no I/O.

A call keeps its arguments as an object, a result keeps its value as it is; only the adapter at the
edge (`protocol.render`, `wire`) turns either into a provider's text. Stored and compared values are
frozen dataclasses; what is made per chunk is a NamedTuple, which costs half as much to make.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, Union

JSON: TypeAlias = Union[bool, int, float, str, list["JSON"], dict[str, "JSON"], None]

StopReason = Literal["end_turn", "tool_use", "max_tokens", "repetition", "other"]
ToolChoice: TypeAlias = str  # "auto", "none", "required", or a tool's name


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model is told of it: `name` matches [a-zA-Z0-9_-]{1,64}, `parameters` is a JSON Schema object.

    `strict` asks the server to hold a call to it. `strict_parameters` is the same for a server that then wants
    every property given: null stands for what is left out.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    strict: bool = False
    strict_parameters: Mapping[str, JSON] | None = field(default=None, repr=False, compare=False)


def openai_tool(tool: ToolDefinition) -> dict[str, JSON]:
    """The definition as an entry of OpenAI's `tools`: what TOOL_DEFINITIONS shows is what the wire sends."""
    function: dict[str, JSON] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def signature(name: str, parameters: Mapping[str, Any]) -> str:
    """How a tool is called, for people and models: `read(path: string, offset?: integer)`. Takes any JSON Schema."""
    return f"{name}({_fields(parameters, 1)})"


def type_name(schema: object, depth: int = 1) -> str:
    """What values a JSON Schema stands for: `"a" | "b"`, `array of {content: string, done?: boolean}`.

    `depth`: of how many objects inside one another the fields are named.
    """
    match schema:
        case {"enum": [_, *_] as choices}:
            return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
        case {"anyOf": [_, *_] as arms}:
            return " | ".join(type_name(arm, depth) for arm in arms)
        case {"type": "array", "items": items}:
            return f"array of {type_name(items, depth)}"
        case {"type": "object", **rest} if depth and (fields := _fields(rest, depth - 1)):
            return f"{{{fields}}}"
        case {"type": kind}:
            return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return "any"


def _fields(schema: Mapping[Any, Any], depth: int) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if isinstance(required, list) else []
    fields = properties if isinstance(properties, Mapping) else {}
    return ", ".join(f"{key}{'' if key in needed else '?'}: {type_name(value, depth)}" for key, value in fields.items())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to run a tool, whatever shape it came in.

    `origin` is "native", "text", or the name of the format it was recovered from; `repaired` names what
    had to be mended in it; `echo` says that the model merely repeated it from what it was given.
    `metadata` is opaque and handed back to the provider on the next turn.
    """

    id: str
    name: str
    arguments: Mapping[str, JSON]
    origin: str = "native"
    repaired: tuple[str, ...] = ()
    echo: bool = False
    metadata: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """What was plainly meant as a call and is none: never run, answered to the model with `reason`.

    `raw` is the text as the model wrote it, `origin` as in ToolCall; `name` is empty where none was readable.
    """

    id: str
    name: str
    raw: str
    reason: str
    origin: str = "native"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: text is shown as it is, data is any JSON value, error is a sentence for the model.

    multimodal is a list of content blocks, shaped as MCP has them: {"type": "text", "text"}, and
    {"type": "image" or "audio", "data", "mimeType"} with the data in base64.

    `ref` names the whole output in the output cache ("": it is not there); no provider is sent it.
    """

    tool_call_id: str
    name: str
    kind: Literal["text", "data", "error", "multimodal"]
    value: JSON
    ref: str = ""

    @property
    def text(self) -> str:
        """For who reads text alone: data as JSON, and a note in place of what is no text."""
        if self.kind == "multimodal" and isinstance(self.value, list):
            return "\n".join(map(block_text, self.value))
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def block_text(block: JSON) -> str:
    """A content block for who reads text alone."""
    if not isinstance(block, dict):
        return str(block)
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return f"[{block.get('type', 'content')} of type {block.get('mimeType', 'unknown')}, not shown]"


@dataclass(frozen=True, slots=True)
class Text:
    """`metadata` is opaque and handed back to the provider on the next turn, as in ToolCall and Reasoning."""

    text: str
    metadata: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str
    metadata: Mapping[str, JSON] = field(default_factory=dict)


Block = Union[Text, Reasoning, ToolCall, MalformedCall]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the server counted them."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SystemMessage:
    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    text: str


@dataclass(frozen=True, slots=True)
class Response:
    """The model's turn: its blocks in the order they came, and why it stopped."""

    content: tuple[Block, ...]
    stop_reason: StopReason = "end_turn"
    usage: Usage | None = None
    model: str = ""

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def malformed(self) -> tuple[MalformedCall, ...]:
        return tuple(block for block in self.content if isinstance(block, MalformedCall))


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The answers to one turn's calls, in the order of the calls."""

    results: tuple[ToolResult, ...]


Message = Union[SystemMessage, UserMessage, Response, ToolResults]

T = TypeVar("T")


class PerMessage(Generic[T]):
    """A function of one message, computed once for each that stays in the conversation.

    What a turn costs then depends on what is new. A message is known by identity and kept beside its
    value, so that its id() cannot pass to another; what has left the conversation is forgotten.
    """

    def __init__(self, compute: Callable[[Message], T]) -> None:
        self._compute = compute
        self._messages: list[Message] = []
        self._values: list[T] = []

    def __call__(self, messages: Iterable[Message]) -> list[T]:
        given, known = list(messages), len(self._messages)
        if known > len(given) or not all(map(is_, self._messages, given)):  # something was left out or put in
            values = dict(zip(map(id, self._messages), self._values, strict=True))
            values |= {id(each): self._compute(each) for each in given if id(each) not in values}
            self._messages, self._values = given, [values[id(each)] for each in given]
        else:
            self._values = [*self._values, *map(self._compute, given[known:])]
            self._messages = given
        return self._values[:]


class TextDelta(NamedTuple):
    """Text to show."""

    text: str


class ReasoningDelta(NamedTuple):
    text: str


class ToolCallDelta(NamedTuple):
    """A piece of a call being written: `call_index` tells parallel calls apart; id and name come once."""

    call_index: int
    id: str | None
    name: str | None
    arguments_delta: str


class Completed(NamedTuple):
    response: Response


class TurnStarted(NamedTuple):
    """The model is asked for the `number`-th time since the user spoke, counted from 1."""

    number: int


class CallStarted(NamedTuple):
    call: ToolCall


class CallDenied(NamedTuple):
    """The call may not run, by the rules or by who was asked; CallFinished follows with what the model is told."""

    call: ToolCall
    reason: str


class CallFinished(NamedTuple):
    call: ToolCall | MalformedCall
    result: ToolResult


class LimitHit(NamedTuple):
    """The question took as many turns as it may: `limit` is the setting that says how many."""

    limit: str


class Notice(NamedTuple):
    """Something the user should know, in one or two lines."""

    text: str


class Compacted(NamedTuple):
    """A summary took the place of the conversation's older messages.

    Of the `before` messages there were, the last `kept` stay, and the system prompt; `by_hand`: the user asked for it.
    """

    summary: UserMessage
    before: int
    kept: int
    by_hand: bool = False


ModelEvent = Union[TextDelta, ReasoningDelta, ToolCallDelta, Notice, Completed]
Event = Union[ModelEvent, TurnStarted, CallStarted, CallDenied, CallFinished, LimitHit, Compacted]
