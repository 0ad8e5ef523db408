"""Tool calls out of a stream of text: feed it pieces, get events. No I/O.

Strategy: one pattern finds the few characters at which a block can begin, the detector decides whether one does, and
text that may still become one is held back. A block is followed to its end and decoded once. Each state has one step
in `_STEPS`; a step returns whether there is more to do before more text arrives. The parser alone moves its buffer:
the readers of blocks and of reasoning return what they took.

Work is linear in the text whatever the chunking, and any chunking gives the same events, except for where text is
divided. Never raises on a text.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from string import ascii_letters
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from ...types.events import TextDelta
from ...types.messages import MAX_CALLS, ToolDefinition
from ..arguments.tool_index import ToolIndex
from ..classify import CallClassifier, make_id_source
from ..decode.tag_style import TagStyle
from ..echo import GivenText
from ..events import Answered, Cut, Extraction, ParsedCall, ParserEvent, gathered
from ..formats.envelopes import MARKER_STARTS
from ..formats.format_set import FORMAT_SET, FormatSet
from ..formats.grammars import FABRICATED
from ..mention import find_code
from .block import BlockReader, CertainKind, Taken
from .buffer import CONTEXT_CHARS, MAX_SHOWN_CHARS, TextBuffer, count_backticks, skip_blanks
from .detector import Detection, make_detector
from .lookback import LOOK_BACK_CHARS, Position, find_hold, joins_word
from .openers import ANCHOR_LEAD_CHARS, BlockStart, NeedMore, Skip, await_match
from .reasoning import Marker, ReasoningReader
from .writer import EventWriter

REASONING_TAIL_CHARS = 65_536  # at the end of reasoning, that are searched for calls
MAX_PLAIN_CHARS = 80  # of a piece of plain text and what is held back before it
MAX_UNREAD_PIECES = 4096  # kept before they are read
_State = Literal["prose", "block", "reasoning", "discard"]

_TOKEN_BEGINS = ("<|", "<｜")  # of special tokens, which stand in no text
_TAG_BEGINS = frozenset("<" + letter for letter in ascii_letters)  # of an element, as it is written in prose


class StreamParser:
    """Text in, events out, for the tools on offer: ToolDefinitions or OpenAI tool objects, or a ToolIndex of them.

    `new_id` makes the ids of calls. `given` are texts the model was given (messages, results): a call that repeats
    one of them is marked as an echo. Of more than `max_calls` calls the rest is malformed. `previews` adds
    ToolCallDelta events for the call being written, with its text as the model writes it. `eager`: a call is given as
    soon as it is complete; the markers that close its block then follow as Cut. `thought_closer`: the chat template
    opens a thought, which ends with this marker; a Reasoned event tells it. `formats`: those that calls may be written
    in. `reads_strings`: a call in the string of an object is read, too, as for what a model was given.
    `calls_in_thoughts`: the model is known to end its thoughts with calls, which are guessed otherwise.
    """

    def __init__(
        self,
        tools: Iterable[ToolDefinition | Mapping[str, Any]] | ToolIndex,
        *,
        new_id: Callable[[], str] | None = None,
        given: Iterable[GivenText] = (),
        max_calls: int = MAX_CALLS,
        previews: bool = False,
        eager: bool = False,
        thought_closer: str = "",
        formats: FormatSet = FORMAT_SET,
        reads_strings: bool = False,
        calls_in_thoughts: bool = False,
    ) -> None:
        index = tools if isinstance(tools, ToolIndex) else ToolIndex(tools)
        new_parser = functools.partial(StreamParser, index, formats=formats, reads_strings=True)
        self._names = index.names
        self._classifier = CallClassifier(
            index, new_id or make_id_source(), given, max_calls, new_parser, reads_strings=reads_strings
        )
        self._detector = make_detector(index.names, formats)
        self._formats = formats
        self._calls_in_thoughts = calls_in_thoughts
        self._begin(previews=previews, eager=eager, thought_closer=thought_closer)

    def _begin(
        self, *, previews: bool = False, eager: bool = False, reads_reasoning: bool = True, thought_closer: str = ""
    ) -> None:
        """Begins an answer, with the tools and the ids of the calls before."""
        self._buffer = TextBuffer()
        self._writer = EventWriter(self._formats)
        self._find_anchor: Callable[[str, int], re.Match[str] | None] = self._formats.find_anchor
        self._count_held: Callable[[str], int] = self._detector.count_held
        self._block = BlockReader(self._writer, self._classifier, previews=previews, eager=eager, formats=self._formats)
        self._reasoning = ReasoningReader(self._writer, thought_closer)
        self._reads_reasoning = reads_reasoning
        self._truncated = False
        self._state: _State = "prose"
        if thought_closer:
            self._state = "reasoning"
        self.has_calls_in_thought = False  # the answer is a thought that ends with calls
        self._is_plain = False  # in prose, and nothing but the text itself decides what becomes of it
        self._held = ""  # the end of plain text that is not shown yet
        self._is_inside = False  # a block, all of whose text so far was read or is kept in `_unread`
        self._unread: list[str] = []  # what the buffer does not have yet, of plain text or of a block
        self._quote = ""  # ends the string that the block is in; empty if that is not known
        self._may_end: Callable[[str], object] = bool

    def feed(self, text: str) -> list[ParserEvent]:
        """The events that `text` brings."""
        if self._is_plain:
            held = self._held + text
            if text and len(held) <= MAX_PLAIN_CHARS and len(self._unread) < MAX_UNREAD_PIECES:
                size = self._count_held(held)
                if size >= 0 or (size := self._count_held_in_context(held, text)) >= 0:
                    self._unread.append(text)
                    self._held = held[len(held) - size :]
                    return [TextDelta(held[: len(held) - size])] if size < len(held) else []
            self._take_plain()
        elif self._is_inside:
            return self._feed_block(text)
        self._buffer.text += text
        return self._follow()

    def _count_held_in_context(self, held: str, text: str) -> int:
        """The same as `_count_held`, if what was shown before decides; `text` is the end of `held`."""
        recent = self._unread[-len(held) - ANCHOR_LEAD_CHARS :]  # a piece has one character at least
        tail = self._buffer.text + "".join(recent) + text
        has_anchor = self._find_anchor(tail, len(tail) - len(held))
        if has_anchor:
            return -1
        return len(held) - find_hold(self._names, held, 0)

    def _take_plain(self) -> None:
        """Gives the buffer the plain text that it does not have yet."""
        if self._unread:
            buffer = self._buffer
            buffer.text += "".join(self._unread)
            self._unread.clear()
            end = len(buffer.text) - len(self._held)
            self._writer.note_shown(buffer.text[buffer.start : end])
            buffer.take(end)

    def count_held(self, text: str) -> int:
        """How many characters `feed` would hold back at the end of text that is prose; -1 if it has to be fed.

        Other text may be fed later, together with what follows it.
        """
        if not self._is_plain or self._held or not text:
            return -1
        if len(text) > MAX_PLAIN_CHARS:
            return self._detector.count_held_after_call(text)
        return self._count_held(text)

    @property
    def certain_kind(self) -> CertainKind:
        """How the call that was previewed last is written, if it is certain that it is one; else empty."""
        return self._block.certain_kind

    @property
    def certain_style(self) -> TagStyle | None:
        """The tags of its arguments, if they are written in tags."""
        return self._block.certain_style

    def close(self, *, truncated: bool = False) -> list[ParserEvent]:
        """The events at the end; `truncated`: the answer was cut off by max_tokens, and an open block is no call."""
        self._truncated = truncated
        if self._is_plain:
            self._take_plain()
        events = self._follow() if self._unread else []
        while self._STEPS[self._state](self, True):
            pass
        self._is_plain = self._is_inside = False
        self._writer.doubt_closed_calls()
        return events + self._writer.take_events() + self._recover_calls()

    def _feed_block(self, text: str) -> list[ParserEvent]:
        """Follows the block when a character arrives that may end it; until then text is only kept."""
        unread = self._unread
        unread.append(text)
        if len(unread) < MAX_UNREAD_PIECES:
            if self._quote:
                if self._quote not in text:
                    return self._block.preview_ahead(text)
                self._quote = ""  # the text may be behind the string, or an escape stands before the quote
            if not self._may_end(text):
                return self._block.preview_ahead(text)
        return self._follow()

    def _follow(self) -> list[ParserEvent]:
        """Feeds the follower of the block, if it is in one, what it has not read."""
        buffer, block, follower = self._buffer, self._block, self._block.follower
        if not follower:
            return self._run()
        buffer.text += "".join(self._unread)
        self._unread.clear()
        taken = block.feed(buffer.text, buffer.start)
        if self._is_inside and taken == len(buffer.text) and block.follower:
            self._quote, self._may_end = follower.quote, follower.may_end
            buffer.replace("")
            return self._writer.take_events()
        self._take_block(taken)
        return self._run()

    def _run(self) -> list[ParserEvent]:
        while self._STEPS[self._state](self, False):
            pass
        buffer, follower = self._buffer, self._block.follower
        buffer.drop_shown()
        self._held = buffer.text[buffer.start :]
        self._is_plain = self._is_inside = False
        if self._state == "prose":
            first = buffer.floor
            if self._writer.called:  # a result may begin the line: its first character is not plain
                first = skip_blanks(buffer.text, first)
            self._is_plain = buffer.position > first and buffer.passed <= buffer.start
        elif follower:
            self._quote, self._may_end = follower.quote, follower.may_end
            self._is_inside = not (self._held or self._block.awaits_name or self._block.is_undecided)
        if self._is_inside:
            buffer.replace("")
        return self._writer.take_events()

    def _read_prose(self, final: bool) -> bool:
        buffer = self._buffer
        at = self._find_next()
        if at < 0:
            self._show_plain(final)
            return False
        detection = self._detect(at, final)
        if isinstance(detection, NeedMore) and not final:
            low = max(0, at - LOOK_BACK_CHARS)  # a name before the anchor may belong to it
            floor, edge = max(0, buffer.start - low), max(0, buffer.floor - low)
            before = low + find_hold(self._names, buffer.text[low : at + 1], floor, edge)
            self._hold(min(detection.start, before), at)
            return False
        if isinstance(detection, Marker):
            self._pass_marker(detection)
        elif isinstance(detection, BlockStart) and (detection.explicit or self._may_hold_call(detection)):
            self._begin_block(detection)
        elif isinstance(detection, (NeedMore, Skip)):
            return self._pass_empty_markers(at, detection, final)
        else:
            self._pass_anchor(at)
        return True

    def _may_hold_call(self, block: BlockStart) -> bool:
        """Whether what merely looks like a call may be one.

        It is none in a fence of code, well after the calls, or in text for the user, which only a marker ends.
        """
        buffer, writer = self._buffer, self._writer
        if buffer.in_fence or (self._reasoning.is_for_user and not block.opener):
            return False
        return not writer.called or writer.shown_chars + buffer.count_ahead(block.start) <= MAX_SHOWN_CHARS

    def _pass_empty_markers(self, at: int, detection: NeedMore | Skip, final: bool) -> bool:
        """Cuts markers that hold no call, and moves behind other ones; False if that needs more text."""
        buffer = self._buffer
        end = self._find_empty_end(at, detection, final)
        if end is None:
            self._hold(at, at)
            return False
        if end > at:
            self._show(at)
            self._writer.emit(Cut(buffer.text[at:end], is_empty_call=True))
            buffer.skip(end)
        elif isinstance(detection, Skip):
            buffer.pass_over(detection.end)
        else:
            self._pass_anchor(at)
        return True

    def _find_empty_end(self, at: int, detection: NeedMore | Skip, final: bool) -> int | None:
        """Where markers at `at` end that hold no call: at the end of the answer, or before those that close them.

        Noise between the special tokens of a call belongs to them. `at` if there are none; None if that needs more
        text. In running text a tag is mentioned.
        """
        text, formats = self._buffer.text, self._formats
        run, begins = formats.opener_run.match(text, at), text[at : at + 2]
        if not run or (begins in _TAG_BEGINS and not self._buffer.starts_line(at)):
            return at
        if isinstance(detection, NeedMore):
            return len(text)  # the beginning of a call that was cut off
        if run.end() != detection.end:
            return at
        ends = [formats.closing_marker]
        if begins in _TOKEN_BEGINS:
            ends.append(formats.noise)
        for follows in ends:
            if not final and follows.is_prefix(text, run.end()):
                return None  # a longer marker may come
            if match := follows.match(text, run.end()):
                return match.end()
        return at

    def _pass_marker(self, marker: Marker) -> None:
        """Moves behind a marker, and notes what follows it."""
        buffer = self._buffer
        self._show(marker.at)
        if marker.role == "discards":
            self._state = "discard"
            return
        if self._reasoning.pass_marker(marker, buffer.text[marker.at : marker.end]):
            self._state = "reasoning"
        buffer.skip(marker.end)

    def _find_next(self) -> int:
        """Where a block may begin next; -1 if nowhere in the text. Nothing before the last block decides on it."""
        buffer, text = self._buffer, self._buffer.text
        floor, position = buffer.floor, buffer.position
        first = skip_blanks(text, floor)
        if position <= first < len(text) and self._detect_result(first):  # a line begins behind a block
            return first
        if floor and position < floor + ANCHOR_LEAD_CHARS:
            anchor = self._find_anchor(text[floor : floor + CONTEXT_CHARS], position - floor)
            if anchor and anchor.start() < ANCHOR_LEAD_CHARS:
                return floor + anchor.start()
            position = floor + ANCHOR_LEAD_CHARS
        anchor = self._find_anchor(text, position)
        return anchor.start() if anchor else -1

    def _show_plain(self, final: bool) -> None:
        """Shows text in which no block begins, but for what may belong to one at its end."""
        buffer = self._buffer
        end = len(buffer.text)
        if final:
            self._hold(end, end)
        elif self._writer.called and buffer.position == buffer.floor and skip_blanks(buffer.text, buffer.floor) == end:
            return  # a result may follow the blanks
        else:
            start = find_hold(self._names, buffer.text, buffer.start, buffer.floor)
            self._hold(start, end - count_backticks(buffer.text))

    def _begin_block(self, block: BlockStart) -> None:
        """Shows the text before the block and begins it."""
        buffer = self._buffer
        before = buffer.find_lead(block.start)
        self._show(block.start)
        self._state = "block"
        self._take_block(self._block.begin(block, buffer.text, before, in_fence=buffer.in_fence))

    def _take_block(self, taken: Taken) -> None:
        """Moves the buffer to where the reader of the block stopped."""
        if isinstance(taken, int):
            self._buffer.take(taken)
        else:
            self._buffer.give_back(taken)
            self._end_block()

    def _read_block(self, final: bool) -> bool:
        """Finishes the block once its end is there; where no more text comes, the block ends with it."""
        buffer, block = self._buffer, self._block
        if block.follower:
            if not final:
                return False
            buffer.replace(block.end_early(buffer.text[buffer.start :]))
        taken = block.finish(buffer.text, buffer.start, final, truncated=self._truncated)
        if taken is None:
            end = block.emit_early(buffer.text, buffer.start)
            if end is not None:
                buffer.skip(end)
            return False
        if isinstance(taken, int):
            buffer.skip(taken)
        else:
            buffer.give_back(taken)
        self._end_block()
        return True

    def _end_block(self) -> None:
        self._state = "prose"
        if self._classifier.has_overflowed:
            self._state = "discard"
        if self._writer.called:
            self._find_anchor = self._formats.anchor_after_call.search
            self._count_held = self._detector.count_held_after_call

    def _read_reasoning(self, final: bool) -> bool:
        buffer = self._buffer
        end, ended = self._reasoning.read(buffer.text, buffer.start, final)
        if ended:
            self._state = "prose"
            buffer.skip(end)
        else:
            buffer.take(end)
        return ended

    def _discard(self, _final: bool) -> bool:
        buffer = self._buffer
        if rest := buffer.text[buffer.start :]:
            self._writer.emit(Cut(rest))
            buffer.take(len(buffer.text))
        return False

    _STEPS: ClassVar[dict[_State, Callable[[StreamParser, bool], bool]]] = {
        "prose": _read_prose,
        "block": _read_block,
        "reasoning": _read_reasoning,
        "discard": _discard,
    }

    def _detect(self, at: int, final: bool) -> Detection | Marker:
        """What begins at the anchor `at`."""
        buffer, text = self._buffer, self._buffer.text
        if result := self._detect_result(at):
            return result
        if text[at] == "`" and buffer.in_fence:
            if text[at:].strip("`") or len(text) >= at + 5:
                return None
            return NeedMore(at)  # the fence may be longer
        position = buffer.locate(at)
        marker = self._find_marker(position, final)
        if isinstance(marker, Skip):
            return marker
        if isinstance(marker, Marker):
            is_call = self._formats.opener.match(text, marker.at)
            if marker.role in ("opens", "closes") or not is_call:
                return marker
        return self._choose(marker, self._detector.detect(position), position, final)

    def _choose(
        self, marker: Marker | NeedMore | None, detection: Detection, position: Position, final: bool
    ) -> Detection | Marker:
        """What counts of a marker around text and of a call at one anchor: the call, if one begins or may begin."""
        if isinstance(marker, Marker):
            may_be_call = isinstance(detection, BlockStart) or (isinstance(detection, NeedMore) and not final)
            if not may_be_call:
                return marker
        if isinstance(detection, BlockStart) and not self._buffer.in_fence:
            detection = find_code(position, detection.start, final=final) or detection
        if not isinstance(marker, NeedMore):
            return detection
        if isinstance(detection, (BlockStart, NeedMore)):
            return NeedMore(detection.start)
        return marker

    def _find_marker(self, position: Position, final: bool) -> Marker | NeedMore | Skip | None:
        """The marker of reasoning, or around the answer, at an anchor."""
        buffer, text, at = self._buffer, position.text, position.at
        if not self._reads_reasoning or text[at] not in MARKER_STARTS or buffer.in_fence:
            return None
        if text[at] == "=":  # of `to=`
            start = at - 2
            if start < buffer.start or joins_word(text[max(buffer.floor, start - 1) : start]):
                return None
            position = buffer.locate(start)
        return self._reasoning.find_marker(position, final=final)

    def _detect_result(self, at: int) -> Marker | NeedMore | None:
        """After a call: whether a line begins at `at`, or behind the line end there, with a result that was made up."""
        buffer, text = self._buffer, self._buffer.text
        if not self._writer.called:
            return None
        line = at
        if text[at] == "\n":
            line = skip_blanks(text, at + 1)
        elif not buffer.starts_line(at):
            return None
        if FABRICATED.match(text, line):
            return Marker(line, line, "discards", "")
        return await_match(FABRICATED, text, line, at)

    def _pass_anchor(self, at: int) -> None:
        """Moves behind an anchor that opened no block, and notes a fence of code."""
        buffer = self._buffer
        if buffer.text.startswith("```", at):
            buffer.in_fence = not buffer.in_fence
            buffer.pass_over(at + 3)
        else:
            buffer.position = at + 1

    def _show(self, end: int) -> None:
        """Emits the text up to `end` as text of the answer."""
        buffer = self._buffer
        if end > buffer.start:
            self._writer.show(buffer.text[buffer.start : end])
            buffer.pass_shown(end)

    def _hold(self, start: int, position: int) -> None:
        """Shows the text before `start` and holds back the rest, of which all before `position` has been searched."""
        self._show(start)
        self._buffer.position = max(position, self._buffer.start)

    def _recover_calls(self) -> list[ParserEvent]:
        """What the reasoning holds, if nothing was answered after it: the complete calls that it ends with.

        Reasoning that was only assumed is the answer, unless that was cut off.
        """
        reasoning = self._reasoning
        if self._writer.answered or not (text := reasoning.text):
            return []
        inner = copy.copy(self)
        if reasoning.is_assumed and not self._truncated:
            inner._begin()
            events = [Answered(), *inner.feed(text), *inner.close()]
            self.has_calls_in_thought = inner.has_calls_in_thought
            return events
        inner._begin(reads_reasoning=False)
        inner.feed(text[-REASONING_TAIL_CHARS:])
        inner.close(truncated=True)
        calls = inner._writer.trailing_calls
        self.has_calls_in_thought = bool(calls)
        return [ParsedCall(replace(call, guessed=call.guessed or not self._calls_in_thoughts), "") for call in calls]

    def parse_whole(self, text: str, *, truncated: bool = False) -> list[ParserEvent]:
        """The events of an answer that is all there: no decision waits for more text."""
        self._buffer.text = text
        return self.close(truncated=truncated)


def extract_tool_calls(
    text: str,
    tools: Iterable[ToolDefinition | Mapping[str, Any]],
    *,
    new_id: Callable[[], str] | None = None,
    given: Iterable[str] = (),
    max_calls: int = MAX_CALLS,
    truncated: bool = False,
) -> Extraction:
    """The tool calls in `text`; never raises on a text. The other arguments are those of StreamParser and `close`."""
    parser = StreamParser(tools, new_id=new_id, given=map(GivenText, given), max_calls=max_calls)
    return gathered(parser.parse_whole(text, truncated=truncated))
