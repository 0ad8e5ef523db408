"""A block from its beginning to its verdict: followed to its end, then what closes it is taken, then decided.

A value that is whole already is read at once. A block that turns out to be no call is text again, and blocks are
looked for inside it only while that stays within a fixed budget, so that the whole stays linear.
"""

from __future__ import annotations

import re

from ...types.events import ToolCallDelta
from ..classify import Judge
from ..decode.nodes import strict
from ..events import Malformed
from ..formats.grammars import (
    LONGEST,
    MEANT_END,
    Body,
    closers,
    closing,
    decode,
    fence_end,
    line_end,
    origin,
    separator,
)
from .brackets import MAX_BLOCK, Closing, Structure
from .buffer import Tape
from .openers import Found
from .prefix_regex import Matcher

RESCAN = 65_536  # characters, in all, of blocks that were none and are searched again
AT_ONCE = 16_384  # characters; json counts the lines before an error, so it is given no more than this
CUT_OFF = "The block was cut off before its end; send it again, in smaller parts if it is long."
_STRUCTURED = frozenset(("json", "named", "pythonic"))
_HEAD = 400  # characters at most that a block's name is looked for in, for the preview
_SAYS_NAME = re.compile(
    r"""(?:["'](?:name|tool|function|tool_name)["']\s*:\s*["']|(?:function|name|tool)\s?=\s?["']?)([\w.:-]{1,80})["'>]"""
)


