"""Whether a text is about a call, or is one: all that tells a mention, an example or a quotation from a call.

A block presented by the sentence before it, quoted, in inline code or in a fence of code explains calls; so does one
with placeholders, and what merely looks like a call well after the calls. A marker of reasoning is mentioned amid a
sentence. Whether a call only repeats what the model was given is decided in echo.py.
"""

from __future__ import annotations

import itertools
import re

from ..types.lazy_pattern import LazyPattern
from .arguments.tool_index import IndexedTool, ToolIndex
from .decode.call_shapes import RawCall
from .decode.nodes import Node
from .stream.buffer import LEAD_CHARS, LOOK_BACK_CHARS, MAX_SHOWN_CHARS, StreamBuffer
from .stream.lookback import Position, starts_line
from .stream.openers import BlockStart, NeedMore, Skip

# What the text before a block says.
_SENTENCE_END = LazyPattern(r"[.!?](?=\s)|\n\s*\n")
# Of a sentence in lower case, which is searched faster.
_EXAMPLE = LazyPattern(
    r"\be\.g\.|\b(?:for (?:example|instance)|such as|like (?:this|so|these)|as follows|looks? like|usage|syntax|how to|"
    r"examples?\s*(?:calls?|usage|commands?)?\s*[:,(]|used? (?:it|as|like)|to (?:call|use|invoke) (?:it|this|the tool)|"
    r"(?:would|could|can|might|may|should) (?:be|then|also|now|just|simply)|"
    r"(?:you|one|they|users?) (?:can|could|may|might|would|should|must|need to)|"
    r"instead of|never|avoid|(?:do not|don't) (?:run|call|use|write|do))\b"
)
_QUOTATION = LazyPattern(
    r"\b(?:says?|said|reads|contain(?:s|ed)?|includes?|shows?|has|had|holds?|states?|wrote|quotes?|quoted|mentions?|"
    r"defines?|lists?|line \d+|comments?|docstrings?|readme|documentation|docs|instructions?|asks?|suggests?|"
    r"recommends?)\b"
)
_INTENTION = LazyPattern(  # "Okay, now let me look at what the file says"
    r"\s*(?:[*#>-]+\s*)?(?:(?:ok(?:ay)?|sure|now|first|next|then|so|and)\b\W*)*(?:(?:i|let|we)\b|i['’]|we['’])"
)
_QUOTES = frozenset("\"'`“‘")


def presents_call(lead: str) -> bool:
    """Whether the text before a block presents it as an example or as a quotation."""
    return is_presentation(lead) or is_quoted(lead)


def is_presentation(lead: str) -> bool:
    """Whether the sentence that a call follows presents it as an example, or as a quotation.

    A sentence that tells what the model is about to do presents a call only with the words of an example.
    """
    text = lead.rstrip(" \t\r\n`*_>-").removesuffix("json").rstrip(" \t\r\n`*_>-")
    if text.endswith((".", "!", "?")) and not text.endswith("e.g."):
        return False
    sentence = _SENTENCE_END.split(text)[-1].lower()
    if _EXAMPLE.search(sentence):
        return True
    return _QUOTATION.search(sentence) is not None and not _INTENTION.match(sentence)


def is_quoted(lead: str) -> bool:
    """Whether a quote opens before the block, behind other text."""
    return lead[-1:] in _QUOTES and bool(lead[:-1].strip())


# Where the block stands. These rules change none of the recorded right calls.
_ROLE = LazyPattern(r"\W{0,4}(?:assistant|agent|model|bot|ai)\W{0,3}:", re.IGNORECASE)
_FENCE = LazyPattern(r"^[ \t]*(~{3,}|`{3,})[ \t]*(.?)", re.MULTILINE)
_JSON_START = LazyPattern(r"\s*(?:\{\s*\"|\[\s*[\[{\"])")
_OPEN_VALUE = LazyPattern(  # of a key, alone or in a list
    r"(?:\A|[{,(])\s{0,64}(?:\"[^\"\n]{1,64}\"|\w{1,64})\s?[:=]\s{0,8}"
    r"(?:\[\s{0,64}(?:\"(?:[^\"\\\n]|\\.)*\",\s{0,64})*)?\"(?:[^\"\\\n]|\\.)*\Z"
)
_SENTENCE_ENDS = frozenset(".!?>…。！？")
_ITEM = r"[ \t]*(?:\d{1,3}[.)]|[-*+•])[ \t]"
_LIST_ITEM = LazyPattern(rf"{_ITEM}.*[^\W\d]")
_NEXT_ITEM = LazyPattern(rf"\s{{0,64}}\n{_ITEM}")
_ITEM_MAY_COME = LazyPattern(r"\s{0,64}(?:\n[ \t]*(?:\d{1,3}[.)]?|[-*+•]))?\Z")
_SENTENCE_BEHIND = LazyPattern(r"\r?\n[a-z]{1,20} [a-z]")
_SENTENCE_MAY_COME = LazyPattern(r"\r?(?:\n(?:[a-z]{0,20}|[a-z]{1,20} ))?\Z")
_MAX_PUNCTUATION = 8
_WORD_BEHIND = LazyPattern(rf"[^\S\n]{{0,16}}[&)\]*_'\"`“”’,;.!?…—–-]{{0,{_MAX_PUNCTUATION}}}[^\S\n]{{0,16}}\w")
_WORD_MAY_COME = LazyPattern(rf"[^\S\n]{{0,16}}[&)\]*_'\"`“”’,;.!?…—–-]{{0,{_MAX_PUNCTUATION}}}[^\S\n]{{0,16}}\Z")


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
    """Whether what follows a block decides: words precede it on its line that end no sentence, or it is in a list."""
    line = lead[lead.rfind("\n") + 1 :]
    return _stands_in_list(line) or _stands_in_sentence(line)


