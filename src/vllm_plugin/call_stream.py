"""One answer as vLLM's clients get it: the text that the model writes in; text and pieces of calls out. Pure.

A call that is certain leaves the text and is given at once; a long one in JSON while it is written. What only repeats
a tool's result, can be read otherwise or cannot be read at all stays text. An open block is no call: the serving layer
does not say whether the answer was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..parsing import (
    Answered,
    Cut,
    GivenText,
    Malformed,
    ParsedCall,
    ParserEvent,
    Reasoned,
    StreamParser,
    extract_tool_calls,
)
from ..parsing.arguments.tool_index import ToolIndex
from ..types.events import ReasoningDelta, TextDelta, ToolCallDelta
from ..types.messages import JSON, ToolCall, ToolDefinition
from .argument_stream import ArgumentStream, find_arguments

MIN_STREAMED_CHARS = 256  # of arguments; a shorter call comes whole
_QUOTED_CHARS = 64  # of an argument that, found in a result, may be a quotation
_ANY_OBJECT: dict[str, JSON] = {"type": "object"}

Delta = TextDelta | ToolCallDelta


class CallStream:
    """`tools`: OpenAI tool objects; without any, each call in a format's own markers counts, whatever its name.

    `results`: of tools, in which a call may be quoted. `new_id` names calls. `streams_arguments`: false gives each call
    whole. `forced`: the tool whose arguments a grammar makes the whole answer be; "" for a list of calls.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]],
        new_id: Callable[[], str],
        results: Sequence[str] = (),
        *,
        streams_arguments: bool = True,
        forced: str | None = None,
    ) -> None:
        self._index = ToolIndex(tools)
        self._new_id = new_id
        self._results = results
        self._parser = StreamParser(self._index, new_id=new_id, given=map(GivenText, results), eager=True)
        self._streams_arguments = streams_arguments
        self._forced = forced
        self._is_bare = False  # the answer is nothing but the JSON of forced calls
        self._count = 0  # of the calls given
        self._blank = ""  # behind a call: it is text only if other text follows
        self._is_told = False  # the text that follows was given as reasoning before
        self._open: ArgumentStream | None = None  # of the block that is being written
        self._tool = ""
        self._held: str | None = ""  # the beginning of the arguments, until there is enough of it

    def feed(self, text: str) -> list[Delta]:
        if self._forced is not None and text.strip():
            text = self._begin_forced(text)
        events = self._parser.feed(text)
        if events:
            return list(self._translate(events))
        if not self._streams_arguments or not self._parser.is_in_block:
            return []
        if self._open is None:
            text = self._open_arguments()
        piece = self._open.feed(text) if self._open else ""
        return self._give(piece) if piece else []

    def close(self) -> list[Delta]:
        """The rest, at the end of the answer."""
        deltas = list(self._translate(self._parser.close(truncated=True)))
        return [*deltas, TextDelta(self._blank)] if self._blank and not self._count else deltas

    def _begin_forced(self, text: str) -> str:
        """The beginning of an answer, as the body of a block where a grammar made it one."""
        forced, self._forced = self._forced, None
        self._is_bare = text.lstrip().startswith("{" if forced else "[")
        if not self._is_bare:
            return text
        return f"[TOOL_CALLS]{forced}[ARGS]{text}" if forced else f"[TOOL_CALLS]{text}"

    def _open_arguments(self) -> str:
        """Begins to follow the arguments in a block; returns what is written of them. Others are not followed."""
        body = self._parser.open_body
        name, text = "", ""
        if body is not None:
            name, text = (body.name, body.text) if body.name else find_arguments(body.text)
            if not name and len(body.text) < MIN_STREAMED_CHARS:
                return ""  # more of it may tell
        tool = self._index.find(name) if name else None
        self._tool, self._held = tool.name if tool else "", ""
        self._open = ArgumentStream(tool.scalar_types if tool else {})
        return text

    def _give(self, piece: str) -> list[Delta]:
        if self._held is None:
            return [ToolCallDelta(self._count, None, None, piece)]
        self._held += piece
        if len(self._held) < MIN_STREAMED_CHARS or any(self._held[-_QUOTED_CHARS:] in text for text in self._results):
            return []
        piece, self._held = self._held, None
        return [ToolCallDelta(self._count, self._new_id(), self._tool, piece)]

    def _translate(self, events: Sequence[ParserEvent]) -> Iterator[Delta]:
        for event in events:
            if isinstance(event, Answered):
                self._is_told = True
            elif isinstance(event, (TextDelta, ReasoningDelta)):
                yield from self._show(event.text)
            elif isinstance(event, ParsedCall):
                is_call = self._is_bare or is_safe(event.call)
                yield from self._call(event.call) if is_call else self._show(event.raw)
            elif isinstance(event, Malformed):
                yield from self._translate_malformed(event)
            elif isinstance(event, Reasoned) or (isinstance(event, Cut) and not self._count):
                yield from self._show(event.raw)

    def _translate_malformed(self, event: Malformed) -> Iterator[Delta]:
        name = event.malformed.name
        if self._index.tools or not name:
            yield from self._show(event.raw)
            return
        tool = ToolDefinition(name, "", _ANY_OBJECT)
        for call in extract_tool_calls(event.raw, [tool], new_id=self._new_id).calls:
            yield from self._call(call)

    def _show(self, text: str) -> Iterator[Delta]:
        if self._is_told or self._is_bare:
            return
        if self._count and text.isspace():
            self._blank += text
            return
        text, self._blank = self._blank + text, ""
        if text:
            yield TextDelta(text)

    def _call(self, call: ToolCall) -> Iterator[Delta]:
        opened, self._open = self._open, None
        if opened and self._held is None:
            rest = opened.finish(call.arguments) if call.name == self._tool else None
            # A call that turned out to be another one stays open: no client can run it.
            if rest:
                yield ToolCallDelta(self._count, None, None, rest)
        else:
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            yield ToolCallDelta(self._count, call.id, call.name, arguments)
        self._count += 1
        self._blank = ""


def is_safe(call: ToolCall) -> bool:
    """Whether a call may be given to a client that asks for no approval."""
    return not (call.echo or call.guessed)
