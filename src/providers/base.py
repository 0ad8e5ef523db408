"""The interface between the neutral format and a provider's bytes. Sans-IO."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Union

from msgspec import Struct

from ..errors import BotError, ClientError, StreamCut, WireError
from ..types.events import Completed, ModelEvent
from ..types.messages import (
    JSON,
    MalformedCall,
    Message,
    SystemMessage,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
)


class ChatRequest(Struct, frozen=True):
    """A request for one turn. `tools` are those offered natively.

    `options` are fields of the body that only some servers know and others may refuse; `extra` those that the user
    named, which are sent as they are. `max_tokens_name`: of that limit, where it is not the API's usual one.
    `is_mended`: its history is sent as all servers take it.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolDefinition] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    tool_choice: ToolChoice = "auto"
    options: Mapping[str, JSON] = {}
    stream: bool = True
    extra: Mapping[str, JSON] = {}
    max_tokens_name: str = ""
    is_mended: bool = False

    @property
    def system_texts(self) -> list[str]:
        """The system prompt, for APIs that have a field for it."""
        return [message.text for message in self.messages if isinstance(message, SystemMessage) and message.text]


class RawTokens(Struct, frozen=True):
    """The token ids of an answer; `unaccounted`: how many of them became neither text nor a call.

    `end`: the token with which the model ended its turn, which is none of them; None where it was cut off.
    """

    ids: list[int]
    unaccounted: int
    end: int | None = None


class PromptIds(Struct, frozen=True):
    """The tokens of the prompt, which the server tells before the answer. `ids`: as it writes them inside of a list."""

    ids: bytes

    def count_tokens(self) -> int:
        return self.ids.count(b",") + 1 if self.ids else 0


class HttpRequest(Struct, frozen=True):
    """A POST: `path` is relative to base_url."""

    path: str
    body: bytes


class Broken(Struct, frozen=True):
    """An error that came in one chunk with events, and after them."""

    error: BotError


WireEvent = Union[ModelEvent, PromptIds, RawTokens, Broken]


class BodyDecoder(Protocol):
    def feed(self, chunk: bytes) -> Sequence[WireEvent]:
        """The events of a chunk. If the provider says that this was all, they end with those of close().

        Raises WireError, and ServerError if the server reports an error inside the stream. If events come before the
        error, it is returned as Broken, last.
        """

    def close(self) -> Sequence[WireEvent]:
        """The remaining events: RawTokens if the server gives them, and Completed last. Raises StreamCut too.

        Completed holds the text as the server gave it, and the native calls.
        """


class Decoder(BodyDecoder, Protocol):
    def cut(self) -> Sequence[WireEvent]:
        """Completed, for an answer that is not read further: as if it had ended at max_tokens."""


class Codec(Protocol):
    """One provider's API. Codecs inherit from it what only some of them have."""

    has_json_schema: bool = False  # whether a request can hold the answer's text to a schema (`response_format`)
    counts_output: bool = True  # whether `usage` counts what the model wrote, and nothing that it hides
    signs_calls: bool = False  # whether calls go back signed, so that no exchange may become text
    shows_tools: bool = False  # whether the model certainly sees the tools of a request; else its template decides

    def encode(self, request: ChatRequest) -> HttpRequest: ...

    def encode_prompt(self, request: ChatRequest) -> bytes | None:  # noqa: ARG002
        """The body of vLLM's /tokenize for the prompt that `request` would make; None where vLLM has no such API."""
        return None

    def make_decoder(self, content_type: str) -> Decoder:
        """For an answer with status 200."""


def decode_piece(decoder: Decoder, piece: bytes | ClientError | None) -> tuple[Sequence[WireEvent], bool]:
    """The events of the next bytes of an answer, and whether they are the last.

    `piece` is None at the answer's end. It is an error where the connection broke, which does not matter after the
    answer is whole. Raises that error, and what the decoder raises.
    """
    if not isinstance(piece, ClientError):
        if piece is None:
            return decoder.close(), True
        events = decoder.feed(piece)
        return events, bool(events) and isinstance(events[-1], Completed)
    try:
        return decoder.close(), True
    except (StreamCut, WireError):
        raise piece from None


def decode(decoder: Decoder, chunks: Iterable[bytes]) -> Iterator[Sequence[WireEvent]]:
    """An answer's events as they come; the last is Completed.

    Raises what the decoder and the chunks raise, and the error in Broken.
    """
    rest, is_over = iter(chunks), False
    while not is_over:
        try:
            piece: bytes | ClientError | None = next(rest, None)
        except ClientError as broken:
            piece = broken
        events, is_over = decode_piece(decoder, piece)
        yield events
        raise_broken(events)


def raise_broken(events: Sequence[WireEvent]) -> None:
    """Raise the error in Broken, if it is the last event."""
    if events and isinstance(last := events[-1], Broken):
        raise last.error


def make_sendable(call: ToolCall | MalformedCall) -> tuple[str, dict[str, JSON]]:
    """Name and arguments of an earlier call, in a form that every server accepts.

    The text of a malformed call would make servers that parse it refuse every later turn.
    """
    return make_sendable_name(call.name), dict(call.arguments)


def make_sendable_name(name: str) -> str:
    """The name with invalid characters replaced, since providers refuse a conversation that contains them."""
    return make_sendable_id(name)[:64] or "unreadable_call"


def make_sendable_id(id: str) -> str:
    """The id of a call with invalid characters replaced: Anthropic takes [a-zA-Z0-9_-] alone, Kimi writes others."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def describe_failure(result: ToolResult) -> dict[str, JSON]:
    """A result of kind error as JSON; `denied` says that the call did not fail, but was not let run."""
    failure: dict[str, JSON] = {"error": result.value}
    if result.is_denied:
        failure["denied"] = True
    return failure
