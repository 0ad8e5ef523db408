"""Assembles one answer: the server's events in; text, thoughts and calls out, native calls and those in the text.

It also keeps what shows whether the server's own parser lost something (see recovery.py), and notices a model that
repeats itself without end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ..parsing import (
    Answered,
    EventFold,
    GivenText,
    Malformed,
    ParsedCall,
    ParserEvent,
    Reasoned,
    StreamParser,
    render_example,
    render_text,
)
from ..parsing.arguments.native import fit_inner, fit_native
from ..parsing.arguments.tool_index import ToolIndex
from ..parsing.decode.json_repair import MISSING_CLOSERS
from ..parsing.formats.table import find_last_tag
from ..parsing.landing.decisions import Decision, Landing, Show, Waits
from ..providers.base import Broken, PromptIds, RawTokens, WireEvent
from ..providers.wire_json import as_dict, as_list
from ..types.events import Completed, ModelEvent, Notice, ReasoningDelta, TextDelta, ToolCallDelta
from ..types.messages import (
    NATIVE,
    TEXT,
    Block,
    MalformedCall,
    Reasoning,
    RequestedCall,
    Response,
    Text,
    ToolCall,
    ToolDefinition,
    Usage,
)

WINDOW_CHARS = 8192  # that must be nothing but one text repeated
MAX_PERIOD_CHARS = 1024
MAX_BLANK_CHARS = 4096  # blanks and line ends in a row: a grammar lets a weak model write them without end
CHECK_INTERVAL_CHARS = 2048
TOO_LONG = "The answer was ended after {size:,} characters: no answer that fits into the model's context is so long."
CUT_TAG = "The answer ended behind the tag that begins a call."
_PROBE_CHARS = 64


class ResponseAssembler:
    """Turns the server's events into events to show; `response` is the whole, after the server's Completed."""

    def __init__(
        self,
        tools: Sequence[ToolDefinition],
        new_id: Callable[[], str],
        given: Sequence[GivenText] = (),
        thought_closer: str = "",
        index: ToolIndex | None = None,
        *,
        calls_in_thoughts: bool = False,
        previews: bool = False,
        waits: Waits = "none",
        fits_native: bool = True,
    ) -> None:
        """`given`: texts that the model was given; a call that only repeats one of them is marked as an echo.

        `thought_closer`: what ends the thought that the chat template opens, "" if it opens none; the answer may show
        that it is otherwise. `index`: of the tools, if it is made already. `previews` and
        `calls_in_thoughts`: see StreamParser; `waits`: see Landing. `fits_native`: arguments of native calls that the
        tool's schema refuses are fitted to it.
        """
        self._tools = tools
        self._new_id = new_id
        self._given = given
        self._fits_native = fits_native
        self.thought_closer = thought_closer
        self._index = index or ToolIndex(tools)
        self.calls_in_thoughts = calls_in_thoughts  # as given, or as this answer shows
        self._parser = StreamParser(
            self._index,
            new_id=new_id,
            given=given,
            previews=previews,
            thought_closer=thought_closer,
            calls_in_thoughts=calls_in_thoughts,
        )
        self.landing = Landing(self._parser, self._index, given, waits=waits)
        self._answer = EventFold()
        self.repeats = False  # the answer repeats itself without end: no more of it is read
        self.size = 0  # in characters, thoughts and arguments of calls included
        self.degeneration = DegenerationDetector()
        self._thought: list[str] = []  # as the server gave it
        self.tokens = RawTokens([], 0)
        self.raw: str | None = None  # the text that the tokens were, once it was asked for
        self.completed = Response(())

    def feed(self, event: WireEvent) -> Sequence[ModelEvent]:
        """Take in an event of the server; returns what is to be shown."""
        self.watch(event)
        return self.take(event)

    def watch(self, event: WireEvent) -> None:
        """Measure the answer, and look whether it repeats itself."""
        piece = ""
        if isinstance(event, (TextDelta, ReasoningDelta)):
            piece = event.text
        elif isinstance(event, ToolCallDelta):
            piece = event.arguments_delta
        if piece:
            self.size += len(piece)
            self.repeats = self.repeats or self.degeneration.add(piece)

    def take(self, event: WireEvent) -> Sequence[ModelEvent]:
        """As `feed`, of an event that is watched already."""
        if isinstance(event, TextDelta):
            parsed = self._parser.feed(event.text)
            if not parsed:  # so it is with most pieces of a call
                return ()
            return _list_shown(self.absorb(parsed))
        if isinstance(event, Completed):
            fitted = tuple(map(self._fit_call, event.response.content))
            self.completed = replace(event.response, content=fitted)
            truncated = event.response.stop_reason == "max_tokens"
            # An answer that ended by itself is wanted, even if it repeats itself.
            self.repeats = truncated and self.degeneration.check_end()
            return self._close(truncated=truncated)
        if isinstance(event, RawTokens):
            self.tokens = event
        if isinstance(event, (PromptIds, RawTokens, Broken)):  # the caller compares sizes, and raises what broke
            return ()
        if isinstance(event, ReasoningDelta):
            self._thought.append(event.text)
        return (event,)

    def _fit_call(self, block: Block) -> Block:
        """A native call under its name on offer, as models write `functions.read` too, with arguments that fit."""
        if not isinstance(block, ToolCall) or not self._index.names.is_exact(block.name):
            return block
        tool = self._index.find(block.name)
        if tool is None:
            return block
        named = replace(block, name=tool.name)
        return fit_inner(fit_native(named, tool), self._index) if self._fits_native else named

    def cut(self, rest: Sequence[WireEvent]) -> list[ModelEvent]:
        """End an answer that is longer than its model's context. `rest`: what ends it as max_tokens would."""
        shown = [shown for event in rest for shown in self.feed(event)]
        return [*shown, Notice(TOO_LONG.format(size=self.size))]

    def flush(self) -> list[ModelEvent]:
        """The rest of an answer that breaks off."""
        return self._close(truncated=True)

    def _close(self, *, truncated: bool) -> list[ModelEvent]:
        events = self._parser.close(truncated=truncated)
        self.calls_in_thoughts = self.calls_in_thoughts or self._parser.has_calls_in_thought
        return _list_shown(self.absorb(events, is_over=True))

    def response(self) -> Response:
        """The answer with its text replaced by what was found in it; a call made natively and in the text counts once.

        If nothing was found, the blocks stay as they came, since a provider that signs them wants them back unchanged.
        """
        if self.repeats:
            return self._build_shortened()
        return self._build_whole()

    def _build_whole(self) -> Response:
        if self._answer.blocks == ([Text(self.completed.text)] if self.completed.text else []):
            return replace_content(self.completed, self.completed.content)
        native: list[Block] = [*self.completed.calls, *self.completed.malformed]
        made = [(call.name, call.arguments) for call in self.completed.calls]
        parsed = [
            block
            for block in self._answer.blocks
            if not isinstance(block, ToolCall) or (block.name, block.arguments) not in made
        ]
        assembled = replace_content(self.completed, [*self._collect_reasoning(), *parsed, *native])
        return _keep_written(assembled, self._answer, is_parsed=not native)

    def _build_shortened(self) -> Response:
        """The answer up to its repetition; calls are left out, since the turn did not end."""
        thought = cut_repetition("".join(self._thought))
        text = cut_repetition("".join(block.text for block in self._answer.blocks if isinstance(block, Text)))
        return Response(tuple(block for block in (Reasoning(thought), Text(text)) if block.text), "repetition")

    def _collect_reasoning(self) -> list[Block]:
        """The thoughts that the server gave, and those that were found in its text."""
        thoughts: list[Block] = [block for block in self.completed.content if isinstance(block, Reasoning)]
        if self._answer.reasoning:
            thoughts.append(Reasoning(self._answer.reasoning))
        return thoughts

    def reparse(self, text: str, source: Response | None = None) -> Response:
        """The response that `text` gives when our parser reads all of it.

        `source`: the answer that `text` is from, if it is not this one; its thoughts are in the text.
        """
        calls_in_thoughts = self.calls_in_thoughts
        again = ResponseAssembler(
            self._tools, self._new_id, self._given, index=self._index, calls_in_thoughts=calls_in_thoughts
        )
        truncated = source is not None and source.stop_reason == "max_tokens"
        again.absorb([*again._parser.feed(text), *again._parser.close(truncated=truncated)])
        self.calls_in_thoughts = calls_in_thoughts or again._parser.has_calls_in_thought
        thoughts = again._collect_reasoning()
        if source is None:
            thoughts = self._collect_reasoning() or thoughts
        reparsed = replace_content(source or self.completed, [*thoughts, *again._answer.blocks])
        return _keep_written(reparsed, again._answer)

    def find_origin(self) -> str:
        """The origin of the last call that was certainly meant and found in the text; empty if there is none."""
        calls = [block for block in self._answer.blocks if isinstance(block, ToolCall)]
        return next((call.origin for call in reversed(calls) if not call.guessed and not call.echo), "")

    def note_cut_tag(self, response: Response) -> Response:
        """The response with a call that cannot be read, if it ended by itself behind the tag that begins one."""
        if not self._tools or response.requested_calls or response.stop_reason != "end_turn":
            return response
        raw = self.raw
        if raw is None:
            raw = "".join(block.text for block in self.completed.content if isinstance(block, Text))
        tag = find_last_tag(raw)
        if not tag or response.text.rstrip().endswith(tag):  # none, or it is mentioned
            return response
        return replace_content(response, [*response.content, MalformedCall(self._new_id(), "", tag, CUT_TAG)])

    def mend_calls(self, response: Response) -> Response:
        """The response with its native calls whose arguments are whole, but not valid JSON, read as in the text."""
        return replace_content(response, [*map(self._mend, response.content)]) if response.malformed else response

    def _mend(self, block: Block) -> Block:
        if (
            not isinstance(block, MalformedCall)
            or block.origin != NATIVE
            or not block.raw.lstrip().startswith(("{", '"'))
        ):
            return block
        # Its braces are not closed, so that arguments without an end are a call that was cut off.
        text = f'TOOL_CALL: {{"name": {json.dumps(block.name)}, "args": {block.raw}'
        calls = self.reparse(text).calls
        if len(calls) != 1 or calls[0].name != block.name or calls[0].guessed:
            return block
        repairs = tuple(repair for repair in calls[0].repaired if repair != MISSING_CLOSERS)
        return replace(calls[0], id=block.id, origin=NATIVE, repaired=repairs)

    def is_empty(self) -> bool:
        """Whether tokens were made that became neither text nor thought nor call."""
        usage = self.completed.usage or Usage()
        return self._is_silent() and (self.lacks_promised_calls() or usage.output_tokens - usage.thought_tokens > 1)

    def seems_short(self) -> bool:
        """Whether tokens became nothing, or nothing came at all of an answer whose tokens are not counted."""
        return bool(self.tokens.unaccounted) or (self._is_silent() and self.has_false_usage())

    def _is_silent(self) -> bool:
        """Whether nothing came, no thought either."""
        return not self.completed.content and not self._answer.blocks

    def has_false_usage(self) -> bool:
        """Whether the server says that neither the prompt nor the answer has tokens, as proxies do that do not know."""
        usage = self.completed.usage
        return usage is not None and not (usage.input_tokens or usage.output_tokens)

    def lacks_promised_calls(self) -> bool:
        """Whether the server announced calls and gave nothing at all."""
        return self.completed.stop_reason == "tool_use" and not self.completed.content

    def absorb(self, events: Sequence[ParserEvent], *, is_over: bool = False) -> list[Decision]:
        """Take in events of the parser; returns what is decided by them, or with `is_over` on all that is left."""
        decisions: list[Decision] = []
        for event in events:
            decisions += self.landing.decide(event)
            if isinstance(event, Malformed):
                event = replace(event, malformed=self._add_example(event.malformed))
            elif isinstance(event, Reasoned):
                self.thought_closer = event.closer
            elif isinstance(event, Answered):
                self.thought_closer = ""
            elif isinstance(event, ParsedCall):
                event = replace(event, call=fit_inner(event.call, self._index))
            self._answer.add(event)
        return [*decisions, *self.landing.close()] if is_over else decisions

    def _add_example(self, call: MalformedCall) -> MalformedCall:
        """The error of a call in our text format, with an example of a correct one."""
        tool = next((tool for tool in self._tools if tool.name == call.name), next(iter(self._tools), None))
        if call.origin != TEXT or tool is None:
            return call
        return replace(call, reason=f"{call.reason} A correct call: {render_example(tool)}")


