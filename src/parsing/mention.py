"""Whether a text is about a call, or is one: all that tells a mention, an example or a quotation from a call.

A block presented by the sentence before it, quoted, amid a sentence, in inline code or in a fence of code explains
calls; so does what merely looks like a call well after the calls. A marker of reasoning is mentioned amid a sentence.
Whether a call only repeats what the model was given is decided in echo.py.
"""

from __future__ import annotations

import re

from ..types.lazy_pattern import LazyPattern
from .stream.buffer import LEAD_CHARS
from .stream.lookback import LOOK_BACK_CHARS, Position, starts_line
from .stream.openers import BLANK, SPACE, NeedMore, Skip
from .stream.prefix_regex import PrefixMatcher, either, sequence, some

# What the text before a block says.
_SENTENCE_END = LazyPattern(r"[.!?](?=\s)|\n\s*\n")
_EXAMPLE = LazyPattern(  # of a sentence in lower case, which is searched faster
    r"\be\.g\.|\b(?:for (?:example|instance)|examples?(?: of\b|\s*[:,(])|like (?:this|so)|as follows|looks? like|usage|"
    r"never|(?:do not|don't))\b"
)
_QUOTES = frozenset("\"'`“‘")


def presents_call(lead: str) -> bool:
    """Whether the sentence that a block follows presents it as an example or forbids it, or a quote opens before it."""
    if lead[-1:] in _QUOTES and lead[:-1].strip():
        return True
    text = lead.rstrip(" \t\r\n`*_>-").removesuffix("json").rstrip(" \t\r\n`*_>-")
    if text.endswith((".", "!", "?")) and not text.endswith("e.g."):
        return False
    return _EXAMPLE.search(_SENTENCE_END.split(text)[-1].lower()) is not None


# Where the block stands. These rules change none of the recorded right calls.
_ROLE = LazyPattern(r"\W{0,4}(?:assistant|agent|model|bot|ai)\W{0,3}:", re.IGNORECASE)
_FENCE = LazyPattern(r"^[ \t]*(~{3,}|`{3,})[ \t]*(.?)", re.MULTILINE)
_JSON_START = LazyPattern(r"\s*(?:\{\s*\"|\[\s*[\[{\"])")
_OPEN_VALUE = LazyPattern(  # of a key, alone or in a list
    r"(?:\A|[{,(])\s{0,64}(?:\"[^\"\n]{1,64}\"|\w{1,64})\s?[:=]\s{0,8}"
    r"(?:\[\s{0,64}(?:\"(?:[^\"\\\n]|\\.)*\",\s{0,64})*)?\"(?:[^\"\\\n]|\\.)*\Z"
)
_SENTENCE_ENDS = frozenset(".!?>…。！？")
_LIST_ITEM = LazyPattern(r"[ \t]*(?:\d{1,3}[.)]|[-*+•])[ \t].*[^\W\d]")
# What behind a block shows that it stands in a sentence, whose rest is on the same line or the next one, or in a list.
_GAP = some(r"[^\S\n]", 0, 16)
_MARKS, _END = some(r"[&)\]*_'\"`“”’—–-]", 0, 8), some("[,;.!?…]", 1, 1)
_SAME_LINE = PrefixMatcher(sequence(_GAP, _MARKS, either(_END, sequence(_GAP, some(r"\w", 1, 1)))))
_NEXT_LINE = PrefixMatcher(sequence(SPACE, "\n", some("[a-z]", 1, 20), " ", some("[a-z]", 1, 1)))
_ITEM_MARK = either(sequence(some(r"\d", 1, 3), some("[.)]", 1, 1)), some("[-*+•]", 1, 1))
_NEXT_ITEM = PrefixMatcher(sequence(SPACE, "\n", BLANK, _ITEM_MARK, some(r"[ \t]", 1, 1)))


def stands_as_mention(lead: str) -> bool:
    """Whether the text before a block shows that it is quoted: a row of a table, a turn of a transcript, a fence of
    tildes or four backticks, or the JSON that the answer consists of.

    `lead`: its last LEAD_CHARS characters at most.
    """
    start = lead.rfind("\n") + 1
    line, above = lead[start:], lead[:start]
    if line.lstrip().startswith(("|", ">")) or (_ROLE.match(line) and above.strip()):
        return True
    if _is_in_quoting_fence(lead):
        return True
    is_open = lead.count("{") > lead.count("}") or lead.count("[") > lead.count("]")
    return len(lead) < LEAD_CHARS and is_open and bool(_JSON_START.match(lead))