class BlockReader:
    """Reads one block after the other off the tape. `previews` asks for calls while they are written."""

    def __init__(self, tape: Tape, judge: Judge, *, previews: bool) -> None:
        self._tape = tape
        self._judge = judge
        self._previews = previews
        self.follower: Structure | Closing | None = None
        self.in_call_fence = False  # the block began with a fence that is still open
        self.rescan = RESCAN
        self._found = Found(0, 0, "", "")
        self._at = -1  # where the block starts on the tape, or -1 where part of it has left the tape
        self._head = ""
        self._body = Body("", False, None)
        self._after = 0
        self._line = ""
        self._index = 0
        self._previewed: str | None = None

    def begin(self, found: Found) -> bool:
        """Text before the block is shown and its body followed; whether its end is there."""
        tape, body = self._tape, found.body
        self._line = tape.line(found.start)
        tape.show(found.start)
        self._found, self._at, self._head = found, found.start, tape.text[found.start : body]
        self._previewed = None
        tape.start = tape.position = body
        if found.kind in ("json", "named") and tape.text[body] in "{[":
            whole = tape.text[body : body + AT_ONCE]
            try:
                node, length = strict(whole)
            except (ValueError, RecursionError):
                pass
            else:
                self._settle(Body(whole[:length], True, (node,)), body + length)
                return True
        structured = found.kind in _STRUCTURED
        ends = None if structured else closing(found.kind, found.name, tape.text[body : body + _HEAD])
        self.follower = Closing(ends, LONGEST) if ends else Structure()
        return self.followed(*self.follower.feed(tape.text, body))

    def followed(self, end: int, ended: bool) -> bool:
        """After the follower was fed the tape's text: whether the block is over."""
        follower, tape = self.follower, self._tape
        assert follower  # noqa: S101 - the state says so
        tape.start = tape.position = end
        if ended:
            self.follower = None
            self._settle(Body("".join(follower.parts), True, None), end)
        elif follower.size > MAX_BLOCK:
            self.follower = None
            self._too_long("".join(follower.parts))
        else:
            self._at = -1
            if self._previews:
                self.preview(follower.parts[-1] if follower.parts else "")
        return self.follower is None

    def cut_down(self, length: int) -> None:
        """The tape lost its first characters, so many."""
        self._at = -1
        self._after = max(0, self._after - length)

    def preview(self, text: str) -> None:
        """The call being written, as far as it is: its name once known, then its text as it comes."""
        if self._previewed is None:
            assert self.follower  # noqa: S101 - only called while a block is followed
            text = self._name_preview("".join(self.follower.parts))
        if text and self._previewed:
            self._tape.emit(ToolCallDelta(self._index, None, None, text))

    def _name_preview(self, body: str) -> str:
        """Emits the name where it can be told, and gives the text so far."""
        said = _SAYS_NAME.search(self._head + body[:_HEAD])
        name = self._judge.offered(self._found.name or (said[1] if said else ""))
        if name or len(body) > _HEAD:
            self._previewed = name
        if not name:
            return ""
        self._tape.emit(ToolCallDelta(self._index, self._judge.promised_id(), name, ""))
        return body

    def _settle(self, body: Body, end: int) -> None:
        self._body, self._after = body, end
        self._tape.start = end

    def cut_short(self) -> None:
        """The text ended inside the block: it is read as far as it goes, or to where it may have been meant to end."""
        follower, found, tape = self.follower, self._found, self._tape
        assert follower  # noqa: S101 - the state says so
        self.follower = None
        if follower.size > MAX_BLOCK:
            self._too_long("".join(follower.parts))
            return
        text = "".join(follower.parts) + tape.text[tape.start :]
        end = MEANT_END.search(text) if found.kind in _STRUCTURED else None
        if end and len(text) - end.start() <= self.rescan:
            part = Body(text[: end.start()], end.group().strip()[:2] in ("</", "<|", "``"), None)
            if not decode(found, part, self._judge.knows).problem:
                self.rescan -= len(text) - end.start()
                self._at = -1
                tape.replace(text[end.start() :], "")
                self._settle(part, 0)
                return
        self._settle(Body(text, False, None), len(tape.text))

    def _too_long(self, body: str) -> None:
        raw, rest = self._head + body[:MAX_BLOCK], body[MAX_BLOCK:]
        found = self._found
        self._tape.replace(rest + self._tape.text[self._tape.start :], "")
        verdict = self._judge.too_long(found.name, raw, origin(found.opener, found.kind), MAX_BLOCK)
        self._tape.emit(Malformed(verdict, raw))

    def closed(self, final: bool, *, truncated: bool) -> bool:
        """Takes what closes the block and decides on it; False where more text is needed for that."""
        text, found = self._tape.text, self._found
        if found.alone and self._after == self._tape.start and not line_end().match(text, self._after):
            begun = line_end().begun(text, self._after)
            if begun and not final:
                return False
            if not begun:
                self._give_back(self._raw())
                return True
        while True:
            taken = self._take_closer(text, final)
            if taken is None:
                return False
            if not taken:
                break
        self._decide(truncated)
        return True

    def _take_closer(self, text: str, final: bool) -> bool | None:
        """Whether one more closing marker was there; None where that cannot be told yet."""
        for matcher in self._closers():
            if match := matcher.match(text, self._after):
                self._after = match.end()
                return True
            if not final and matcher.begun(text, self._after):
                return None
        return False

    def _closers(self) -> list[Matcher]:
        matchers = [closers()]
        if "`" in self._head or self.in_call_fence:
            self.in_call_fence = True
            matchers.append(fence_end())
        if not self._found.asks or self._found.kind == "pythonic":
            matchers.append(separator())
        return matchers

    def _raw(self) -> str:
        return self._head + self._body.text + self._tape.text[self._tape.start : self._after]

    def _decide(self, truncated: bool) -> None:
        """The block as events, or as text again."""
        found, body, tape = self._found, self._body, self._tape
        raw = self._raw()
        decoded = decode(found, body, self._judge.knows)
        if truncated and not body.ended:
            decoded = decoded._replace(problem=CUT_OFF, cut=True)
        name = origin(found.opener, found.kind)
        verdicts = self._judge.verdicts(decoded, raw, name, asks=found.asks, repeated=tape.called and tape.said > 0)
        if not verdicts:
            self._give_back(raw)
            return
        if "```" in tape.text[tape.start : self._after]:
            self.in_call_fence = False
        for verdict in verdicts:
            tape.verdict(verdict, raw)
            raw = ""
            if self._judge.is_full:
                break
        self._index += len(verdicts)
        tape.skip_to(self._after)

    def _give_back(self, raw: str) -> None:
        """The block is text after all; inside it blocks are looked for while the budget lasts."""
        tape, found = self._tape, self._found
        self.in_call_fence = False
        if self._at >= 0:
            tape.start = self._at
        else:
            tape.replace(raw + tape.text[self._after :], self._line)
        if self._head.startswith("```") and not tape.in_fence:
            tape.in_fence = True
            tape.position = tape.start + 3
        elif not found.asks and len(raw) <= self.rescan:
            self.rescan -= len(raw)
            tape.position = tape.start + len(self._head) + 1
        else:
            tape.position = tape.start + len(raw)
