"""An answer under construction: pieces in, blocks out in the order they began. No I/O.

Text and thoughts are joined once at the end. Calls keep their place among them, since providers that sign blocks want
them back in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, Union

from ...errors import BotError, StreamCut
from ...types.events import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from ...types.messages import JSON, Block, Reasoning, Text, ToolCall
from ..base import Broken, Decoder, WireEvent
from ..values import event_object, load
from .deltas import CallAssembler
from .sse import MAX_EVENT_BYTES, EventDecoder, too_large


class Prose:
    """A block of text or thoughts; `metadata` goes back to the provider with it."""

    __slots__ = ("kind", "metadata", "pieces")

    def __init__(self, kind: type[Text] | type[Reasoning]) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.metadata: dict[str, JSON] = {}

    def add(self, piece: str) -> list[ModelEvent]:
        if not piece:
            return []
        self.pieces.append(piece)
        return [TextDelta(piece) if self.kind is Text else ReasoningDelta(piece)]


class Answer:
    """`new_id` names calls that came without an id."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._assembler = CallAssembler(new_id)
        self._blocks: list[Union[Prose, int]] = []  # an int is a call's place among the calls
        self._signed: list[Mapping[str, JSON]] = []  # each call's metadata

    @property
    def last(self) -> Prose | None:
        """The last block, if text can be added to it; None if it is a call or there is none."""
        block = self._blocks[-1] if self._blocks else None
        return block if isinstance(block, Prose) else None

    def begin(self, kind: type[Text] | type[Reasoning]) -> Prose:
        prose = Prose(kind)
        self._blocks.append(prose)
        return prose

    def call(
        self, index: int, arguments: Any, id: str = "", name: str = "", metadata: Mapping[str, JSON] | None = None
    ) -> ToolCallDelta:
        """Add a piece to the call `index`; metadata counts for the first piece."""
        delta = self._assembler.add({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
        if delta.call_index == len(self._signed):
            self._signed.append(metadata or {})
            self._blocks.append(delta.call_index)
        return delta

    def close(self, truncated: bool) -> tuple[Block, ...]:
        return tuple(self._finished(truncated))

    def _finished(self, truncated: bool) -> Iterator[Block]:
        calls = self._assembler.finish(truncated)
        for block in self._blocks:
            if isinstance(block, int):
                call = calls[block]
                yield replace(call, metadata=self._signed[block]) if isinstance(call, ToolCall) else call
            elif block.pieces or block.metadata:
                yield block.kind("".join(block.pieces), block.metadata)


def json_events(events: EventDecoder, chunk: bytes) -> Iterator[dict[str, Any]]:
    """The events that are whole by now, as objects; what is no object is an empty one. Raises WireError."""
    return (event_object(load(data)) for data in events.feed(chunk) if data.strip())


def broken(error: BotError, found: Sequence[WireEvent]) -> list[WireEvent]:
    """What was found before the error, and then it. Raises the error where nothing was."""
    if not found:
        raise error
    return [*found, Broken(error)]


class StreamingDecoder(Decoder, Protocol):
    """A stream decoder that also accepts the whole answer at once."""

    def whole(self, answer: Any) -> list[ModelEvent]: ...


class WholeDecoder:
    """Decodes an answer that is one JSON body."""

    def __init__(self, decoder: StreamingDecoder) -> None:
        self._decoder = decoder
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """Raises WireError if it gets too large."""
        self._body += chunk
        if len(self._body) > MAX_EVENT_BYTES:
            raise too_large()
        return []

    def close(self) -> list[WireEvent]:
        """Raises WireError, ServerError or StreamCut: see Decoder."""
        found = self._decoder.whole(load(bytes(self._body)))
        return [*found, *self._decoder.close()]


def cut() -> StreamCut:
    """The error for an answer that ended too early."""
    return StreamCut("The server's answer ended in the middle.", "None of it was run.")
