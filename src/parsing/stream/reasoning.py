"""Reasoning inside the text, and the envelope of the answer: their markers are cut, calls in reasoning do not count.

A closing marker that no opening one preceded makes the text before it reasoning, once and before any call: the chat
template wrote the opening one. One more does so where reasoning was opened within reasoning. After a call it only makes
the calls before it doubtful. A marker in quotes, in code, or in the middle of a sentence is text. Where nothing is
answered after reasoning, the complete calls at its end count.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from ...types.events import ReasoningDelta
from ...types.lazy_pattern import LazyPattern
from ..events import Cut, Doubted, Reasoned
from ..formats.envelopes import ENVELOPES, REASONING
from ..mention import SENTENCE_CHARS, is_marker_mentioned
from .buffer import CONTEXT_CHARS, skip_whitespace
from .lookback import TO, Position
from .openers import SPACE, NeedMore, Skip, await_match
from .prefix_regex import PrefixMatcher, any_of_caseless, group, maybe, sequence, some
from .writer import EventWriter

_Role = Literal["opens", "closes", "surrounds", "shows", "wraps", "ends", "discards"]


def _list_roles() -> dict[str, tuple[_Role, str]]:
    """For each marker, in lower case, its role and what closes the reasoning, or the answer, that it opens."""
    roles: dict[str, tuple[_Role, str]] = {
        marker.casefold(): (row.place, row.markers[1] if row.place == "wraps" else "")
        for row in ENVELOPES
        for marker in row.markers
    }
    roles.update({row.markers[1]: ("ends", row.markers[1]) for row in ENVELOPES if row.place == "wraps"})
    for pair in REASONING:
        roles[pair.opener.casefold()] = "opens", pair.closer
        if pair.ends_only_reasoning:
            roles[pair.closer.casefold()] = "closes", pair.closer
    return roles


_ROLES = _list_roles()
# The beginnings of longer markers: one of those stands next to it in order.
_EXTENDABLE = frozenset(marker for marker, longer in pairwise(sorted(_ROLES)) if longer.startswith(marker))
MARKER = PrefixMatcher(lambda: any_of_caseless(_ROLES), re.IGNORECASE)
CALL_HEADER = PrefixMatcher(
    sequence(
        group("header", maybe("<|start|>assistant "), "to=", some(r"[\w.:-]", 1, 80), "<|message|>"), SPACE, "<atem:"
    )
)
_OPENERS = {pair.closer: pair.opener for pair in reversed(REASONING)}
_RECIPIENT = LazyPattern(TO + r"[\w.:*`-]{1,80}\s{0,4}\Z")
MAX_CUT_CHARS = 8192  # of markers in one answer; those behind them are text
_SENTENCE_ENDS = frozenset(".!?…。")


class Marker(Struct, frozen=True):
    at: int
    end: int
    role: _Role
    closer: str  # what closes the reasoning that it opens or closes


class ReasoningReader:
    """Reads reasoning out of the text. `closer`: the answer begins with reasoning, up to this marker."""

    def __init__(self, writer: EventWriter, closer: str = "") -> None:
        self._writer = writer
        self._closer = closer
        self.is_assumed = bool(closer)  # whether what is read is reasoning only because `closer` was given
        self._opener = _OPENERS.get(closer, "")  # that may stand first, though the chat template wrote it
        self._parts: list[str] = []
        self._shown: set[str] = set()  # closers of opening markers that were text
        self._passed = bool(closer)  # a marker of reasoning
        self._nested_ends = 0  # closers of reasoning that was opened within reasoning
        self._wrapper = ""  # what closes the answer
        self.is_for_user = False  # behind a marker of text for the user
        self._cut_chars = MAX_CUT_CHARS  # that are left

    @property
    def text(self) -> str:
        """All reasoning between markers so far."""
        return "".join(self._parts)

    def find_marker(self, position: Position, *, final: bool) -> Marker | NeedMore | Skip | None:
        """The marker at the position; Skip if it is text."""
        text, at = position.text, position.at
        match = MARKER.match(text, at)
        if not match:
            return _find_call_header(text, at, final=final)
        end, marker = match.end(), match[0].casefold()
        if not final and marker in _EXTENDABLE and MARKER.is_prefix(text, at):
            return NeedMore(at)
        role, closer = _ROLES[marker]
        if role == "closes" and self._is_behind(position):
            role = "surrounds"  # reasoning ends twice
            is_text: bool | None = False
        else:
            is_text = self._is_text(match, role, closer, position, final=final)
        if is_text is None:
            return NeedMore(at)
        if is_text or self._cut_chars <= 0:
            return Skip(end)
        if role == "surrounds":
            end = _find_last(text, at, end, self._cut_chars)
        return Marker(at, end, role, closer)

    def _is_text(
        self, match: re.Match[str], role: _Role, closer: str, position: Position, *, final: bool
    ) -> bool | None:
        """Whether the marker is only text; None if that needs more text. Notes an opening marker that is."""
        text, line = position.text, position.line
        if role == "ends":
            return self._ends_nothing(match, closer, position, final=final)
        if role == "wraps":
            return bool(self._wrapper) or not self._is_behind(position)
        if role == "opens":  # amid a sentence it is text, and its closer may be text, too
            is_text = bool(line.strip()) and line[-1] not in _SENTENCE_ENDS
            if is_text:
                self._shown.add(closer)
            return is_text
        if role == "closes" and self._closes_nothing(closer):
            return True
        if role in ("surrounds", "shows") and _RECIPIENT.search(line):
            return True  # what follows is a call, which the detector reads
        return is_marker_mentioned(line, text[match.end() : match.end() + SENTENCE_CHARS], final=final)

    def _closes_nothing(self, closer: str) -> bool:
        """Whether a closing marker belongs to an opening one that was text, or comes again."""
        if self._is_nested(closer) or not (self._passed or closer in self._shown):
            return False
        self._shown.discard(closer)
        return True

    def _is_nested(self, closer: str) -> bool:
        """Whether the reasoning that was read opened itself once more than closers followed."""
        opener = _OPENERS.get(closer, "")
        return bool(opener) and self.text.count(opener) > self._nested_ends

    def _ends_nothing(self, match: re.Match[str], closer: str, position: Position, *, final: bool) -> bool | None:
        """Whether a marker that counts at the end of an answer is text: other text follows, or it closes an element."""
        if skip_whitespace(match.string, match.end()) < len(match.string):
            return True
        marker = match[0].casefold()
        lead = match.string[max(position.edge, position.at - CONTEXT_CHARS) : position.at].casefold()
        is_text = marker[1] == "/" and "<" + marker[2:] in lead
        if closer:
            is_text = closer != self._wrapper
        if is_text:
            return True
        return False if final else None

    def _is_behind(self, position: Position) -> bool:
        """Whether the text at the position is the first behind reasoning."""
        is_first = skip_whitespace(position.text, position.floor) == position.at
        return self._passed and not self._writer.answered and is_first

    def pass_marker(self, marker: Marker, raw: str) -> bool:
        """Emits the marker, whose text is `raw`; whether reasoning follows."""
        writer = self._writer
        self._cut_chars -= len(raw)
        self._passed = self._passed or marker.role in ("opens", "closes")
        if marker.role == "wraps":
            self._wrapper = marker.closer
        self.is_for_user = marker.role == "shows"
        self._nested_ends += marker.role == "closes" and self._is_nested(marker.closer)
        if marker.role == "closes" and not writer.called:
            writer.emit(Reasoned(raw, marker.closer))
            writer.reset()
        else:
            writer.emit(Doubted(raw) if marker.role == "closes" else Cut(raw))
        if marker.role != "opens":
            return False
        writer.doubt()  # the marker may stand in a value of the call before
        self._closer, self._opener = marker.closer, ""
        return True

    def read(self, text: str, start: int, final: bool) -> tuple[int, bool]:
        """Emits the reasoning from `start` on; where what was read ends, and whether its closing marker was there."""
        begin = self._skip_opener(text, start, final)
        if begin is None:
            return start, False
        closer = self._closer
        end = stop = text.find(closer, begin)
        if end < 0:
            stop = len(text)
        if end < 0 and not final:
            stop -= count_overlap(text, closer, begin)
        if stop > begin:
            self._parts.append(text[begin:stop])
            self._writer.emit(ReasoningDelta(self._parts[-1]))
        if end < 0:
            return stop, False
        self._writer.emit(Cut(closer))
        self._cut_chars -= len(closer)
        self.is_assumed = False
        return end + len(closer), True

    def _skip_opener(self, text: str, start: int, final: bool) -> int | None:
        """Cuts the opening marker if the text begins with it; where the text goes on, None if that needs more text."""
        opener = self._opener
        if not opener:
            return start
        begin = text[start:].lstrip()[: len(opener)]
        if len(begin) < len(opener) and opener.startswith(begin) and not final:
            return None
        self._opener = ""
        if begin != opener:
            return start
        end = text.index(opener, start) + len(opener)
        self._writer.emit(Cut(text[start:end]))
        self.is_assumed = False
        return end


def _find_call_header(text: str, at: int, *, final: bool) -> Marker | NeedMore | None:
    """The header that Muse writes before the tags of a call."""
    if header := CALL_HEADER.match(text, at):
        return Marker(at, header.end("header"), "surrounds", "")
    if final:
        return None
    return await_match(MARKER, text, at, at) or await_match(CALL_HEADER, text, at, at)


def _find_last(text: str, at: int, end: int, most: int) -> int:
    """Where the last of the same markers in a row begins, whose surroundings decide on it; `end` if there is one.

    No further than behind the marker in which the first `most` characters end.
    """
    marker = text[at:end]
    if not text.startswith(marker, end):
        return end
    run = re.compile(f"(?:{re.escape(marker)})+").match(text, at)
    return min(run.end() - len(marker), at - -most // len(marker) * len(marker)) if run else end


def count_overlap(text: str, marker: str, start: int) -> int:
    """How many characters at the end of `text`, from `start` on, may begin `marker`."""
    for length in range(min(len(marker) - 1, len(text) - start), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0
