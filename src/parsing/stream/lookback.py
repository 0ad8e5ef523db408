"""What stands before an anchor and belongs to the block: a tool's name, or `TOOL_CALL`.

`find_hold` is the same look backwards from the end of the text: what may yet belong to a block is held back. Names
hold dots and colons, and so does running text ("this integral.calculate {"): the whole word is tried first, then
what follows each of its dots and colons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from ..arguments.tool_index import ToolIndex
from .buffer import BACKTICK_CONTEXT_CHARS, LOOK_BACK_CHARS

_WORD = re.compile(r"(@?\*{0,3}`?)(?<!\w)([^\W\d][\w.\\/:$-]{0,80})([`*\"']{0,4}(?::\**)?)(\s{0,16})\Z")
_JOINT = re.compile(r"[.:/]+(?=[^\W\d])")
_OWN_WORD = re.compile(r"tool|calls\Z", re.IGNORECASE)
CHANNELS = ("assistantcommentary", "assistantanalysis", "assistant", "commentary", "analysis", "final")
KEYWORDS = frozenset(
    (*CHANNELS, "action", "tool", "name", "function", "tool_name", "function_name", "tool name", "function name",
     "function call", "to", "functools", "call", "observation", "await", "return")
)  # fmt: skip
KEYWORD_PREFIXES = frozenset(word[:end] for word in KEYWORDS for end in range(len(word) + 1))
_LAST_CHARS = frozenset("_.\\/:$*`\"'@>=]-")  # besides letters and digits, of what may belong to a block
_MAX_GAP_CHARS, _MAX_WORD_CHARS = 16, 90
_LEADS = ("tool", *CHANNELS)  # words that make one marker with the word behind a blank
_FOLLOWERS = frozenset("cCtT")  # the word behind is `call` or `to`
_MAX_REMEMBERED, _MAX_REMEMBERED_CHARS = 4096, 40  # words, and of one
_OWN_PREFIX = re.compile(
    r"(?<!\w)\**T(?:O(?:O(?:L(?:[ _-]?(?:C(?:A(?:L(?:L(?:S?[:*`\s]{0,24})?)?)?)?)?)?)?)?)?\Z", re.IGNORECASE
)
_OWN_CHARS = 48  # more than `TOOL_CALL` and its decoration have
_OWN_MARKER = re.compile(r"(?<!\w)\**TOOL[ _-]?CALLS?[*`\s]{0,24}\Z", re.IGNORECASE)
_OWN_LAST_CHARS = frozenset("lLsS")
TO = r"(?<!\w)(?:(?:assistant)?(?:commentary|analysis|final)\s{0,4}|assistant\s{1,4})?to="
_CHANNEL_CHARS = 32  # more than that has
_CHANNEL_PREFIX = re.compile(r"(?<!\w)(?:" + "|".join(CHANNELS) + r")\s{1,4}t?o?\Z")
_HARMONY_PREFIX = re.compile(
    TO + r"[\w.:-]{0,80}(?:\s{0,4}(?:[a-z]{1,10}|<\|[a-z]{1,10}\|>)){0,6}\s{0,4}(?:<(?:\|[a-z]{0,10}\|?)?)?\Z"
)
_GLUE = frozenset("\\$-")  # before a name, they make it the end of another


class Position(NamedTuple):
    """An anchor at `at` in `text`.

    Nothing before `floor` can be part of a block; `before` is the character before the floor, if it was shown. `line`
    is the anchor's line up to it.
    """

    text: str
    at: int
    floor: int
    line: str
    before: str = ""


class PrecedingWord(NamedTuple):
    """`start` is where its decoration begins, `begin` its name; `mark` and `gap` follow, `previous` precedes it."""

    start: int
    begin: int
    name: str
    mark: str
    gap: str
    previous: str


def iter_words(text: str, end: int, floor: int, before: str = "") -> Iterator[PrecedingWord]:
    """The word that ends at `end`, whole and then without its first parts; `before` precedes `floor`."""
    match = _find_word(text, end, floor)
    if not match:
        return
    _, name, mark, gap = match.groups()
    start = match.start()
    yield PrecedingWord(start, match.start(2), name, mark, gap, text[start - 1] if start > floor else before)
    for joint in _JOINT.finditer(name):
        at = match.start(2) + joint.end()
        yield PrecedingWord(at, at, name[joint.end() :], mark, gap, text[at - 1])


def _find_word(text: str, end: int, floor: int) -> re.Match[str] | None:
    gap_start = max(floor, end - _MAX_GAP_CHARS - 1)
    solid = gap_start + len(text[gap_start:end].rstrip())
    parts = text[max(floor, solid - _MAX_WORD_CHARS) : solid].rsplit(None, 1)
    return _WORD.search(text, solid - len(parts[-1]), end) if parts else None


@lru_cache(maxsize=4096)  # answers repeat their words
def _is_plain_word(word: str) -> bool:
    return word.isascii() and (word.isalpha() or word.isdigit()) and not _OWN_WORD.match(word)


def is_word_char(character: str) -> bool:
    return character.isalnum() or character == "_"


def find_hold(tools: ToolIndex, text: str, floor: int) -> int:
    """Where the end of `text` begins that may belong to a block still to come; its length if nothing may."""
    start, end = max(floor, len(text) - LOOK_BACK_CHARS), len(text)
    is_lead = text.find("to=", start) >= 0
    if is_lead and (lead := _HARMONY_PREFIX.search(text, start)):
        return lead.start()
    solid = text[start:].rstrip()
    last = solid[-1:]
    if not (last.isalnum() or last in _LAST_CHARS) or not last:
        return end
    word = solid.rsplit(None, 1)[-1]
    if not is_lead and _is_plain_word(word) and not _may_begin(tools, word, is_whole=len(solid) < end - start):
        return end  # most pieces of an answer end so
    marks = max(floor, end - min(end - len(text.rstrip("@>*`]")), 8))
    if text.startswith("`", marks):
        marks = max(floor, marks - BACKTICK_CONTEXT_CHARS)
    if text[-1] in "]@>":
        return marks
    name = _find_name_start(tools, text, start, marks)
    own = _OWN_PREFIX.search(text, max(start, end - _OWN_CHARS))
    channel = None if is_lead else _CHANNEL_PREFIX.search(text, max(start, end - _CHANNEL_CHARS))
    return min(name, marks, *(match.start() for match in (own, channel) if match))


def _may_begin(tools: ToolIndex, word: str, *, is_whole: bool) -> bool:
    """Whether a word, or the beginning of one, may belong to a block."""
    if is_whole:
        return tools.names.names_tool(word) or word.casefold() in KEYWORDS
    return tools.names.is_name_prefix(word) or word.casefold() in KEYWORD_PREFIXES


def _find_name_start(tools: ToolIndex, text: str, floor: int, default: int) -> int:
    """Where the word that ends the text, or what follows one of its joints, may begin a block; `default` if nowhere."""
    word = _find_word(text, len(text), floor)
    if not word:
        return default
    name, start = word[2], word.start(2)
    bare = name.rstrip(":")
    is_whole = bool(word[3] or word[4] or bare != name)
    if _may_begin(tools, bare, is_whole=is_whole):
        return word.start()
    joints = (joint.end() for joint in _JOINT.finditer(name))
    return next((start + at for at in joints if _may_begin(tools, bare[at:], is_whole=is_whole)), default)


def find_preceding_name(tools: ToolIndex, position: Position) -> PrecedingWord | None:
    """The name of an offered tool before the anchor."""
    words = iter_words(position.text, position.at, max(position.floor, position.at - LOOK_BACK_CHARS), position.before)
    whole = (word for word in words if word.start < word.begin or not is_word_char(word.previous))
    word = next((word for word in whole if tools.names.names_tool(word.name.rstrip(":"))), None)
    return None if word and word.start == word.begin and word.previous in _GLUE else word


def find_own_marker(position: Position) -> re.Match[str] | None:
    """`TOOL_CALL` before the anchor."""
    if (
        position.text[max(position.floor, position.at - _OWN_CHARS) : position.at].rstrip("*` \t\r\n")[-1:]
        not in _OWN_LAST_CHARS
    ):
        return None
    own = _OWN_MARKER.search(position.text, max(position.floor, position.at - _OWN_CHARS), position.at)
    if own and own.start() == position.floor and is_word_char(position.before):  # it cannot begin here
        own = _OWN_MARKER.search(position.text, own.start() + 1, position.at)
    return own


class Skimmer:
    """Tells of a text without anchors how much of its end has to be held back: most pieces need no other work.

    That depends on the text's last word alone, with few exceptions, so it is remembered by that word.
    """

    def __init__(self, tools: ToolIndex, find_anchor: Callable[..., re.Match[str] | None]) -> None:
        self._tools = tools
        self._find_anchor = find_anchor
        self._holds: dict[str, int] = {}

    def count_held(self, text: str, get_context: Callable[[], str] = str) -> int:
        """How many characters at the end of `text` have to be held back; -1 if something may begin in it.

        `get_context` gives the end of the text that was shown before.
        """
        if not text or "to=" in text:
            return -1
        if found := self._find_anchor(text):
            if found.start() > 1 or found[0] != "`":
                return -1
            context = get_context()
            if self._find_anchor(context + text, len(context)):
                return -1
        space = (text.rfind(" ") if not text[-1].isspace() else text.rfind(" ", 0, len(text.rstrip()))) + 1
        word = text[space:]  # and the blanks behind it
        held = self._holds.get(word)
        if held is None:
            return self._count_slowly(text, word)
        if space > 1 and word[0] in _FOLLOWERS and text[:space].rstrip().casefold().endswith(_LEADS):
            return len(text) - find_hold(self._tools, text, 0)
        return held

    def _count_slowly(self, text: str, word: str) -> int:
        held = len(text) - find_hold(self._tools, text, 0)
        if len(word) <= _MAX_REMEMBERED_CHARS and held <= len(word):
            if len(self._holds) >= _MAX_REMEMBERED:
                self._holds.clear()
            self._holds[word] = held
        return held
