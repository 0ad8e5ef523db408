"""A block from its beginning to its events: followed to its end, closed, decoded once, classified.

A value that is complete already is parsed at once. A block that turns out to be no call is text again, and blocks are
searched for inside it only within a fixed budget of characters, so that the whole stays linear.
"""

from __future__ import annotations

import re
from typing import Literal, Union

from ...types.events import ToolCallDelta
from ...types.lazy_pattern import LazyPattern
from ...types.messages import MalformedCall
from ..classify import BlockText, CallClassifier
from ..decode.call_shapes import DecodedBlock
from ..decode.nodes import UnreadableValue, parse_strict
from ..decode.tag_reader import TagReader
from ..decode.tag_style import TagStyle
from ..events import Cut, Malformed, ParserEvent
from ..formats.format_set import FORMAT_SET, FormatSet
from ..formats.grammars import (
    FENCE_END,
    LIKELY_END,
    LINE_END,
    MAX_MARKER_CHARS,
    OBJECT_SEPARATOR,
    SEPARATOR,
    SURPLUS_BRACES,
    TAG_KINDS,
    BlockBody,
    decode,
)
from ..mention import goes_on, may_stand_amid_text
from .brackets import (
    FENCE,
    MAX_BLOCK_CHARS,
    MAX_STRING_END_CHARS,
    STRING_END,
    TOKEN_QUOTES,
    BracketMatcher,
    UntilMarker,
)
from .buffer import CONTEXT_CHARS, LEAD_CHARS, StreamBuffer, skip_whitespace
from .openers import OWN, BlockStart
from .prefix_regex import PrefixMatcher

MAX_RESCAN_CHARS = 65_536  # in all, of blocks that were text and are searched again
MAX_STRICT_CHARS = 16_384  # given to json at once: it counts the lines before an error
MAX_DATA_CHARS = 280  # of an object that is held back, unless they show that it may be a call
CUT_OFF = UnreadableValue("The block was cut off before its end; send it again, in smaller parts if it is long.")
_CALL_FENCE = FENCE + "tool"  # its language says that it holds a call
_HEAD_CHARS = 400  # in which a block's name is searched for, for its preview
_NAME = LazyPattern(
    r"""(?:["'](?:name|tool|function|tool_name)["']\s*:\s*["']|(?:function|name|tool)\s?=\s?["']?)([\w.:-]{1,80})["'>]"""
)
_LISTED_NAME = LazyPattern(r"\[?\s*([\w.:-]{1,80})\(")  # of a call in Python's notation, maybe in a list
_KEY_NAME = LazyPattern(
    r"""\[?\s*\{\s*"([\w.:-]{1,80})"\s*:\s*\{"""
)  # of an object that has the tool's name as its key
_NO_BLOCK, _NO_BODY = BlockStart(0, 0, "", ""), BlockBody("", False)

CertainKind = Literal["", "json", "named", "tags", "keywords"]
Follower = Union[BracketMatcher, UntilMarker, TagReader]


