"""Chat completions put together: the chunks of a stream, or a whole answer, as what they say. Pure; linear."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ...providers.wire_json import StructReader, WireStruct, as_str
from ..chunks.intake import DONE


class _Function(WireStruct):
    name: str | None = None
    arguments: Any = None


class _Call(WireStruct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Logprobs(WireStruct):
    content: list[Any] | None = None


class _Delta(WireStruct):
    content: Any = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(WireStruct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Chunk(WireStruct):
    choices: list[_Choice] | None = None
    usage: Any = None
    prompt_token_ids: list[int] | None = None


_read = StructReader(_Chunk).read


class FoldedCall(Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = []


class FoldedChoice(Struct):
    texts: list[str] = []
    thoughts: list[str] = []
    calls: dict[int, FoldedCall] = {}
    finish_reason: str = ""
    token_ids: list[int] = []
    logprobs: list[Any] = []

    def _add(self, choice: _Choice) -> None:
        self.finish_reason = choice.finish_reason or self.finish_reason
        self.token_ids += choice.token_ids or ()
        if choice.logprobs is not None:
            self.logprobs += choice.logprobs.content or ()
        if piece := choice.delta or choice.message:
            self._add_piece(piece)

    def _add_piece(self, piece: _Delta) -> None:
        if piece.content:
            self.texts.append(as_str(piece.content))
        if thought := piece.reasoning or piece.reasoning_content:  # servers that know both names send both
            self.thoughts.append(thought)
        for place, call in enumerate(piece.tool_calls or ()):
            if call.index is None:
                call.index = place
            self._add_call(call.index, call)

    def _add_call(self, index: int, piece: _Call) -> None:
        call = self.calls.setdefault(index, FoldedCall())
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            call.name = call.name or piece.function.name or ""
            call.arguments.append(as_str(piece.function.arguments))


class FoldedAnswer(Struct):
    choices: dict[int, FoldedChoice] = {}
    prompt_token_ids: list[int] = []
    usage: Any = None

    def add(self, data: bytes) -> None:
        """A chunk, or a whole answer. Raises WireError where it is no JSON."""
        chunk = _read(data)
        self.usage = chunk.usage or self.usage
        self.prompt_token_ids = self.prompt_token_ids or chunk.prompt_token_ids or []
        for place, choice in enumerate(chunk.choices or ()):
            if choice.index is None:
                choice.index = place
            self.choices.setdefault(choice.index, FoldedChoice())._add(choice)


def fold_chunks(events: Iterable[bytes]) -> FoldedAnswer:
    """Of the data of events, or of a whole answer as the only one. Raises WireError."""
    answer = FoldedAnswer()
    for data in events:
        if data != DONE:
            answer.add(data)
    return answer
