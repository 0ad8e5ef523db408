"""A block from its beginning to its events: followed to its end, closed, decoded once, classified.

A value that is complete already is parsed at once. A block that turns out to be no call is given back as text. Blocks
are searched for inside it only within a fixed budget of characters, so that the whole stays linear.
"""

from __future__ import annotations

import re
from typing import Literal, Union

from msgspec.structs import replace

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
from .buffer import LEAD_CHARS, GivenBack, skip_whitespace
from .openers import OWN, BlockStart
from .prefix_regex import PrefixMatcher
from .writer import EventWriter

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
Taken = Union[int, GivenBack]  # up to where text was taken, or the text of a block without a call


class BlockReader:
    """Reads one block after the other; `previews` emits calls while they are written.

    It is fed the parser's text and where to begin in it, and keeps of that what it takes. `eager`: a call is emitted
    before what may still close its block; those markers then follow as Cut. `follower` finds the end of the block that
    is being read; it is None between blocks.
    """

    def __init__(
        self,
        writer: EventWriter,
        classifier: CallClassifier,
        *,
        previews: bool,
        eager: bool = False,
        formats: FormatSet = FORMAT_SET,
    ) -> None:
        self._writer = writer
        self._formats = formats
        self._classifier = classifier
        self._previews = previews
        self._eager = eager
        self.follower: Follower | None = None
        self.in_call_fence = False  # the block began with a fence that is still open
        self.rescan = MAX_RESCAN_CHARS  # characters left
        self._block = _NO_BLOCK
        self._before = ""  # the text before the block, CONTEXT_CHARS at most
        self._in_fence = False  # of code, behind other text
        self._head = ""  # the text from the start of the block to its body
        self._body = _NO_BODY
        self._decoded: DecodedBlock | None = None  # of a block of tags, which are read while it is followed
        self._closer_chars = 0  # behind the body, of the markers that close the block so far
        self._is_mentioned = False  # as where it stands shows
        self._is_emitted = False  # as calls, while what closes it may still come
        self.is_undecided = False  # the block may be mere data, which its first characters decide
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

    def begin(self, block: BlockStart, text: str, before: str, *, in_fence: bool) -> Taken:
        """Follows the block's body in `text`; without a follower behind that, its end is there."""
        body = block.body
        self._block, self._before, self._head = block, before, text[block.start : body]
        self._in_fence = self._is_mentioned = in_fence
        self._previewed, self._is_emitted, self._decoded = None, False, None
        self._ahead = 0
        is_value = block.kind in ("json", "named") or (block.kind == "pythonic" and not block.name)
        self.is_undecided = is_value and not block.explicit
        if text[body] in "{[" and (taken := self._read_strictly(text, body)):
            return taken
        self.follower = self._make_follower(block, text[body])
        taken = body
        if self.is_undecided:  # only its beginning is followed, until that shows that it may be a call
            size, ended = self.follower.feed(text[body : body + MAX_DATA_CHARS + 1], 0)
            taken = self._follow(self.follower, text, body, body + size, ended)
        if self.follower and isinstance(taken, int):
            taken = self.feed(text, taken)
        return taken

    def _read_strictly(self, text: str, body: int) -> Taken | None:
        """Takes a value that is complete and strict JSON; None if there is none."""
        try:
            node, length = parse_strict(text[body : body + MAX_STRICT_CHARS])
        except (ValueError, RecursionError):
            return None
        end = body + length
        self._settle(BlockBody(text[body:end], True, node))
        return self._give_back_data(self._body.text, end) or end

    def _make_follower(self, block: BlockStart, first: str) -> Follower:
        """What finds the end of the block, whose body begins with the character `first`."""
        if block.kind in TAG_KINDS:
            return self._formats.make_tag_reader(block.kind, block.opener, self._classifier.rank_parameter)
        if block.kind == "named" and first == '"':
            return UntilMarker(STRING_END, MAX_STRING_END_CHARS)
        if block.kind in ("labels", "text"):
            return UntilMarker(re.compile(re.escape(block.closer or "\n")), MAX_MARKER_CHARS)
        is_open = block.kind == "attributes" and first != "["  # only a marker ends it
        return BracketMatcher(int(is_open))

    def feed(self, text: str, start: int) -> Taken:
        """Follows the block in `text` from `start` on."""
        follower = self.follower
        assert follower  # noqa: S101 - the parser's state says so
        end, ended = follower.feed(text, start)
        return self._follow(follower, text, start, end, ended)

    def _follow(self, follower: Follower, text: str, start: int, end: int, ended: bool) -> Taken:
        """Takes the text up to `end`, where the follower stopped; there is none behind the block's end."""
        if ended:
            return self._end(follower, end)
        if follower.size > MAX_BLOCK_CHARS:
            self.follower = None
            block, body = self._block, "".join(follower.parts)
            raw, rest = self._head + body[:MAX_BLOCK_CHARS], body[MAX_BLOCK_CHARS:]
            origin = self._formats.find_origin(block.opener, block.kind)
            self._writer.emit(Malformed(self._classifier.reject_long(block.name, raw, origin, MAX_BLOCK_CHARS), raw))
            return GivenBack(rest, "", end, 0, self._in_fence)
        if self.is_undecided:
            if given_back := self._give_back_data("".join(follower.parts), end):
                self.follower = None
                return given_back
            self.is_undecided = follower.size <= MAX_DATA_CHARS
        if self._previews:
            self._preview(follower, text, start, end)
        return end

    def _end(self, follower: Follower, end: int) -> Taken:
        """The block ends at `end`."""
        self.follower = None
        text = "".join(follower.parts)
        if isinstance(follower, TagReader):
            self._decoded, _ = follower.read(text)
        self._settle(BlockBody(text, True))
        return self._give_back_data(text, end) or end

    @property
    def _lead(self) -> str:
        return self._before[-LEAD_CHARS:]

    def _preview(self, follower: Follower, text: str, start: int, end: int) -> None:
        """Emits the call being written: its name once it is known, then its text as it comes."""
        previewed = start + self._ahead
        reached = max(previewed, end)
        if isinstance(follower, TagReader) and follower.is_inside:
            reached = len(text)  # what it holds back within a value is in the block, whatever it becomes
        self._ahead = reached - end
        piece = text[previewed:reached]
        if self._previewed is None:
            piece = self._preview_name(follower, text[end:reached])
        for event in self._make_preview(piece):
            self._writer.emit(event)

    def _make_preview(self, text: str) -> list[ParserEvent]:
        if not text or not self._previewed:
            return []
        return [ToolCallDelta(self._index, None, None, text)]

    def preview_ahead(self, text: str) -> list[ParserEvent]:
        """The preview of a piece that certainly belongs to the block, before the follower gets it."""
        self._ahead += len(text)
        return self._make_preview(text)

    def _preview_name(self, follower: Follower, ahead: str) -> str:
        """Emits the name if it is known; returns the text so far: all, or of tags that of the arguments.

        `ahead` is what the follower has not passed.
        """
        block, classifier, body = self._block, self._classifier, "".join(follower.parts)
        if isinstance(follower, TagReader):
            body += ahead
            at = follower.arguments_at
            written, text, line = follower.written_name, body[at:], body[:at].rpartition("\n")[2]
            if not line.strip():
                text = line + text
        else:
            written, text = block.name or self._find_name(body[:_HEAD_CHARS]), body
        name = classifier.resolve_name(written)
        if not name:
            if len(body) > _HEAD_CHARS:
                self._previewed = ""
            return ""
        self._previewed = name
        may_be_certain = block.explicit and not (self._is_mentioned or self._is_fenced_among_text)
        self.certain_kind, self.certain_style = "", None
        if may_be_certain and classifier.is_certain(written, self._lead):
            self.certain_kind, self.certain_style = _find_kind(block, follower)
        self._writer.emit(ToolCallDelta(self._index, classifier.reserve_id(), name, ""))
        return text

    def _find_name(self, body: str) -> str:
        """The name of the first call in the beginning of a block; empty if it is not there."""
        if listed := _LISTED_NAME.match(body):
            return listed[1]
        match = _KEY_NAME.match(body)
        if not match or not self._classifier.is_known(match[1]):
            match = _NAME.search(self._head + body)
        return match[1] if match else ""

    def _settle(self, body: BlockBody) -> None:
        """The block's body is there; what closes the block may follow."""
        self._body, self._closer_chars = body, 0

    def end_early(self, rest: str) -> str:
        """The text ended inside the block, with `rest`: reads it up to there, or to where it was probably meant to end.

        Returns the text behind it.
        """
        follower, block = self.follower, self._block
        assert follower  # noqa: S101 - the parser's state says so
        self.follower = None
        if isinstance(follower, TagReader):
            return self._end_tags_early(follower, rest)
        text = "".join(follower.parts) + rest
        end = LIKELY_END.search(text) if isinstance(follower, BracketMatcher) else None
        if end and len(text) - end.start() <= self.rescan:
            part = BlockBody(text[: end.start()], end.group().strip()[:2] in ("</", "<|", "``"))
            if not decode(block, part, self._classifier.is_known).problem:
                self.rescan -= len(text) - end.start()
                self._settle(part)
                return text[end.start() :]
        self._settle(BlockBody(text, False))
        return ""

    def _end_tags_early(self, reader: TagReader, rest: str) -> str:
        """The cheapest reading of a block of tags ends it."""
        end, _ = reader.feed(rest, 0, final=True)
        text = "".join(reader.parts) + rest[end:]
        self._decoded, end = reader.read(text)
        if self._decoded.cut or len(text) - end > self.rescan:
            self._settle(BlockBody(text, False))
            return ""
        self.rescan -= len(text) - end
        self._settle(BlockBody(text[:end], True))
        return text[end:]

    def finish(self, text: str, start: int, final: bool, *, truncated: bool) -> Taken | None:
        """Takes what closes the block, and emits it; None if that needs more text. `start`: where the body ended."""
        if self._block.must_end_line and not self._closer_chars and not LINE_END.match(text, start):
            if not LINE_END.is_prefix(text, start):
                return self._give_back("", start)
            if not final:
                return None
        if not self._take_closers(text, start, final):
            return None
        end = start + self._closer_chars
        closers = text[start:end]
        if self._is_emitted:
            self._writer.emit(Cut(closers))
            return end
        is_mentioned = self._find_mention(text, end, final)
        if is_mentioned is None:
            return None
        self._is_mentioned = is_mentioned
        if self._emit_calls(closers, truncated):
            return end
        return self._give_back(closers, end)

    def emit_early(self, text: str, start: int) -> int | None:
        """Emits the block's calls if it is one, whatever markers may yet close it; returns where it ends so far."""
        end = start + self._closer_chars
        if self._is_emitted or not (self._eager and self._block.explicit and self._body.ended and end == len(text)):
            return None
        if may_stand_amid_text(self._lead) or self._is_fenced_among_text:
            return None
        self._is_emitted = self._emit_calls(text[start:end], truncated=False)
        if not self._is_emitted:
            return None
        self._closer_chars = 0
        return end

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

    def _find_mention(self, text: str, end: int, final: bool) -> bool | None:
        """Whether the block is quoted, as what follows it from `end` on may show; None if that needs more text."""
        if self._is_mentioned:
            return True
        if self._is_fenced_among_text:
            is_last = skip_whitespace(text, end) == len(text)
            return None if is_last and not final else not is_last
        is_bare = not self._block.explicit and self._block.kind != "pythonic"
        return goes_on(self._lead, text, end, is_bare=is_bare, final=final)

    def _take_closers(self, text: str, start: int, final: bool) -> bool:
        """Passes the markers that close the block; False if that needs more text."""
        taken = True
        while taken and not (final and start + self._closer_chars == len(text)):
            is_closer = self._take_closer(text, start, final)
            if is_closer is None:
                return False
            taken = is_closer
        return True

    def _take_closer(self, text: str, start: int, final: bool) -> bool | None:
        """Whether one more closing marker was there; None if that needs more text."""
        at = start + self._closer_chars
        begins_next = self._begins_next(text, at, final)
        if begins_next is not False:
            return False if begins_next else None
        for matcher in self._list_closers(text[start:at]):
            if match := matcher.match(text, at):
                if matcher is FENCE_END and match.end() == len(text) and not final:
                    return None  # a fence may be longer
                self._closer_chars = match.end() - start
                return True
            if not final and matcher.is_prefix(text, at):
                return None
        return False

    def _begins_next(self, text: str, at: int, final: bool) -> bool | None:
        """Whether the next block's marker follows, which begins as this one closes; None if that needs more text."""
        opener, start = self._formats.extended_closer, skip_whitespace(text, at)
        if opener is None or start == len(text):
            return False
        if opener.match(text, start):
            return True
        return None if not final and opener.is_prefix(text, start) else False

    def _list_closers(self, closers: str) -> list[PrefixMatcher]:
        matchers = [self._formats.closing_marker]
        if own := self._formats.find_own_closer(self._block.opener):
            matchers.append(own)
        if "`" in self._head or self.in_call_fence:
            self.in_call_fence = True
            if "`" not in self._body.text[-len(FENCE) :] + closers:  # the next fence opens
                matchers.append(FENCE_END)
        if not self._block.explicit or self._block.kind == "pythonic":
            matchers.append(SEPARATOR)
        elif self._block.kind in ("json", "named"):
            matchers += [SURPLUS_BRACES, OBJECT_SEPARATOR]
        return matchers

    def _emit_calls(self, closers: str, truncated: bool) -> bool:
        """Emits the block's calls; False if it is text."""
        block, body, writer = self._block, self._body, self._writer
        raw = self._head + body.text + closers
        decoded = self._decoded or decode(block, body, self._classifier.is_known)
        if truncated and not body.ended:
            decoded = replace(decoded, problem=CUT_OFF, cut=True)
        origin = self._formats.find_origin(block.opener, block.kind)
        after_text = writer.called and writer.shown_chars > 0
        is_bare = block.kind in TAG_KINDS or any(map(body.text.__contains__, TOKEN_QUOTES))
        text = BlockText(raw, origin, block.explicit, is_bare, after_text, self._lead, self._is_mentioned)
        calls = self._classifier.classify(decoded, text)
        if not calls:
            return False
        writer.doubt_closed_calls()
        if FENCE in closers:
            self.in_call_fence = False
        is_next_call = decoded.cut and writer.bare_origin == origin
        if not is_next_call and any(isinstance(call, MalformedCall) for call in calls):
            writer.doubt()  # what cannot be read may be the rest of the call before
        for call in calls:
            writer.emit_call(call, raw, is_bare=is_bare)
            raw = ""
        self._index += len(calls)
        if is_bare:
            writer.follow_bare_values(decoded.closers, origin)
        return True

    def _give_back_data(self, body: str, end: int) -> GivenBack | None:
        """Returns a long object to the text if no tool's name stands in its beginning."""
        if not self.is_undecided or len(body) <= MAX_DATA_CHARS:
            return None
        if self._classifier.may_be_call(self._block.name, body[:MAX_DATA_CHARS]):
            return None
        return self._return_text(self._head + body, len(self._head) + MAX_DATA_CHARS, end)

    def _give_back(self, closers: str, end: int) -> GivenBack:
        """Returns the block to the text, in which blocks are searched for while the budget lasts."""
        raw = self._head + self._body.text + closers
        return self._return_text(raw, len(raw), end)

    def _return_text(self, raw: str, size: int, end: int) -> GivenBack:
        """Returns `raw` to the text; in `size` characters of it blocks are searched for while the budget lasts."""
        in_fence = self._in_fence
        self.in_call_fence = False
        is_fence = self._head.startswith(FENCE) and not in_fence
        if (is_fence or not self._block.explicit) and size <= self.rescan:
            self.rescan -= size
            searched = len(FENCE) if is_fence else len(self._head) + 1
            return GivenBack(raw, self._before, end, searched, in_fence or is_fence)
        if is_fence:
            in_fence = raw.count(FENCE, 0, size) % 2 == 1
        return GivenBack(raw, self._before, end, size, in_fence)


def _find_kind(block: BlockStart, follower: Follower) -> tuple[CertainKind, TagStyle | None]:
    """How the arguments are written, if they can be given while they are, and in which tags."""
    if isinstance(follower, TagReader):
        return ("tags", follower.style) if follower.style else ("named", None)
    if block.kind == "pythonic" or _LISTED_NAME.match("".join(follower.parts)):
        return "keywords", None
    kinds: dict[str, CertainKind] = {"json": "json", "named": "named"}
    return kinds.get(block.kind, ""), None
