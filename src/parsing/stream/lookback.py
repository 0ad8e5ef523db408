"""What stands before an anchor and belongs to the block: a tool's name, or `TOOL_CALL`.

`find_hold` is the same look backwards from the end of the text: what may yet belong to a block is held back. Names
hold dots and colons, and so does running text ("this integral.calculate {"): the whole word is tried first, then
what follows each of its dots and colons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from ..arguments.tool_index import NameIndex, normalize

_WORD = LazyPattern(r"(@?\*{0,3}`?)(?<!\w)([^\W\d][\w.\\/:$-]{0,80})([`*\"']{0,4}(?::\**)?)(\s{0,16})\Z")
_JOINT = LazyPattern(r"[.:/]+(?=[^\W\d])")
LOOK_BACK_CHARS = 160  # of a line that is read backwards
_MAX_GAP_CHARS, _MAX_WORD_CHARS = 16, 90
CHANNELS = ("assistantcommentary", "assistantanalysis", "assistant", "commentary", "analysis", "final")
_KEYWORDS = frozenset(  # besides names, without punctuation: the words that labels and markers consist of
    (*CHANNELS, "action", "tool", "name", "function", "toolname", "functionname", "functioncall", "toolcall",
     "toolcalls", "to", "functools")
)  # fmt: skip
_KEYWORD_PREFIXES = frozenset(word[:end] for word in _KEYWORDS for end in range(len(word) + 1))
_OWN_CHARS = 48  # more than `TOOL_CALL` and its decoration have
_APART = r"(?<![\w\\$-])"  # begins a word
_OWN_MARKER = LazyPattern(rf"{_APART}\*{{0,3}}TOOL[ _-]?CALLS?[*`]{{0,4}}\s{{0,16}}\Z", re.IGNORECASE)
_OWN_LAST_CHARS = frozenset("lLsS")
# A marker or a label of two words, or its beginning: `tool call`, `Function name:`, `commentary to`.
_PHRASE = LazyPattern(
    rf"{_APART}\*{{0,3}}`?(?:(?:tool|function)[ _-](?:n(?:a(?:me?)?)?|c(?:a(?:l(?:ls?)?)?)?)?[*`\"':\s]{{0,24}}"
    rf"|(?:{'|'.join(CHANNELS)})\s{{1,4}}t?o?)\Z",
    re.IGNORECASE,
)
_SECOND_WORD = frozenset("nNcCtT*`:\"'")  # what the second of those begins with, or what follows it
_FIRST_WORD_END = frozenset("lnystLNYST")
TO = rf"{_APART}(?:(?:assistant)?(?:commentary|analysis|final)\s{{0,4}}|assistant\s{{1,4}})?to="
_INNER = frozenset(".\\/:$-")  # of a word, but not at its beginning
_GLUE = frozenset("\\$-")  # before a name, they make it the end of another
_FIRST_WORDS = ("print(", "await", "return", "call:", "call")  # of the line of a call; so is `x =`
LINE_START = LazyPattern(  # before a call that begins its line
    rf"[\s\"'>*+\-#$`\d.)(\[\]]*(?:(?:\w+\s*=|{'|'.join(map(re.escape, _FIRST_WORDS))})\s*)?"
)
_AFTER_COLON = LazyPattern(r".*(?::|=|->|→|=>)\s*[`*\"'(\[]*\s*", re.DOTALL)
_WORD_ENDS = sorted({word[at:] for word in _FIRST_WORDS for at in range(1, len(word))}, key=len, reverse=True)
_LINE_START_END = LazyPattern(rf"\w*\s*=|(?:{'|'.join(map(re.escape, _WORD_ENDS))})(?:(?<!\w)|(?!\w))")


class Position(Struct, frozen=True):
    """An anchor at `at` in `text`.

    Nothing before `floor` can be part of a block. `line` is the anchor's line up to it. Nothing before `edge`, where
    the last block ended, is looked at.
    """

    text: str
    at: int
    floor: int
    line: str
    edge: int = 0


class PrecedingWord(Struct, frozen=True):
    """`start` is where its decoration begins, `begin` its name; `mark` and `gap` follow, `previous` precedes it."""

    start: int
    begin: int
    name: str
    mark: str
    gap: str
    previous: str


def starts_line(line: str, *, after_colon: bool = False) -> bool:
    """Whether a call behind this beginning of a line begins the line, or also follows a colon or an arrow in it."""
    return bool(LINE_START.fullmatch(line) or (after_colon and _AFTER_COLON.fullmatch(line)))


def ends_line_start(text: str, at: int) -> bool:
    """Whether `text`, which goes on with a line, first ends a word that may begin the line of a call at `at`."""
    match = _LINE_START_END.match(text)
    return match is not None and match.end() <= at and "\n" not in text[:at]


def begins_inside_word(text: str) -> bool:
    """Whether the only word of `text` begins as none does, so that it is the end of one."""
    return (text[0].isdigit() or text[0] in _INNER) and not any(map(str.isspace, text))


def iter_words(text: str, end: int, floor: int, edge: int = 0) -> Iterator[PrecedingWord]:
    """The word that ends at `end`, whole and then without its first parts, as far as it begins at `floor` or later.

    Nothing before `edge` is looked at.
    """
    gap_start = max(edge, end - _MAX_GAP_CHARS - 1)
    solid = gap_start + len(text[gap_start:end].rstrip())
    parts = text[max(edge, solid - _MAX_WORD_CHARS) : solid].rsplit(None, 1)
    match, base = search_back(_WORD, text, solid - len(parts[-1]), end, edge) if parts else (None, 0)
    if not match:
        return
    _, name, mark, gap = match.groups()
    begin = base + match.start(2)
    if begin >= floor:
        start = max(floor, base + match.start())
        yield PrecedingWord(start, begin, name, mark, gap, text[max(edge, start - 1) : start])
    for joint in _JOINT.finditer(name):
        at = begin + joint.end()
        if at >= floor:
            yield PrecedingWord(at, at, name[joint.end() :], mark, gap, text[at - 1])


def search_back(pattern: LazyPattern, text: str, low: int, end: int, edge: int) -> tuple[re.Match[str] | None, int]:
    """The match between `low` and `end`, and what its positions count from. The character before `low` decides, too."""
    base = max(edge, low - 1)
    return pattern.search(text[base:end], low - base), base


def is_word_char(character: str) -> bool:
    return character.isalnum() or character == "_"


def joins_word(character: str) -> bool:
    """Whether what follows the character is the end of another word."""
    return is_word_char(character) or (character != "" and character in _GLUE)


def find_hold(names: NameIndex, text: str, floor: int, edge: int = 0) -> int:
    """Where the end of `text` begins that may belong to a block still to come; its length if nothing may.

    Nothing before `floor` can; nothing before `edge` is looked at.
    """
    end = len(text)
    low = max(edge, end - LOOK_BACK_CHARS)
    space = text.rfind(" ", low) + 1 or low
    if not text[space:].strip():
        space = text.rfind(" ", low, low + len(text[low:].rstrip())) + 1 or low
    held = _count_held(names, text[space:])
    if space > low + 1 and text[space] in _SECOND_WORD and text[space - 2] in _FIRST_WORD_END:
        phrase = _PHRASE.search(text, max(low, end - _OWN_CHARS))
        return max(floor, min(end - held, phrase.start()) if phrase else end - held)
    return max(floor, end - held)


@lru_cache(maxsize=8192)
def _count_held(names: NameIndex, text: str) -> int:
    """The same for a word and the blanks behind it, as a number of characters."""
    word = text.rstrip()
    gap = len(text) - len(word)
    if not word or gap > _MAX_GAP_CHARS:
        return 0
    marks = 0 if gap else min(8, len(word) - len(word.rstrip("@>*`]")))
    last = _WORD.search(word[-_MAX_WORD_CHARS:])
    if last is None or word[-1] in "]@>":
        return marks
    name, mark = last[2], last[3]
    starts = [0, *(last.start(2) - last.start() + joint.end() for joint in _JOINT.finditer(name))]
    for start in starts:
        bare = last[0][start:].removesuffix(mark) if start else name
        if _may_begin(names, bare, is_whole=bool(gap or mark)):
            return max(marks, len(last[0]) - start + gap)
    return marks


def _may_begin(names: NameIndex, word: str, *, is_whole: bool) -> bool:
    """Whether a word, or the beginning of one, may belong to a block."""
    bare = word.rstrip(":")
    if is_whole or bare != word:
        is_word = names.names_tool(bare) or normalize(bare) in _KEYWORDS
        if is_word or is_whole:
            return is_word
    return names.is_name_prefix(bare) or normalize(bare) in _KEYWORD_PREFIXES


def find_preceding_name(names: NameIndex, position: Position) -> PrecedingWord | None:
    """The name of an offered tool before the anchor."""
    floor = max(position.floor, position.at - LOOK_BACK_CHARS)
    words = iter_words(position.text, position.at, floor, position.edge)
    for word in words:
        is_decorated = word.start < word.begin
        if (is_decorated or not is_word_char(word.previous)) and names.names_tool(word.name.rstrip(":")):
            return word if is_decorated or word.previous not in _GLUE else None
    return None


def find_own_marker(position: Position) -> int:
    """Where `TOOL_CALL` before the anchor begins; -1 if it does not stand there."""
    text, at = position.text, position.at
    low = max(position.floor, at - _OWN_CHARS)
    if text[low:at].rstrip("*` \t\r\n")[-1:] not in _OWN_LAST_CHARS:
        return -1
    match, base = search_back(_OWN_MARKER, text, low, at, position.edge)
    return base + match.start() if match else -1