class BlockReader:
    """Reads one block after the other from the buffer; `previews` emits calls while they are written.

    `eager`: a call is emitted before what may still close its block; those markers then follow as Cut.
    `follower` finds the end of the block that is being read; it is None between blocks.
    """

    def __init__(
        self,
        buffer: StreamBuffer,
        classifier: CallClassifier,
        *,
        previews: bool,
        eager: bool = False,
        formats: FormatSet = FORMAT_SET,
    ) -> None:
        self._buffer = buffer
        self._formats = formats
        self._classifier = classifier
        self._previews = previews
        self._eager = eager
        self.follower: Follower | None = None
        self.in_call_fence = False  # the block began with a fence that is still open
        self.rescan = MAX_RESCAN_CHARS  # characters left
        self._block = _NO_BLOCK
        self._at = -1  # where the block starts in the buffer, or -1 once part of it has left the buffer
        self._head = ""  # the text from the start of the block to its body
        self._body = _NO_BODY
        self._decoded: DecodedBlock | None = None  # of a block of tags, which are read while it is followed
        self._after = 0  # where the text behind the block begins in the buffer
        self._is_rejected = False  # the block was too long and is emitted already, or it is text
        self._is_mentioned = False  # as where it stands shows
        self._is_emitted = False  # as calls, while what closes it may still come
        self.is_undecided = False  # the block may be mere data, which its first characters decide
        self._before = ""  # the text before the block, CONTEXT_CHARS at most
        self._index = 0  # of the next call in the answer
        self._ahead = 0  # characters that were previewed and not followed yet
        self._previewed: str | None = None  # the name that was previewed, "" if there is none; None: not known yet
        # Of the block that was previewed last, if it is certainly a call.
        self.certain_kind: CertainKind = ""
        self.certain_style: TagStyle | None = None  # of tags

    @property
    def awaits_name(self) -> bool:
        """Whether the call is to be previewed, and its name is not known yet."""
        return self._previews and self._previewed is None

    def begin(self, block: BlockStart) -> None:
        """Shows the text before the block and follows its body; without a follower behind that, its end is there."""
        buffer, body = self._buffer, block.body
        self._before = buffer.find_lead(block.start, CONTEXT_CHARS)
        buffer.show(block.start)
        self._block, self._at, self._head = block, block.start, buffer.text[block.start : body]
        self._previewed, self._is_rejected, self._is_emitted, self._decoded = None, False, False, None
        self._ahead = 0
        self._is_mentioned = buffer.in_fence  # behind other text of a fence
        is_value = block.kind in ("json", "named") or (block.kind == "pythonic" and not block.name)
        self.is_undecided = is_value and not block.explicit
        buffer.take(body)
        if buffer.text[body] in "{[" and self._read_strictly(body):
            return
        self.follower = self._make_follower(block)
        if self.is_undecided:  # only its beginning is followed, until that shows that it may be a call
            size, ended = self.follower.feed(buffer.text[body : body + MAX_DATA_CHARS + 1], 0)
            self.follow(body + size, ended)
        if self.follower:
            self.follow(*self.follower.feed(buffer.text, buffer.start))

    def _read_strictly(self, body: int) -> bool:
        """Takes a value that is complete and strict JSON; whether it was."""
        text = self._buffer.text[body : body + MAX_STRICT_CHARS]
        try:
            node, length = parse_strict(text)
        except (ValueError, RecursionError):
            return False
        self._buffer.take(body + length)
        if not (self.is_undecided and self._give_back_data(text[:length])):
            self._settle(BlockBody(text[:length], True, node), body + length)
        return True

    def _make_follower(self, block: BlockStart) -> Follower:
        """What finds the end of the block."""
        if block.kind in TAG_KINDS:
            return self._formats.make_tag_reader(block.kind, block.opener, self._classifier.rank_parameter)
        if block.kind == "named" and self._buffer.text[block.body] == '"':
            return UntilMarker(STRING_END, MAX_STRING_END_CHARS)
        if block.kind in ("labels", "text"):
            return UntilMarker(re.compile(re.escape(block.closer or "\n")), MAX_MARKER_CHARS)
        is_open = block.kind == "attributes" and self._buffer.text[block.body] != "["  # only a marker ends it
        return BracketMatcher(int(is_open))

    def follow(self, end: int, ended: bool) -> None:
        """Takes the buffer's text up to `end`, where the follower stopped; there is none behind the block's end."""
        follower, buffer = self.follower, self._buffer
        assert follower  # noqa: S101 - the parser's state says so
        previewed = buffer.start + self._ahead
        reached = max(previewed, end)
        if isinstance(follower, TagReader) and follower.is_inside:
            reached = len(buffer.text)  # what it holds back within a value is in the block, whatever it becomes
        passed = buffer.text[previewed:reached]
        self._ahead = reached - end
        buffer.take(end)
        if ended:
            self._end(follower, end)
        elif follower.size > MAX_BLOCK_CHARS:
            self.follower = None
            self._reject_long("".join(follower.parts))
        elif self.is_undecided and self._give_back_data("".join(follower.parts)):
            self.follower = None
        else:
            self.is_undecided = self.is_undecided and follower.size <= MAX_DATA_CHARS
            self._at = -1
            if self._previews:
                self._preview(follower, passed)

    def _end(self, follower: Follower, end: int) -> None:
        """The block ends at `end`."""
        self.follower = None
        text = "".join(follower.parts)
        if isinstance(follower, TagReader):
            self._decoded, _ = follower.read(text)
        if not self._give_back_data(text):
            self._settle(BlockBody(text, True), end)

    @property
    def _lead(self) -> str:
        return self._before[-LEAD_CHARS:]

    def drop(self, length: int) -> None:
        """The buffer dropped its first `length` characters."""
        self._at = -1
        self._after = max(0, self._after - length)

    def _preview(self, follower: Follower, text: str) -> None:
        """Emits the call being written: its name once it is known, then its text as it comes."""
        if self._previewed is None:
            text = self._preview_name(follower)
        for event in self._make_preview(text):
            self._buffer.emit(event)

    def _make_preview(self, text: str) -> list[ParserEvent]:
        if not text or not self._previewed:
            return []
        return [ToolCallDelta(self._index, None, None, text)]

    def preview_ahead(self, text: str) -> list[ParserEvent]:
        """The preview of a piece that certainly belongs to the block, before the follower gets it."""
        self._ahead += len(text)
        return self._make_preview(text)

    def preview_followed(self) -> list[ParserEvent]:
        """The preview of the text that the follower got since the last time, all of which belongs to the block."""
        text, self._ahead = self._buffer.text[self._ahead :], 0
        return self._make_preview(text)

    def _preview_name(self, follower: Follower) -> str:
        """Emits the name if it is known; returns the text so far: all, or of tags that of the arguments."""
        block, classifier, body = self._block, self._classifier, "".join(follower.parts)
        if isinstance(follower, TagReader):
            body += self._buffer.text[self._buffer.start : self._buffer.start + self._ahead]
            written, text = follower.written_name, body[_find_arguments_line(follower, body) :]
        else:
            written, text = block.name or self._find_name(body[:_HEAD_CHARS]), body
        name = classifier.resolve_name(written)
        if name or len(body) > _HEAD_CHARS:
            self._previewed = name
        if not name:
            return ""
        may_be_certain = block.explicit and not (self._is_mentioned or self._is_fenced_among_text)
        self.certain_kind, self.certain_style = "", None
        if may_be_certain and classifier.is_certain(written, self._lead):
            self.certain_kind, self.certain_style = _find_kind(block, follower)
        self._buffer.emit(ToolCallDelta(self._index, classifier.reserve_id(), name, ""))
        return text

    def _find_name(self, body: str) -> str:
        """The name of the first call in the beginning of a block; empty if it is not there."""
        if listed := _LISTED_NAME.match(body):
            return listed[1]
        match = _KEY_NAME.match(body)
        if not match or not self._classifier.is_known(match[1]):
            match = _NAME.search(self._head + body)
        return match[1] if match else ""

    def _settle(self, body: BlockBody, end: int) -> None:
        self._body, self._after = body, end
        self._buffer.take(end)

    def end_early(self) -> None:
        """The text ended inside the block: reads it up to there, or to where it was probably meant to end."""
        follower, block, buffer = self.follower, self._block, self._buffer
        assert follower  # noqa: S101 - the parser's state says so
        self.follower = None
        if follower.size > MAX_BLOCK_CHARS:
            self._reject_long("".join(follower.parts))
            return
        if isinstance(follower, TagReader):
            self._end_tags_early(follower)
            return
        text = "".join(follower.parts) + buffer.text[buffer.start :]
        end = LIKELY_END.search(text) if isinstance(follower, BracketMatcher) else None
        if end and len(text) - end.start() <= self.rescan:
            part = BlockBody(text[: end.start()], end.group().strip()[:2] in ("</", "<|", "``"))
            if not decode(block, part, self._classifier.is_known).problem:
                self.rescan -= len(text) - end.start()
                self._at = -1
                buffer.replace(text[end.start() :])
                self._settle(part, 0)
                return
        self._settle(BlockBody(text, False), len(buffer.text))

    def _end_tags_early(self, reader: TagReader) -> None:
        """The cheapest reading of a block of tags ends it; the text behind that is read again."""
        buffer = self._buffer
        end, _ = reader.feed(buffer.text, buffer.start, final=True)
        text = "".join(reader.parts) + buffer.text[end:]
        self._decoded, end = reader.read(text)
        if self._decoded.cut or len(text) - end > self.rescan:
            self._settle(BlockBody(text, False), len(buffer.text))
            return
        self.rescan -= len(text) - end
        self._at = -1
        buffer.replace(text[end:])
        self._settle(BlockBody(text[:end], True), 0)

    def _reject_long(self, body: str) -> None:
        self._is_rejected = True
        raw, rest = self._head + body[:MAX_BLOCK_CHARS], body[MAX_BLOCK_CHARS:]
        block, buffer = self._block, self._buffer
        buffer.replace(rest + buffer.text[buffer.start :])
        origin = self._formats.find_origin(block.opener, block.kind)
        buffer.emit(Malformed(self._classifier.reject_long(block.name, raw, origin, MAX_BLOCK_CHARS), raw))

    def finish(self, final: bool, *, truncated: bool) -> bool:
        """Takes what closes the block, and emits it; False if that needs more text."""
        if self._is_rejected:
            return True
        ends_line = self._find_line_end(final)
        if ends_line is False:
            self._give_back()
            return True
        if ends_line is None:
            return False
        if not self._take_closers(final):
            self._emit_early(truncated)
            return False
        if self._is_emitted:
            buffer = self._buffer
            buffer.emit(Cut(buffer.text[buffer.start : self._after]))
            buffer.skip(self._after)
            return True
        is_mentioned = self._is_mentioned or self._find_mention(final)
        if is_mentioned is None:
            return False
        self._is_mentioned = is_mentioned
        if not self._emit_calls(truncated):
            self._give_back()
        return True

    def _find_line_end(self, final: bool) -> bool | None:
        """Whether the block ends its line, if it has to; None if that needs more text."""
        text, after = self._buffer.text, self._after
        if not self._block.must_end_line or after != self._buffer.start or LINE_END.match(text, after):
            return True
        if not LINE_END.is_prefix(text, after):
            return False
        return final or None

    def _emit_early(self, truncated: bool) -> None:
        """Emits the block's calls if it is one, whatever markers may yet close it."""
        is_ended = self._body.ended and self._after == len(self._buffer.text)
        if self._is_emitted or not (self._eager and self._block.explicit and is_ended):
            return
        if not (may_stand_amid_text(self._lead) or self._is_fenced_among_text):
            self._is_emitted = self._emit_calls(truncated)

    @property
    def _is_fenced_among_text(self) -> bool:
        """Whether the block is a fence behind text, and neither one that is named after calls, nor TOOL_CALL, which our
        instructions have models write so.

        What merely looks like a call is often meant as one behind a colon.
        """
        lead, block = self._lead.rstrip(), self._block
        if not lead or not self._head.startswith(FENCE) or self._head.startswith(_CALL_FENCE):
            return False
        return block.opener != OWN and (block.explicit or lead[-1] != ":")

    def _find_mention(self, final: bool) -> bool | None:
        """Whether what follows the block shows that it is quoted; None if that needs more text."""
        text = self._buffer.text
        if self._is_fenced_among_text:
            is_last = skip_whitespace(text, self._after) == len(text)
            return None if is_last and not final else not is_last
        is_bare = not self._block.explicit and self._block.kind != "pythonic"
        return goes_on(self._lead, text, self._after, is_bare=is_bare, final=final)

    def _take_closers(self, final: bool) -> bool:
        """Passes the markers that close the block; False if that needs more text."""
        text, taken = self._buffer.text, True
        while taken and not (final and self._after == len(text)):
            is_closer = self._take_closer(text, final)
            if is_closer is None:
                return False
            taken = is_closer
        return True

    def _take_closer(self, text: str, final: bool) -> bool | None:
        """Whether one more closing marker was there; None if that needs more text."""
        begins_next = self._begins_next(text, final)
        if begins_next is not False:
            return False if begins_next else None
        for matcher in self._list_closers():
            if match := matcher.match(text, self._after):
                if matcher is FENCE_END and match.end() == len(text) and not final:
                    return None  # a fence may be longer
                self._after = match.end()
                return True
            if not final and matcher.is_prefix(text, self._after):
                return None
        return False

    def _begins_next(self, text: str, final: bool) -> bool | None:
        """Whether the next block's marker follows, which begins as this one closes; None if that needs more text."""
        opener, start = self._formats.extended_closer, skip_whitespace(text, self._after)
        if opener is None or start == len(text):
            return False
        if opener.match(text, start):
            return True
        return None if not final and opener.is_prefix(text, start) else False

    def _list_closers(self) -> list[PrefixMatcher]:
        matchers = [self._formats.closing_marker]
        if own := self._formats.find_own_closer(self._block.opener):
            matchers.append(own)
        if "`" in self._head or self.in_call_fence:
            self.in_call_fence = True
            passed = self._body.text[-len(FENCE) :] + self._buffer.text[self._buffer.start : self._after]
            if "`" not in passed:  # the next fence opens
                matchers.append(FENCE_END)
        if not self._block.explicit or self._block.kind == "pythonic":
            matchers.append(SEPARATOR)
        elif self._block.kind in ("json", "named"):
            matchers += [SURPLUS_BRACES, OBJECT_SEPARATOR]
        return matchers

    def _join_raw(self) -> str:
        return self._head + self._body.text + self._buffer.text[self._buffer.start : self._after]

    def _emit_calls(self, truncated: bool) -> bool:
        """Emits the block's calls; False if it is text."""
        block, body, buffer = self._block, self._body, self._buffer
        raw = self._join_raw()
        decoded = self._decoded or decode(block, body, self._classifier.is_known)
        if truncated and not body.ended:
            decoded = decoded._replace(problem=CUT_OFF, cut=True)
        origin = self._formats.find_origin(block.opener, block.kind)
        after_text = buffer.called and buffer.shown_chars > 0
        is_bare = block.kind in TAG_KINDS or any(map(body.text.__contains__, TOKEN_QUOTES))
        text = BlockText(raw, origin, block.explicit, is_bare, after_text, self._lead, self._is_mentioned)
        calls = self._classifier.classify(decoded, text)
        if not calls:
            return False
        self.doubt_closed_calls()
        if FENCE in buffer.text[buffer.start : self._after]:
            self.in_call_fence = False
        is_next_call = decoded.cut and buffer.bare_origin == origin
        if not is_next_call and any(isinstance(call, MalformedCall) for call in calls):
            buffer.doubt()  # what cannot be read may be the rest of the call before
        for call in calls:
            buffer.emit_call(call, raw, is_bare=is_bare)
            raw = ""
        self._index += len(calls)
        buffer.skip(self._after)
        if is_bare:
            buffer.follow_bare_values(decoded.closers, origin)
        return True

    def doubt_closed_calls(self) -> None:
        """Marks the calls so far if what follows them holds an end of values: one of theirs may go on there."""
        buffer = self._buffer
        if buffer.has_bare_values and self._formats.holds_closer(buffer.take_following(), buffer.bare_closers):
            buffer.doubt()

    def _give_back_data(self, body: str) -> bool:
        """Returns a long object to the text if no tool's name stands in its beginning; whether it did."""
        if not self.is_undecided or len(body) <= MAX_DATA_CHARS:
            return False
        if self._classifier.may_be_call(self._block.name, body[:MAX_DATA_CHARS]):
            return False
        self._is_rejected, self._after = True, self._buffer.start
        self._return_text(self._head + body, len(self._head) + MAX_DATA_CHARS)
        return True

    def _give_back(self) -> None:
        """Returns the block to the text, in which blocks are searched for while the budget lasts."""
        raw = self._join_raw()
        self._return_text(raw, len(raw))

    def _return_text(self, raw: str, size: int) -> None:
        """Returns `raw` to the text; in `size` characters of it blocks are searched for while the budget lasts."""
        buffer, block = self._buffer, self._block
        self.in_call_fence = False
        if self._at >= 0:
            buffer.start = self._at
        else:
            buffer.replace(raw + buffer.text[self._after :], self._before)
        is_fence = self._head.startswith(FENCE) and not buffer.in_fence
        if (is_fence or not block.explicit) and size <= self.rescan:
            self.rescan -= size
            buffer.in_fence = buffer.in_fence or is_fence
            buffer.pass_over(buffer.start + (len(FENCE) if is_fence else len(self._head) + 1))
        else:
            if is_fence:
                buffer.in_fence = raw.count(FENCE, 0, size) % 2 == 1
            buffer.pass_over(buffer.start + size)


def _find_arguments_line(reader: TagReader, body: str) -> int:
    """Where the arguments begin in the body, or their line, if blanks alone precede them on it."""
    at = max(0, reader.arguments_at)
    start = body.rfind("\n", 0, at) + 1
    if body[start:at].strip():
        return at
    return start


def _find_kind(block: BlockStart, follower: Follower) -> tuple[CertainKind, TagStyle | None]:
    """How the arguments are written, if they can be given while they are, and in which tags."""
    if isinstance(follower, TagReader):
        return ("tags", follower.style) if follower.style else ("named", None)
    if block.kind == "pythonic" or _LISTED_NAME.match("".join(follower.parts)):
        return "keywords", None
    kinds: dict[str, CertainKind] = {"json": "json", "named": "named"}
    return kinds.get(block.kind, ""), None