def _keep_written(response: Response, answer: EventFold, *, is_parsed: bool = True) -> Response:
    """The response with what the model wrote.

    `is_parsed`: no call was native, so that the text goes back as it was written, if we would write another.
    """
    is_textual = is_parsed and any(call.origin == TEXT for call in response.requested_calls)
    written = answer.written if is_textual and answer.written != render_text(response) else ""
    return replace(response, written=written, kept_text=answer.kept_text)


def _list_shown(decisions: Sequence[Decision]) -> list[ModelEvent]:
    """What the reader of a chat sees of the text now."""
    return [
        ReasoningDelta(decision.text) if decision.is_thought else TextDelta(decision.text)
        for decision in decisions
        if isinstance(decision, Show)
    ]


def fits(call: RequestedCall, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the call can be read and is of an offered tool, with all required arguments and no unknown ones."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None or isinstance(call, MalformedCall):
        return False
    properties, needed = as_dict(tool.parameters.get("properties")), as_list(tool.parameters.get("required"))
    return all(name in call.arguments for name in needed) and all(name in properties for name in call.arguments)


def replace_content(response: Response, content: Sequence[Block]) -> Response:
    """The response with other blocks, and the stop reason that follows from them."""
    stop_reason = response.stop_reason
    if stop_reason == "tool_use":  # the server may announce calls that its parser lost
        stop_reason = "end_turn"
    # The server does not know of calls in the text.
    if stop_reason != "max_tokens" and any(isinstance(block, ToolCall) for block in content):
        stop_reason = "tool_use"
    return replace(response, content=tuple(content), stop_reason=stop_reason)


class DegenerationDetector:
    """Notices an answer that repeats itself without end.

    It looks at the last characters in regular intervals. A look is a search in C over a window, so the cost of a
    character does not grow with the answer. The window is much longer than what repeats in tables or rows of zeros.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.new = 0  # characters since the last look

    def add(self, piece: str) -> bool:
        """Whether the answer repeats itself up to and with this piece."""
        self._pieces.append(piece)
        self.new += len(piece)
        # A very long piece is whole already: some servers send the arguments of a call in one.
        return self.new >= CHECK_INTERVAL_CHARS and len(piece) < WINDOW_CHARS and self.check_end()

    def check_end(self) -> bool:
        """Whether the answer ends in nothing but one text repeated."""
        tail = "".join(self._pieces)[-WINDOW_CHARS:]
        self._pieces, self.new = [tail], 0
        return len(tail) >= MAX_BLANK_CHARS and (not tail[-MAX_BLANK_CHARS:].strip() or bool(_find_period(tail)))


def cut_repetition(text: str) -> str:
    """The text with its repeated end given once."""
    if not text[-MAX_BLANK_CHARS:].strip():
        return text.rstrip()
    period = _find_period(text[-WINDOW_CHARS:])
    if not period:
        return text
    end = len(text)
    for times in (WINDOW_CHARS // period, 1):  # many at once first, since the text may be long
        unit = text[-period:] * times
        while text.endswith(unit, 0, end):
            end -= len(unit)
    return text[: end + period]


def _find_period(tail: str) -> int:
    """The length of the text that a whole window repeats; 0 if it does not."""
    before = tail.rfind(tail[-_PROBE_CHARS:], 0, len(tail) - 1)
    period = len(tail) - _PROBE_CHARS - before
    if len(tail) < WINDOW_CHARS or before < 0 or period > MAX_PERIOD_CHARS or tail[:-period] != tail[period:]:
        return 0
    return period
