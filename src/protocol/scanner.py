"""Tool calls out of a stream of text: feed it pieces, get events. No I/O.

Prose is searched for the few characters at which a block can begin, and the lookout tells whether one does;
what cannot be told yet is held back. A block is followed by structure to its end and decoded once. Work is
proportional to the text whatever the chunking, and any chunking gives the same events, save for where text is
divided. Never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..messages import ToolDefinition
from .block import BlockReader
from .closing import LONGEST, fabricated, fabricated_line
from .events import Cut, ParsedCall, ParserEvent
from .follow import MAX_BLOCK
from .heads import Found
from .ids import counted_ids
from .judge import Judge
from .lookout import ANCHOR, Hold, Lookout
from .reasoning import Marker, Thinking
from .tape import Tape, solid_length
from .toolbox import Toolbox

MAX_CALLS = 32
MAX_SAID = 80  # characters of text after a call; what merely looks like a call further on explains or repeats


class StreamParser:
    """Text in, events out, for the tools on offer.

    `new_id` makes the ids of calls; `given` are texts the model was given (messages, results), to tell an echo;
    `max_calls` bounds the calls of one answer; `previews` adds ToolCallDelta events for the call being written,
    its text as the model writes it; `reasoning=False` reads reasoning markers as text.
    """

    def __init__(
        self,
        tools: Iterable[ToolDefinition | Mapping[str, Any]],
        *,
        new_id: Callable[[], str] | None = None,
        given: Iterable[str] = (),
        max_calls: int = MAX_CALLS,
        previews: bool = False,
        reasoning: bool = True,
    ) -> None:
        box = Toolbox(tools)
        self._setup = (box, Judge(box, new_id or counted_ids(), given, max_calls), Lookout(box))
        self._begin(*self._setup, previews=previews, reasoning=reasoning)

    def _begin(self, box: Toolbox, judge: Judge, lookout: Lookout, *, previews: bool, reasoning: bool) -> None:
        self._box = box
        self._lookout = lookout
        self._tape = Tape()
        self._block = BlockReader(self._tape, judge, previews=previews)
        self._previews = previews
        self._thinking = Thinking(self._tape) if reasoning else None
        self._truncated = False
        self._step: Callable[[bool], bool] = self._prose

    def feed(self, text: str) -> list[ParserEvent]:
        """The events that `text` brings."""
        tape, follower = self._tape, self._block.follower
        if follower is None:
            tape.add(text)
            return self._run(False)
        if tape.text:
            text = tape.text + text
        end, ended = follower.feed(text, 0)
        if end == len(text) and not ended and follower.size <= MAX_BLOCK:
            tape.text = ""
            if not self._previews:
                return []
            self._block.preview(text)
            return tape.taken()
        tape.text = text
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
        if cut := self._tape.cut_down():
            self._block.cut_down(cut)
        return self._tape.taken()

    # The steps: each says whether there is more to do before more text comes.

    def _prose(self, final: bool) -> bool:
        tape = self._tape
        at = self._anchor()
        if tape.called and self._fabricated_before(at):
            self._step = self._cutting
            return True
        if at < 0:
            end = len(tape.text)
            self._hold(end if final else self._lookout.held(tape.text, tape.start), end, final)
            return False
        sight = self._sight(at)
        if isinstance(sight, Hold) and not final:
            self._hold(sight.start, at, final)
            return False
        if isinstance(sight, Found) and (sight.asks or self._counts(sight)):
            self._step = self._closing if self._block.begin(sight) else self._following
        elif isinstance(sight, Marker) and self._thinking:
            self._step = self._reasoning if self._thinking.begin(sight) else self._prose
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
            self._step = self._prose
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

    def _anchor(self) -> int:
        """The next character at which a block may begin, or -1."""
        found = ANCHOR.search(self._tape.text, self._tape.position)
        return found.start() if found else -1

    def _sight(self, at: int) -> Found | Hold | Marker | None:
        tape = self._tape
        character = tape.text[at]
        if character == "`" and tape.in_fence:
            return Hold(at) if len(tape.text) < at + 3 else None
        marker = self._thinking.sight(at) if self._thinking and character in "<[" else None
        if isinstance(marker, Marker):
            return marker
        return self._lookout.look(tape.text, at, tape.start, tape.line(at)) or marker

    def _counts(self, found: Found) -> bool:
        """Whether what merely looks like a call may be one here: not in a fence of code, nor well after the calls."""
        tape = self._tape
        if tape.in_fence:
            return False
        return not tape.called or tape.said + solid_length(tape.text[tape.start : found.start]) <= MAX_SAID

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
            inner.feed(text)
            inner.close(truncated=True)
            calls = inner._tape.trailing_calls
        return [ParsedCall(call, "") for call in calls]
