"""One answer as vLLM's clients get it: the text that the model writes in; text and pieces of calls out. Pure.

It renders the decisions of parsing/landing. What only repeats a tool's result, can be read otherwise or cannot be read
at all stays text. An open block is no call: the serving layer does not say whether the answer was cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..parsing import GivenText, ParserEvent, StreamParser, extract_tool_calls
from ..parsing.arguments.tool_index import ToolIndex
from ..parsing.landing.arguments import encode_arguments
from ..parsing.landing.decisions import (
    CallBegins,
    CallPiece,
    Decision,
    Hold,
    Landing,
    Mark,
    Show,
    Waits,
    WholeCall,
)
from ..types.events import TextDelta, ToolCallDelta
from ..types.messages import JSON, ToolCall, ToolDefinition

_ANY_OBJECT: dict[str, JSON] = {"type": "object"}

Delta = TextDelta | ToolCallDelta


class CallStream:
    """`tools`: OpenAI tool objects; without any, each call in a format's own markers counts, whatever its name.

    `results`: of tools, in which a call may be quoted. `new_id` names calls. `streams_arguments`: false gives each call
    whole. `is_told_end`: `close` will certainly be called, so that a call whose values may go on can wait for it.
    `is_forced`: a grammar made the answer calls, so that one that is in doubt counts, too.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]],
        new_id: Callable[[], str],
        results: Sequence[str] = (),
        *,
        streams_arguments: bool = True,
        is_told_end: bool = True,
        is_forced: bool = False,
    ) -> None:
        self._index = ToolIndex(tools)
        self._new_id = new_id
        given = list(map(GivenText, results))
        self._parser = StreamParser(self._index, new_id=new_id, given=given, eager=True, previews=streams_arguments)
        waits: Waits = "none"
        if is_told_end:
            waits = "unsure"
        self._landing = Landing(self._parser, self._index, given, waits=waits)
        self._is_forced = is_forced
        self._count = 0  # of the calls given
        self._blank = ""  # behind a call: it is text only if other text follows
        self._begun: CallBegins | None = None  # whose first piece is still to come

    def feed(self, text: str) -> list[Delta]:
        return list(self._render(self._parser.feed(text)))

    def close(self) -> list[Delta]:
        """The rest, at the end of the answer."""
        deltas = list(self._render(self._parser.close(truncated=True)))
        for decision in self._landing.close():
            deltas += self._give(decision)
        return deltas

    def _render(self, events: Iterable[ParserEvent]) -> Iterator[Delta]:
        for event in events:
            for decision in self._landing.decide(event):
                yield from self._give(decision)

    def _give(self, decision: Decision) -> Iterator[Delta]:
        """Nothing for the other decisions: vLLM hears of a call's end and of dropped text by what follows."""
        if isinstance(decision, Show):
            yield from self._show(decision.text)
        elif isinstance(decision, Mark):
            yield from self._show(decision.raw)
        elif isinstance(decision, CallBegins):
            self._begun = decision
        elif isinstance(decision, CallPiece):
            begun, self._begun = self._begun, None
            if begun is None:
                yield ToolCallDelta(self._count - 1, None, None, decision.arguments)
                return
            self._count, self._blank = self._count + 1, ""
            yield ToolCallDelta(self._count - 1, begun.id, begun.name, decision.arguments)
        elif isinstance(decision, WholeCall):
            yield from self._call(decision.call)
        elif isinstance(decision, Hold):
            yield from self._give_held(decision)

    def _give_held(self, held: Hold) -> Iterator[Delta]:
        """What is no safe call is text, but where a grammar made the answer calls, or no tools say what is one."""
        call = held.call
        if isinstance(call, ToolCall) and self._is_forced:
            yield from self._call(call)
        elif isinstance(call, ToolCall) or self._index.tools or not call.name:
            yield from self._show(held.raw)
        else:
            tool = ToolDefinition(call.name, "", _ANY_OBJECT)
            for parsed_call in extract_tool_calls(held.raw, [tool], new_id=self._new_id).calls:
                yield from self._call(parsed_call)

    def _show(self, text: str) -> Iterator[Delta]:
        if self._count and text.isspace():
            self._blank += text
            return
        text, self._blank = self._blank + text, ""
        if text:
            yield TextDelta(text)

    def _call(self, call: ToolCall) -> Iterator[Delta]:
        self._count, self._blank = self._count + 1, ""
        yield ToolCallDelta(self._count - 1, call.id, call.name, encode_arguments(call.arguments))