def goes_on(lead: str, text: str, at: int, *, final: bool) -> bool | None:
    """Whether the sentence, or the list, goes on behind a block that ends at `at`; None if that needs more text."""
    line = lead[lead.rfind("\n") + 1 :]
    if _stands_in_sentence(line):
        if _WORD_BEHIND.match(text, at):
            return True
        if not final and _WORD_MAY_COME.match(text, at):
            return None
    if not _stands_in_list(line):
        return False
    if _NEXT_ITEM.match(text, at):
        return True
    return None if not final and _ITEM_MAY_COME.match(text, at) else False


def is_sentence_behind(text: str, at: int, *, final: bool) -> bool | None:
    """Whether a sentence goes on in the line behind a block, of which it tells; None if that needs more text."""
    if _SENTENCE_BEHIND.match(text, at):
        return True
    return None if not final and _SENTENCE_MAY_COME.match(text, at) else False


def _stands_in_sentence(line: str) -> bool:
    line = line.rstrip(" \t*_`\"'([")
    return any(map(str.isalpha, line)) and line[-1] not in _SENTENCE_ENDS


def _stands_in_list(line: str) -> bool:
    return _LIST_ITEM.match(line) is not None


# What the block itself says.
_PLACEHOLDER_NAMES = frozenset(
    ("tool_name", "function_name", "name", "tool", "function", "toolname", "functionname", "func", "func_name",
     "func_name1", "func_name2", "your_tool", "some_tool", "example", "example_function", "example_tool",
     "tool_name_here", "none")
)  # fmt: skip
_COUNTER = LazyPattern(r"_?\d{1,2}\Z")
_DOTS = r"\s*(?:\.\.\.|…|\{\.\.\.\}|\[\.\.\.\]|<\.\.\.>)\s*"
_FILL_IN = LazyPattern(rf"{_DOTS}|YOUR_[A-Z_]{{2,40}}|(?i:[<\[](?:your|insert)[ _-][\w -]{{2,40}}[>\]])")
_TEMPLATE = LazyPattern(r"\{[{%][ -]")  # of Jinja
_FRAMED = LazyPattern(r"\s*<[|｜][^<>]{1,40}>.*<[^<>]{1,40}[|｜]>\s*", re.DOTALL)  # by special tokens of a model
_LINE_START = LazyPattern(r"(?:\A|\n)[ \t]*\**\Z")


def is_pattern(call: RawCall, tool: IndexedTool | None, placeholders: list[bool], *, explicit: bool) -> bool:
    """Whether a call is a pattern to fill in: with placeholders for its name or arguments.

    `placeholders` says of each argument whether it is one.
    """
    if tool is None and _is_placeholder_name(call.name):
        return True
    return any(placeholders) and (all(placeholders) or not explicit)


def find_placeholders(call: RawCall) -> list[bool]:
    """Whether each argument is a placeholder."""
    arguments = call.arguments or {}
    named = map(is_placeholder, arguments.values(), arguments)
    return [*named, *map(is_placeholder, call.positional, itertools.repeat(""))]


def is_placeholder(value: Node, name: str) -> bool:
    """Whether the value of the parameter `name` is to be filled in: `...`, `<name>`, `YOUR_NAME`, `<your name>`."""
    if not isinstance(value, str):
        return False
    return value == f"<{name}>" or _FILL_IN.fullmatch(value) is not None


def _is_placeholder_name(name: str) -> bool:
    if is_placeholder(name, "") or (name[:1] == "<" and name[-1:] == ">"):
        return True
    bare = name.strip("<>[]{}$ \n").casefold().replace("-", "_").replace(" ", "_")
    return _COUNTER.sub("", bare) in _PLACEHOLDER_NAMES


def is_meant(name: str, raw: str, lead: str, tools: ToolIndex) -> bool:
    """Whether a block that cannot be read was meant as a call, so that the model is told.

    It names an offered tool, or nearly so, or begins its line, and is not quoted. Otherwise it is about calls.
    """
    if is_quoted(lead):
        return False
    if (name and tools.find(name)) or tools.names.mention.search(raw):
        return True
    if _TEMPLATE.search(raw):
        return False
    if _LINE_START.search(lead) or _FRAMED.fullmatch(raw):
        return True
    return bool(name and tools.find_nearest(name))


# Where the block stands.
_CODE_END = LazyPattern(r"[^`\n]{1,400}`")
_CODE_END_PREFIX = LazyPattern(r"[^`\n]{0,400}\Z")


def may_hold_call(buffer: StreamBuffer, block: BlockStart) -> bool:
    """Whether what merely looks like a call may be one.

    It is none in a fence of code, well after the calls, or in text for the user, which only a marker ends.
    """
    if buffer.in_fence or (buffer.is_for_user and not block.opener):
        return False
    return not buffer.called or buffer.count_shown_at(block.start) <= MAX_SHOWN_CHARS


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
    is_undecided = not final and not following
    if line.count('"') % 2 or line[-1:] in _OPENING_QUOTES:
        return None if is_undecided else following[:1] not in ("", "\r", "\n")
    if line[-1:] not in _BEFORE_MENTION:
        return False
    if _REST_OF_SENTENCE.match(following):
        return True
    is_undecided = not final and len(following) < SENTENCE_CHARS and not following.strip(" \t")
    return None if is_undecided else False
