"""Chat completions put together: the chunks of a stream, or a whole answer, as what they say. Pure; linear.

Whose piece of a call it is is decided as for all other readers of a chat completion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from ...providers.stream.response_builder import ResponseBuilder
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


class FoldedChoice(Struct):
    texts: list[str] = []
    thoughts: list[str] = []
    builder: ResponseBuilder = field(default_factory=lambda: ResponseBuilder(str))
    finish_reason: str = ""
    token_ids: list[int] = []
    logprobs: list[Any] = []

    def add(self, choice: _Choice) -> None:
        self.finish_reason = choice.finish_reason or self.finish_reason
        self.token_ids += choice.token_ids or ()
        if choice.logprobs is not None:
            self.logprobs += choice.logprobs.content or ()
        if choice.delta is not None:
            self._add_piece(choice.delta)
        elif choice.message is not None:
            for place, call in enumerate(choice.message.tool_calls or ()):
                if call.index is None:
                    call.index = place
            self._add_piece(choice.message)

    def _add_piece(self, piece: _Delta) -> None:
        if piece.content:
            self.texts.append(as_str(piece.content))
        if thought := piece.reasoning or piece.reasoning_content:  # servers that know both names send both
            self.thoughts.append(thought)
        for call in piece.tool_calls or ():
            function = call.function or _Function()
            self.builder.add_call(call.index, call.id, function.name, function.arguments)


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
            self.choices.setdefault(choice.index, FoldedChoice()).add(choice)


def fold_chunks(events: Iterable[bytes]) -> FoldedAnswer:
    """Of the data of events, or of a whole answer as the only one. Raises WireError."""
    answer = FoldedAnswer()
    for data in events:
        if data != DONE:
            answer.add(data)
    return answer
