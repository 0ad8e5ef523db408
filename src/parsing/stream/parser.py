"""Tool calls out of a stream of text: feed it pieces, get events. No I/O.

Prose is searched for the few characters at which a block can begin, and the lookout tells whether one does;
what cannot be told yet is held back. A block is followed by structure to its end and decoded once. Work is
proportional to the text whatever the chunking, and any chunking gives the same events, save for where text is
divided. Never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...types.messages import ToolDefinition
from ..arguments.tool_index import Toolbox
from ..classify import Judge, counted_ids
from ..events import Cut, Extraction, ParsedCall, ParserEvent, gathered
from ..formats.grammars import LONGEST, fabricated, fabricated_line
from .block import AT_ONCE, BlockReader
from .brackets import Structure
from .buffer import LOOK_BACK, MAX_SAID, Tape
from .detector import Hold, Lookout, Passed
from .lookback import Here, held
from .loops import AROUND, Facts, Repetition
from .openers import Found
from .prefilter import Anchors
from .prefix_regex import LONGEST as LONGEST_HEAD
from .reasoning import Marker, Thinking

MAX_CALLS = 32
REASONING_TAIL = 65_536  # characters at the end of reasoning that are searched
_ESCAPED = re.compile(r'[^"\\]*(?:\\.[^"\\]*){0,64}\Z', re.DOTALL)


class StreamParser:
    """Text in, events out, for the tools on offer.

    `new_id` makes the ids of calls; `given` are texts the model was given (messages, results), to tell an echo;
    `max_calls` bounds the calls of one answer; `previews` adds ToolCallDelta events for the call being written,
    its text as the model writes it.
    """

    def __init__(
        self,
        tools: Iterable[ToolDefinition | Mapping[str, Any]],
        *,
        new_id: Callable[[], str] | None = None,
        given: Iterable[str] = (),
        max_calls: int = MAX_CALLS,
        previews: bool = False,
    ) -> None:
        box = Toolbox(tools)
        self._setup = (box, Judge(box, new_id or counted_ids(), given, max_calls), Lookout(box))
        self._begin(*self._setup, previews=previews, reasoning=True)

    def _begin(self, box: Toolbox, judge: Judge, lookout: Lookout, *, previews: bool, reasoning: bool) -> None:
        self._box = box
        self._judge = judge
        self._lookout = lookout
        self._tape = Tape()
        self._anchors = Anchors()
        self._repetition = Repetition()
        self._block = BlockReader(self._tape, judge, previews=previews)
        self._previews = previews
        self._quote = ""  # the quote that ends the string that is being fed, if nothing else can happen before
        unused = Structure()
        self._kept = unused.parts
        self._keep: Callable[[str], None] = self._kept.append
        self._follow: Callable[[str, int], tuple[int, bool]] = unused.feed
        self._thinking = Thinking(self._tape) if reasoning else None
        self._truncated = False
        self._step: Callable[[bool], bool] = self._prose

    def feed(self, text: str) -> list[ParserEvent]:
        """The events that `text` brings."""
        if self._quote:  # in a long string, which most of a long call is
            if self._quote not in text or (self._quote == '"' and self._is_escaped(text)):
                self._keep(text)
                return []
            end, ended = self._follow(text, 0)
            if end == len(text) and not ended and self._goes_on():
                return []
            return self._followed(text, end, ended)
        tape, follower = self._tape, self._block.follower
        if follower is None:
            tape.add(text)
            return self._run(False)
        if tape.text:
            text = tape.text + text
        return self._followed(text, *follower.feed(text, 0))

    def _is_escaped(self, text: str) -> bool:
        """Whether each quote in `text` belongs to a backslash of its own."""
        return _ESCAPED.match(text) is not None and self._kept[-1][-1:] != "\\"

    def _goes_on(self) -> bool:
        """Whether the block goes on inside a string, and may."""
        follower = self._block.follower
        self._quote = follower.quote if follower else ""
        return bool(self._quote) and isinstance(follower, Structure) and not follower.is_long

    def _followed(self, text: str, end: int, ended: bool) -> list[ParserEvent]:
        """After the follower was fed `text`."""
        self._tape.text = text
        if self._block.followed(end, ended):
            self._step = self._closing
        return self._run(False)

    def close(self, *, truncated: bool = False) -> list[ParserEvent]:
        """The events of the end; `truncated` says that the answer was cut off, so that an open block is no call."""
        self._truncated = truncated
        return self._run(True) + self._from_reasoning()

    def _run(self, final: bool) -> list[ParserEvent]:
        while self._step(final):
            pass
        tape, follower = self._tape, self._block.follower
        if cut := tape.cut_down():
            self._block.cut_down(cut)
        self._quote = ""
        if follower is not None and not self._previews and not tape.text:
            self._quote, self._kept, self._follow = follower.quote, follower.parts, follower.feed
            self._keep = self._kept.append
        return tape.taken()

    # The steps: each says whether there is more to do before more text comes.

    def _prose(self, final: bool) -> bool:
        tape = self._tape
        at = self._anchors.after(tape.text, tape.position)
        if tape.called and self._fabricated_before(at):
            self._step = self._cutting
            return True
        if at < 0:
            end = len(tape.text)
            self._hold(end if final else held(self._box, tape.text, tape.start), end, final)
            return False
        if self._repetition.due(tape.text, at) and self._repeats(at):
            return True
        sight = self._sight(at)
        if isinstance(sight, Hold) and not final:
            low = max(0, at - LOOK_BACK)  # the mark that is waited for may belong to a name before it
            before = low + held(self._box, tape.text[low : at + 1], max(0, tape.start - low))
            self._hold(min(sight.start, before), at, final)
            return False
        if isinstance(sight, Found) and (sight.asks or self._counts(sight)):
            self._step = self._closing if self._block.begin(sight) else self._following
        elif isinstance(sight, Marker) and self._thinking:
            self._step = self._reasoning if self._thinking.begin(sight) else self._prose
        elif isinstance(sight, Passed):
            tape.position = sight.end
        else:
            self._pass(at)
        return True

    def _following(self, final: bool) -> bool:
        if final:
            self._block.cut_short()
            self._step = self._closing
        return final

    def _closing(self, final: bool) -> bool:
        decided = self._block.closed(final, truncated=self._truncated)
        if decided:
            self._step = self._cutting if self._judge.is_full else self._prose
        return decided

    def _reasoning(self, final: bool) -> bool:
        assert self._thinking  # noqa: S101 - the state says so
        ended = self._thinking.read(final)
        if ended:
            self._step = self._prose
        return ended

    def _cutting(self, _final: bool) -> bool:
        tape = self._tape
        if rest := tape.text[tape.start :]:
            tape.emit(Cut(rest))
            tape.start = len(tape.text)
        return False

    # Prose

    def _sight(self, at: int) -> Found | Hold | Passed | Marker | None:
        tape = self._tape
        character = tape.text[at]
        if character == "`" and tape.in_fence:
            return Hold(at) if not tape.text[at : at + 5].strip("`") and len(tape.text) < at + 5 else None
        marker = self._thinking.sight(at) if self._thinking and character in "<[" else None
        if isinstance(marker, Marker):
            return marker
        return self._lookout.look(Here(tape.text, at, tape.start, tape.line(at), tape.before())) or marker

    def _counts(self, found: Found) -> bool:
        """Whether what merely looks like a call may be one here: not in a fence of code, nor well after the calls."""
        tape = self._tape
        if tape.in_fence:
            return False
        return not tape.called or tape.said_by(found.start) <= MAX_SAID

    def _repeats(self, at: int) -> bool:
        """Whether the text is a repetition of what was none of it a call; it is passed then."""
        tape, block = self._tape, self._block
        if at - tape.floor < AROUND or (tape.called and tape.said_by(at) <= MAX_SAID):
            return False  # what was found last still bears upon it
        unshown = min(at - tape.start, AROUND)
        facts = Facts(tape.floor, tape.in_fence, block.in_call_fence, at - tape.position, unshown)
        passage = self._repetition.passage(tape.text, at, facts, block.rescan, LONGEST_HEAD + AT_ONCE)
        if passage is None:
            return False
        if unshown < AROUND:
            tape.show(tape.start + passage.length)
        tape.position += passage.length
        block.rescan -= passage.cost
        return True

    def _pass(self, at: int) -> None:
        """Past an anchor that opened nothing; a fence of code is noted."""
        tape = self._tape
        fence = tape.text.startswith("```", at)
        tape.in_fence ^= fence
        tape.position = at + 3 if fence else at + 1

    def _hold(self, start: int, position: int, final: bool) -> None:
        """Text from `start` on is held back, and of it all before `position` has been searched."""
        tape = self._tape
        if tape.called and not final:
            line = max(tape.start, tape.text.rfind("\n") + 1)
            if fabricated().begun(tape.text, line) and tape.starts_line(line):
                start = min(start, line)
        tape.show(start)
        tape.position = max(position, tape.start)

    def _fabricated_before(self, at: int) -> bool:
        """After a call, a line that begins a result was made up: whether one comes before or at `at`."""
        tape = self._tape
        text, start, end = tape.text, tape.start, len(tape.text) if at < 0 else at
        if tape.position - start < LONGEST and tape.starts_line(start) and fabricated().match(text, start):
            return True
        found = fabricated_line().search(text, max(start, tape.position - LONGEST), min(len(text), end + LONGEST))
        if found is None or found.start() > end:
            return False
        tape.show(found.start() + 1)
        return True

    # Reasoning that no answer followed

    def _from_reasoning(self) -> list[ParserEvent]:
        """Where nothing was answered, the complete calls that the reasoning ends with."""
        thinking = self._thinking
        if self._tape.answered or thinking is None:
            return []
        calls = thinking.calls
        if text := thinking.text:
            inner = StreamParser.__new__(StreamParser)
            inner._begin(*self._setup, previews=False, reasoning=False)
            inner.feed(text[-REASONING_TAIL:])
            inner.close(truncated=True)
            calls = inner._tape.trailing_calls
        return [ParsedCall(call, "") for call in calls]


def extract_tool_calls(
    text: str,
    tools: Iterable[ToolDefinition | Mapping[str, Any]],
    *,
    new_id: Callable[[], str] | None = None,
    given: Iterable[str] = (),
    max_calls: int = MAX_CALLS,
    truncated: bool = False,
) -> Extraction:
    """The tool calls in `text`; `tools` are ToolDefinitions or OpenAI tool objects. Never raises on a text.

    `given` are texts the model was given: a call that repeats one of them is marked as an echo. Of more than
    `max_calls` the rest is malformed. `truncated` says that the answer was cut off by max_tokens.
    """
    parser = StreamParser(tools, new_id=new_id, given=given, max_calls=max_calls)
    return gathered(parser.feed(text) + parser.close(truncated=truncated))
