"""The seam between the neutral format and a provider's bytes. Sans-IO: nothing here opens a socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Union

from ..errors import ServerError, WireError
from ..messages import JSON, Message, ModelEvent, ToolChoice, ToolDefinition


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One turn to ask for. No tools means that none are offered natively, and that there is nothing to choose.

    `options` are fields of the request's body that only some servers know; a server may refuse them.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolDefinition] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    tool_choice: ToolChoice = "auto"
    options: Mapping[str, JSON] = field(default_factory=dict)


class RawTokens(NamedTuple):
    """The ids of the tokens that an answer was made of, and how many of them became neither text nor call."""

    ids: list[int]
    silent: int


class HttpRequest(NamedTuple):
    """A POST: `path` is relative to base_url."""

    path: str
    body: bytes


WireEvent = Union[ModelEvent, RawTokens]


class Decoder(Protocol):
    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """Raises WireError, or ServerError where the server reports one inside the stream."""

    def close(self) -> Sequence[WireEvent]:
        """What is left, RawTokens where the server gives them, and Completed last. Raises StreamCut too.

        Completed holds the text as the server gave it, and the native calls.
        """


def streams(content_type: str) -> bool:
    """Whether an answer comes as events or as one JSON body. Raises WireError where it can be neither."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("text/event-stream", "", "application/json"):
        return kind != "application/json"
    raise WireError(f"The server answered with {kind}, not with a model's turn.", "Check vllm.base_url.")


class Codec(Protocol):
    def encode(self, request: ChatRequest) -> HttpRequest: ...

    def decoder(self, content_type: str) -> Decoder:
        """For an answer with status 200. Raises WireError where such a content type cannot hold one."""

    def refusal(self, status: int, body: bytes, location: str = "") -> ServerError:
        """What an answer with another status means; `location` is where a redirect points."""

    def models(self, body: bytes) -> list[str]:
        """The names in an answer to GET models. Raises WireError."""
