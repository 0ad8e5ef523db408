"""The neutral format: the values that pass between the rooms, the same for every provider. No I/O.

A call keeps its arguments as an object, a result keeps its value as it is; only the adapter at the
edge (`protocol.render`, `wire`) turns either into a provider's text. Stored and compared values are
frozen dataclasses; what is made per chunk is a NamedTuple, which costs half as much to make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Union

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
