"""The neutral format of conversations, the same for every provider. No I/O.

A call keeps its arguments as an object, and a result keeps its value unchanged: only parsing/prompt.py and providers
turn them into a provider's text. The values are frozen, because they are stored and compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar, Union, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .serialization import Serializable, read_as
from .value import Value

MAX_CALLS = 32  # of one answer that may run, malformed ones counted

JSON: TypeAlias = Union[bool, int, float, str, list["JSON"], dict[str, "JSON"], None]

StopReason = Literal["end_turn", "tool_use", "max_tokens", "repetition", "other"]
Origin: TypeAlias = str  # how a call came: NATIVE, TEXT, or the name of the format it was recovered from
NATIVE: Origin = "native"
TEXT: Origin = "text"  # a TOOL_CALL block
# As in MCP: {"type": "text", "text"}, or {"type": "image" or "audio", "data", "mimeType"} with the data in base64.
ContentBlock: TypeAlias = dict[str, JSON]
MEDIA = ("image", "audio")
CHECKS_LEAD = "The change was made. The project's checks now say:"  # of a note behind the result of an edit
MEDIA_CHARS = 4000  # that an image or a sound counts for where a conversation's size is estimated: 1,000 tokens


class ToolDefinition(Value, frozen=True):
    """A tool as it is described to a model. `name` matches [a-zA-Z0-9_-]{1,64}, `parameters` is a JSON Schema object.

    `strict` asks the server to constrain calls to the schema. `drops_nulls`: null stands for an argument that is not
    given, as it has to for servers that then require every property. `aliases` are names under which models also call
    it; they are not sent. `named_by`: the MCP server of a tool that a prompt only names, until its definition is asked
    for; "": prompts hold the definition. Calls of both are read.
    """

    UNCOMPARED = ("drops_nulls", "aliases")
    name: str
    description: str
    parameters: Mapping[str, JSON]
    strict: bool = False
    named_by: str = ""
    drops_nulls: bool = False
    aliases: tuple[str, ...] = ()


class Named(Struct, frozen=True):
    """The choice of one tool, which the model must call. A tool may be named `auto`, `none` or `required`."""

    name: str


# auto: the model may call tools; none: it must not; required: it must call one or more.
ToolChoice: TypeAlias = Union[Literal["auto", "none", "required"], Named]


class ToolCall(Serializable, frozen=True):
    """A model's request to run a tool, in whatever format it came.

    `repaired` names the repairs that its text needed; `echo` says that the model only repeated it from its input;
    `guessed` that its text could be read otherwise, so that a call of risk always asks.
    `metadata` is opaque and is sent back to the provider on the next turn. `written`: the arguments as the model wrote
    them, where `write_arguments` writes others; they go back like that. `real_path` is set for a call that may run:
    where the path among its arguments led when it was decided on, relative to the workspace. It is what a tool opens.
    """

    TYPE = "call"
    UNCOMPARED = ("written", "real_path")
    UNSTORED = ("real_path",)
    id: str
    name: str
    arguments: Mapping[str, JSON]
    origin: Origin = NATIVE
    repaired: tuple[str, ...] = ()
    echo: bool = False
    metadata: Mapping[str, JSON] = {}
    guessed: bool = False
    written: str = ""
    real_path: str | None = None


_ARGUMENTS = json.JSONEncoder(ensure_ascii=False)  # json.dumps makes one a call


def write_arguments(arguments: Mapping[str, JSON]) -> str:
    """Arguments as JSON in the way that most models write it: with blanks."""
    return _ARGUMENTS.encode(dict(arguments))


class MalformedCall(Serializable, frozen=True):
    """An attempt at a call that cannot be read. It never runs; its result tells the model the `reason`.

    `raw` is the text as the model wrote it; `name` is empty if no name could be read.
    """

    TYPE = "malformed"
    id: str
    name: str
    raw: str
    reason: str
    origin: Origin = NATIVE

    @property
    def arguments(self) -> Mapping[str, JSON]:
        """None could be read."""
        return {}


class Usage(Serializable, frozen=True):
    """Numbers of tokens, as the server counted them. `cached_tokens`: those of the input that it had already read.

    `thought_tokens`: those of the output that were thoughts, shown or not, where the server tells. They are not stored.
    """

    TYPE = "usage"
    UNCOMPARED = UNSTORED = ("thought_tokens",)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    thought_tokens: int = 0

    def __add__(self, other: Usage | None) -> Usage:
        if other is None:
            return self
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.thought_tokens + other.thought_tokens,
        )


class ToolResult(Serializable, frozen=True):
    """The result of a call. `value` is a string (kind text), any JSON value (data) or a sentence for the model (error).

    For kind multimodal it is a list of content blocks, see ContentBlock.

    `ref` names the whole output in the output cache ("": it is not there); it is not sent to providers.
    `is_denied`: the call did not fail; a rule or a person did not let it run. The kind is error.
    `usage`: the tokens of a subagent's own requests. `diff`: what the call changed in a file, for the user. Neither is
    sent to providers. `seconds`: that the call took; they are not stored.
    `ending`: how the command of the call ended, in words that also stand behind its output, in brackets; "" if it ran
    none to its end. `exit_code`: of that command; None if it did not end by itself.
    `reply`: what the user said as they denied the call. `own_chars`: how much of the text the call gave; what follows
    tells the model of commands in the background that have ended. None: all.
    """

    TYPE = "result"
    UNCOMPARED = ("diff", "seconds", "ending", "exit_code", "reply", "own_chars")
    UNSTORED = ("diff", "seconds")
    tool_call_id: str
    name: str
    kind: Literal["text", "data", "error", "multimodal"]
    value: JSON
    ref: str = ""
    is_denied: bool = False
    usage: Usage | None = None
    diff: str = ""
    seconds: float = 0.0
    ending: str = ""
    exit_code: int | None = None
    reply: str = ""
    own_chars: int | None = None

    @property
    def has_command_failed(self) -> bool:
        """Whether the call ran a command that failed, or that was ended at its time limit."""
        return bool(self.ending) and self.exit_code != 0

    @property
    def failure(self) -> Literal["", "error", "denied"]:
        """Why there is no output; empty if there is."""
        if self.kind != "error":
            return ""
        if self.is_denied:
            return "denied"
        return "error"

    @property
    def text(self) -> str:
        """The value as text: data as JSON, and a note for each image or sound."""
        if self.kind == "multimodal" and isinstance(self.value, list):
            return join_block_texts(self.value)
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)

    @property
    def own_text(self) -> str:
        """What the call itself gave."""
        return self.text[: self.own_chars]

    def with_text(self, text: str) -> ToolResult:
        """The result with this text in place of its value; an error stays one."""
        return replace(self, kind="error" if self.kind == "error" else "text", value=text)


def join_block_texts(blocks: Iterable[JSON]) -> str:
    """Content blocks as text, with a note for each image or sound."""
    return "\n".join(map(block_text, blocks))


def block_text(block: JSON) -> str:
    """A content block as text."""
    if not isinstance(block, dict):
        return str(block)
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return f"[{block.get('type', 'content')} of type {block.get('mimeType', 'unknown')}, not shown]"


def detach_media(results: Sequence[ToolResult]) -> tuple[list[ToolResult], tuple[ContentBlock, ...]]:
    """The results as text, and their images and sound as blocks that may follow them, each after a line that names it.

    For APIs and chat templates that take only text as the result of a call.
    """
    texts: list[ToolResult] = []
    media: list[ContentBlock] = []
    for result in results:
        if result.kind != "multimodal":
            texts.append(result)
            continue
        lines, blocks = [], result.value
        if not isinstance(blocks, list):
            blocks = [blocks]
        for block in blocks:
            if not isinstance(block, dict) or block.get("type") not in MEDIA:
                lines.append(block_text(block))
                continue
            label = f"{block['type']} {len(media) // 2 + 1}"
            lines.append(f"[{label}: it follows below]")
            media += {"type": "text", "text": f"{label.capitalize()}, from {result.name}:"}, block
        texts.append(replace(result, kind="text", value="\n".join(lines)))
    return texts, tuple(media)


class Text(Serializable, frozen=True):
    """`metadata` is opaque and is sent back to the provider on the next turn, as in ToolCall and Reasoning."""

    TYPE = "text"
    text: str
    metadata: Mapping[str, JSON] = {}


class Reasoning(Serializable, frozen=True):
    """A thought. `metadata`: as in Text."""

    TYPE = "reasoning"
    text: str
    metadata: Mapping[str, JSON] = {}


def is_open_thought(block: object) -> bool:
    """Whether it is a thought as plain text: one with metadata is signed, and goes back to its provider as it came."""
    return isinstance(block, Reasoning) and bool(block.text) and not block.metadata


RequestedCall: TypeAlias = Union[ToolCall, MalformedCall]
CallT = TypeVar("CallT", bound=RequestedCall)
CALL_TOOL = "call_tool"  # the tool that calls one which a prompt only names; see tools/sdk/tool_search.py


def unwrap_call(call: CallT) -> CallT:
    """The call that a call of CALL_TOOL stands for; any other call as it is."""
    if not isinstance(call, ToolCall) or call.name != CALL_TOOL:
        return call
    name, arguments = call.arguments.get("tool"), call.arguments.get("args", {})
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return call
    return replace(call, name=name, arguments=arguments)


Block = Union[Text, Reasoning, ToolCall, MalformedCall]


ENVIRONMENT_PREFIX = "Environment: "  # begins the paragraph of a system prompt that tells date, system and branch


class SystemMessage(Serializable, frozen=True):
    """What the conversation begins with: instructions for the model."""

    TYPE = "system"
    text: str


class UserMessage(Serializable, frozen=True):
    """What the user says: `text` alone, or `blocks` of text, images and sound in their order.

    Where there are blocks, `text` follows from them, with a note for each image or sound. `typed` is what the user
    typed, where the message holds more, such as the content of files; it is not sent by itself.
    """

    TYPE = "user"
    text: str
    blocks: tuple[ContentBlock, ...] = ()
    typed: str = ""

    def __post_init__(self) -> None:
        if self.blocks:
            force_setattr(self, "text", join_block_texts(self.blocks))

    @property
    def title(self) -> str:
        """What the user typed, for people."""
        return self.typed or self.text

    def merge(self, other: UserMessage) -> UserMessage:
        """Both messages as one."""
        if not (self.blocks or other.blocks):
            return UserMessage(f"{self.text}\n\n{other.text}")
        blocks: list[ContentBlock] = []
        for each in (self, other):
            blocks += each.blocks or [{"type": "text", "text": each.text}]
        return UserMessage("", tuple(block for block in blocks if block != {"type": "text", "text": ""}))


class Response(Serializable, frozen=True):
    """The model's turn: its blocks in the order they came, and why it stopped.

    `provider_stop_reason` is the provider's own word, such as content_filter, where no StopReason has its meaning.
    `id` is the server's name for it, for traces; it is not saved. `writer` names the model on its server: thoughts go
    back to nobody else. It is empty where that is not known. `written`: text and calls in the text as the model wrote
    them, where `render_message` writes others. `kept_text`: of an answer with calls in its text, the text for a client
    that gets the safe calls only.
    """

    TYPE = "response"
    UNCOMPARED = ("id", "written", "kept_text")
    UNSTORED = ("id", "kept_text")
    content: tuple[Block, ...]
    stop_reason: StopReason = "end_turn"
    usage: Usage | None = None
    model: str = ""
    provider_stop_reason: str = ""
    id: str = ""
    writer: str = ""
    written: str = ""
    kept_text: str = ""

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def requested_calls(self) -> tuple[RequestedCall, ...]:
        """All calls in order, the malformed ones too: each must have a result."""
        return tuple(block for block in self.content if isinstance(block, (ToolCall, MalformedCall)))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def malformed(self) -> tuple[MalformedCall, ...]:
        return tuple(block for block in self.content if isinstance(block, MalformedCall))

    @property
    def is_stopped_by_server(self) -> bool:
        """Whether the server ended the answer for a reason of its own."""
        return self.stop_reason == "other" or bool(self.provider_stop_reason)

    @property
    def thought(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Reasoning))

    @property
    def raw_text(self) -> str:
        """All text and thoughts."""
        return "".join(block.text for block in self.content if isinstance(block, (Text, Reasoning)))

    @property
    def is_only_thought(self) -> bool:
        return bool(self.content) and all(isinstance(block, Reasoning) for block in self.content)


class ToolResults(Serializable, frozen=True):
    """The results of one turn's calls, in the order of the calls."""

    TYPE = "results"
    results: tuple[ToolResult, ...]


Message = Union[SystemMessage, UserMessage, Response, ToolResults]


def sum_usage(messages: Sequence[Message]) -> Usage:
    """The tokens of all answers, and of subagents, as the server counted them."""
    results = [each for message in messages if isinstance(message, ToolResults) for each in message.results]
    counted = [each.usage for each in (*messages, *results) if isinstance(each, (Response, ToolResult))]
    return sum(filter(None, counted), Usage())


def count_media(message: Message) -> int:
    """The images and sounds in a message."""
    blocks: Iterable[JSON] = ()
    if isinstance(message, UserMessage):
        blocks = message.blocks
    elif isinstance(message, ToolResults):
        blocks = [block for result in message.results for block in list_blocks(result)]
    return sum(isinstance(block, dict) and block.get("type") in MEDIA for block in blocks)


def list_blocks(result: ToolResult) -> Sequence[JSON]:
    """The content blocks of a result of kind multimodal; none of another."""
    return result.value if result.kind == "multimodal" and isinstance(result.value, list) else ()


def read_message(value: JSON) -> Message:
    """The message that `to_dict` wrote. Raises ValueError."""
    return cast(Message, read_as(value, Message))