def is_in_quoting_fence(lead: str) -> bool:
    """Whether a block stands in a fence of tildes or of four backticks, all of which precedes it: there it is text."""
    return len(lead) < LEAD_CHARS and _is_in_quoting_fence(lead)


def _is_in_quoting_fence(lead: str) -> bool:
    """Whether a fence is open that may hold fences of three backticks. As many marks end a fence, or more."""
    fence = ""
    for marks, info in _FENCE.findall(lead):
        if not fence:
            fence = marks
        elif marks.startswith(fence) and not info:
            fence = ""
    return fence[3:] != "" or fence[:1] == "~"


def is_inside_string(lead: str) -> bool:
    """Whether a block stands in the string that is the value of a key, where it is data."""
    return _OPEN_VALUE.search(lead) is not None


def may_stand_amid_text(lead: str) -> bool:
    """Whether what follows a block decides: the text before it ends no sentence, or it is in a list."""
    return bool(_list_continuations(lead))


def goes_on(lead: str, text: str, at: int, *, is_bare: bool, final: bool) -> bool | None:
    """Whether the sentence, or the list, goes on behind a block that ends at `at`; None if that needs more text.

    `is_bare`: it merely looks like a call. It may be the subject of its sentence.
    """
    continuations = _list_continuations(lead)
    if is_bare:
        continuations.append(_NEXT_LINE)
    if any(matcher.match(text, at) for matcher in continuations):
        return True
    may_go_on = not final and any(matcher.is_prefix(text, at) for matcher in continuations)
    return None if may_go_on else False


def _list_continuations(lead: str) -> list[PrefixMatcher]:
    """What behind a block would go on with what the text before it began."""
    above, _, line = lead.rpartition("\n")
    continuations: list[PrefixMatcher] = []
    if _LIST_ITEM.match(line):
        continuations.append(_NEXT_ITEM)
    words = line.rstrip(" \t*_`\"'([")
    if any(map(str.isalpha, words)) and words[-1] not in _SENTENCE_ENDS:
        continuations.append(_SAME_LINE)
    elif not words and above.rstrip(" \t\r\n*_`\"'([")[-1:].isalnum():
        continuations.append(_NEXT_LINE)
    return continuations


# Where the block stands.
_CODE_END = LazyPattern(r"[^`\n]{1,400}`")
_CODE_END_PREFIX = LazyPattern(r"[^`\n]{0,400}\Z")


def find_code(position: Position, start: int, *, final: bool) -> Skip | NeedMore | None:
    """The rest of the inline code amid a line that a block stands in, which begins at `start`, at or before the anchor.

    Inline code quotes. A backtick without an end quotes nothing.
    """
    text, line, size = position.text, position.line, position.at - start
    before = line[: len(line) - size]
    is_behind_backtick = before[-1:] == "`"
    quote = line.rfind("`", 0, len(before)) if is_behind_backtick else line.rfind("`")
    if quote < 0 or "\n" in text[start : position.at] or starts_line(line[:quote]):
        return None
    if not is_behind_backtick and (len(line) >= LOOK_BACK_CHARS or line.count("`") % 2 == 0):
        return None
    if end := _CODE_END.match(text, position.at):
        return Skip(end.end() - 1)  # the backtick may begin a fence
    return NeedMore(start) if not final and _CODE_END_PREFIX.match(text, position.at) else None


# Whether a marker of reasoning is only mentioned.
SENTENCE_CHARS = 3  # behind a marker that decide
_REST_OF_SENTENCE = LazyPattern(r"[,.;:!?)]|[ \t]{1,2}[a-z(]")
_BEFORE_MENTION = frozenset(" \t(")
_OPENING_QUOTES = frozenset("'“‘«")


def is_marker_mentioned(line: str, following: str, *, final: bool) -> bool | None:
    """Whether the marker between the two is only mentioned; None if that needs more text.

    It is in backticks, in quotes, or amid a sentence that goes on in lower case.
    """
    if line.count("`") % 2:
        return True
    is_quoted = line.count('"') % 2 == 1 or line[-1:] in _OPENING_QUOTES
    if not is_quoted:
        if line[-1:] not in _BEFORE_MENTION:
            return False
        if _REST_OF_SENTENCE.match(following):
            return True
    if not final and len(following) < SENTENCE_CHARS and not following.strip(" \t"):
        return None
    return is_quoted and following[:1] not in ("", "\r", "\n")
