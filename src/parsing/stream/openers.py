"""How a block begins: the patterns that the detector tries at an anchor.

An anchor is one of the few characters at which a block can begin; most of an answer has none, and needs no other work
than the search for them. Each other pattern matches, cannot match, or may match once more text arrives; all lengths
are bounded. What stands before an anchor is read in lookback.py.
"""

from __future__ import annotations

import re

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from .prefix_regex import (
    PrefixMatcher,
    any_of,
    either,
    group,
    maybe,
    repeat,
    sequence,
    some,
)

MAX_NAME_CHARS = 80
ANCHOR_LEAD_CHARS = 16  # before an anchor, more than its pattern looks at

# The source of the pattern of anchors.
# A line that begins with a block in backticks has none of these before it, but in the words that may precede a block.
_MIDLINE = r"[^\s\"'>*+\-#$`\d.)(\[\]]"
_IS_MIDLINE = "".join(rf"(?<!{_MIDLINE}[^\n]{{{count}}}`)" for count in range(6))
_LEAD_ENDS = ("=", r"(?:call|all:|wait|turn|int\()")  # of `call`, `call:`, `await`, `return`, `print(`
_AFTER_LEAD = "|".join(rf"(?<={lead}[ \t]{{{count}}}`)" for lead in _LEAD_ENDS for count in range(3))
_OBJECT_START = r"\{(?!\{\{)(?=\{?\s{0,64}(?:[\"'\w“‘}]|\Z))"
OBJECT_START = LazyPattern(_OBJECT_START)  # with a key, or not yet
MARKER_ANCHOR = (  # those of markers in brackets
    r"<(?=[|｜]|/[a-zA-Z]|/?\Z|\s(?:[|｜]|\Z)"  # a marker, or an end of reasoning
    r"|[a-zA-Z][\w.:/\\$-]{0,80}"  # or a tag: its name and what may follow that
    r"(?:[>|]|\Z|=(?:[\"'\w>\s]|\Z)|[ \t](?:(?i:name|tool)=(?:[\"'\w>]|\Z)|\w{0,4}\Z)))"
    r"|\[(?!\[\[)"
)
ANCHOR_CHARACTERS = "<[{(:`>="  # with one of these begins what ANCHOR matches
ANCHOR = (  # without the openers of rows that it does not match, which format_set.py adds
    rf"{MARKER_ANCHOR}|{_OBJECT_START}"
    r"|\((?<=[\w)*`]\()"  # after a name
    r"|:(?<=[lLsSeEnN*`]:)"  # after a label, or after one that a name
    r"(?:(?<=(?i:call):)|(?<=(?i:alls):)|(?<=TOOL_NAME:)|(?<=[*`]:)"
    r"|(?:(?<=(?i:tion):)|(?<=(?i:tool):)|(?<=(?i:name):))"  # or an object follows
    r"(?=[*\"'`\s]{0,22}(?:[\[{`]|\Z)|(?![^\n\[]{135})[*\"'`\s]{0,22}"
    r"(?=([^\W\d][\w.:/\\$-]{0,80}))\1[*\"'`,() \t\r]{0,8}(?:[\n\[]|\Z)))"
    r"|`(?!`{4})(?:(?=`)"  # the end of a run of backticks, or one that may begin a line
    rf"|{_IS_MIDLINE}|{_AFTER_LEAD})"
    r"|>(?=>>(?!>)|>?\Z)"
    r"|=(?<=to=)"  # a recipient
)

RESULT_ANCHOR = r"\n(?=[ \t]{0,64}(?:[oOtTfFhH<\[`#|*>]|\Z))"  # before a result that the model made up

SPACE = some(r"\s", 0, 64)
BLANK = some(r"[ \t]", 0, 16)
NAME_PATTERN = sequence(some(r"[^\W\d]", 1, 1), some(r"[\w.:/\\$-]", 0, MAX_NAME_CHARS))
NAME = group("name", NAME_PATTERN)
FENCE = maybe("```", some(r"[\w+-]", 0, 20), SPACE)
_JOINT = maybe(some("[ _-]", 1, 1))  # in TOOL_CALL

# `TOOL_CALL:` as a marker.
OWN = "TOOL_CALL:"
OWN_OPENER = sequence(some(r"\*", 0, 3), "tool", _JOINT, "call", some("s", 0, 1), some(r"[:*`]", 1, 8))

# `TOOL_CALL` in any spelling, and what may stand between it and its body: plural, colon, decoration, half a fence.
OWN_MARKER = PrefixMatcher(sequence(maybe("**"), "tool", _JOINT, "call"), re.IGNORECASE)
OWN_GAP = LazyPattern(r"[sS]?(?:[:*\s]|`{1,2}(?!`)){0,24}(?:```[\w+-]{0,20}\s)?")

_QUOTE = some(r"[\"'“‘]", 1, 1)
_END_QUOTE = some(r"[\"'”’]", 1, 1)
_KEY = group("key", some(r"[\w.\\/-]", 1, MAX_NAME_CHARS))
_OBJECT_KEY = sequence(some(r"\{", 1, 2), SPACE, maybe(_QUOTE), _KEY, maybe(_END_QUOTE), SPACE, ":")
_OBJECT_VALUE = sequence(_QUOTE, group("value", some(r"[^\"'\n“”]", 1, MAX_NAME_CHARS)), some(r"[\"'“”]", 1, 1))
OBJECT_KEY = PrefixMatcher(_OBJECT_KEY)
OBJECT_NAME = PrefixMatcher(sequence(_OBJECT_KEY, SPACE, _OBJECT_VALUE))  # its first key has a string for its value

# A list of calls: of objects, of calls in Python's notation, of strings or tuples that hold them.
_ITEM_QUOTE = either(sequence(some("[frb]", 1, 1), some(r"[\"']", 1, 1)), some(r"[\"'“‘`]", 0, 1))
_ITEM_END = sequence(some(r"[\"'`]", 0, 1), SPACE, some(r"[(,]", 1, 1))
_STRING_SET = sequence("{", some("[\"']", 1, 1))  # `{'f(x=1)'}`
_ITEM = either(
    sequence(_STRING_SET, group("set_name", NAME_PATTERN), "("),
    group("object", "{"),
    sequence(maybe(some(r"[(\[]", 1, 1)), _ITEM_QUOTE, NAME, _ITEM_END),
)
CALL_LIST = PrefixMatcher(sequence("[", maybe(some(r"\[", 1, 1)), SPACE, _ITEM))

# A fence or a quoting backtick, and the first character in it that begins no comment and names no variable.
_ASSIGNMENT = sequence(some(r"\w", 1, 40), BLANK, "=", BLANK)
_COMMENT = sequence("#", some(r"[^\n`]", 0, 120), "\n", SPACE)
_FENCE_BODY = either(
    sequence(
        some(r"[\w+-]", 0, 20), some(r"\s", 1, 64), maybe(repeat(_COMMENT, 3)), maybe(_ASSIGNMENT),
        some(r"[^\s`#]", 1, 1),
    ),
    some(r"[^\s`\w+-]", 1, 1),
)  # fmt: skip
FENCE_START = PrefixMatcher(
    either(sequence("```", some("`", 0, 1), _FENCE_BODY), sequence(some("`", 1, 2), some(r"[^\s`]", 1, 1)))
)

# The first word in a fence and the bracket or colon that makes it a call.
_CALL_MARK = either(some(r"[({\[]", 1, 1), sequence(":", some(r"[\s*\"'`]", 1, 1)))
FENCED_CALL = PrefixMatcher(
    sequence(
        maybe(_ASSIGNMENT),
        maybe(any_of(("print(", "await ", "return "))),
        NAME,
        some(r"\s", 0, 8),
        group("mark", _CALL_MARK),
    )
)

# Mistral's arguments behind a name, where the marker before the name is missing.
ARGS_MARKER = PrefixMatcher(sequence("[ARGS]", SPACE, "{"))

# ReAct: a name on one labelled line, its arguments after the label of the next.
_TOOL = any_of(("tool", "function"))
_NAME_LABEL = either(any_of(("action", "name", "function call")), sequence(_TOOL, maybe(some("[ _]", 1, 1), "name")))
_ARGUMENT_LABEL = sequence(
    maybe(any_of(("action", "tool", "function")), some("[ _]", 1, 1)),
    any_of(("input", "arguments", "args", "parameters")),
)
_DECORATION = some(r"[*\"'` ]", 0, 6)
_LABELLED_JSON = group("json", some(r"[*\s]", 0, 16), FENCE, some(r"[{\[]", 1, 1))
_LABELLED_LINE = group("line", some(r"[ \t*]", 0, 8), some(r"[^\s{\[*]", 1, 1))
LABELLED_CALL = PrefixMatcher(
    sequence(
        _NAME_LABEL, _DECORATION, ":", _DECORATION, NAME, some(r"[*\"'`,() \t\r]", 0, 8),
        "\n", some(r"[\s*\"'-]", 0, 8), group("label", _ARGUMENT_LABEL), some(r"[*\"']", 0, 3),
        ":", either(_LABELLED_JSON, _LABELLED_LINE),
    ),
    re.IGNORECASE,
)  # fmt: skip
ACTION_OBJECT = PrefixMatcher(  # `Action: {"name": ...}`
    sequence("Action", some(r"[*\"']", 0, 3), ":", _LABELLED_JSON), re.IGNORECASE
)

ARGUMENT_BLOCK = PrefixMatcher(  # Continue's, behind its first label
    sequence(":", BLANK, NAME, BLANK, "\n", any_of(("begin_arg:", "```"))), re.IGNORECASE
)
TOOL_FENCE = PrefixMatcher(  # Continue's, without its first label
    sequence("```tool", some(r"\s", 1, 8), NAME, BLANK, "\n", either(group("argument", "begin_arg:"), "```")),
    re.IGNORECASE,
)
OBJECT_IN_STRING = sequence('"', some(r"[\\\"]", 0, 8), "{")  # encoded once or several times
CHEVRON_CALL = PrefixMatcher(
    sequence(">>>", BLANK, NAME, SPACE, FENCE, group("bracket", either(some(r"[{(]", 1, 1), OBJECT_IN_STRING)))
)
NUMBERED_CALL = PrefixMatcher(  # `(call-1): {` after gptme's `@read`
    sequence("(", some(r"[\w-]", 1, 40), "):", SPACE, "{")
)
ELEMENT = PrefixMatcher(sequence("<", NAME, ">"))
_GAP = some(r"\s", 0, 4)
_HEADER = either(any_of(("code", "json", "commentary", "analysis")), sequence("<|", some("[a-z]", 1, 10), "|>"))
RECIPIENT_CALL = PrefixMatcher(  # behind `to=` of a Harmony header
    sequence(group("name", some(r"[\w.:*`-]", 1, MAX_NAME_CHARS)), maybe(repeat(sequence(_GAP, _HEADER), 6)), _GAP, "{")
)


class BlockStart(Struct, frozen=True):
    """The beginning of a block.

    `start` is where its text begins, `body` where the text that is decoded begins. `kind` is a grammar of
    formats/table.py, or `empty` (a name alone) or `element` (an element named after the tool). `explicit`: the format
    asks for a call whatever the name is; otherwise only an offered tool makes it a call. `closer` ends plain text; the
    end of the line does if it is empty.
    """

    start: int
    body: int
    kind: str  # json, pythonic, named, tags, pairs, empty, element, labels, arguments
    opener: str
    name: str = ""
    explicit: bool = True
    must_end_line: bool = False  # only a block that ends its line is a call
    closer: str = ""


class NeedMore(Struct, frozen=True):
    """More text has to decide; the text from `start` on is held back."""

    start: int


class Skip(Struct, frozen=True):
    """Text up to `end`: markers that no body follows, or inline code."""

    end: int


def await_match(matcher: PrefixMatcher, text: str, at: int, start: int) -> NeedMore | None:
    """NeedMore from `start` on, if more text may make a match at `at`."""
    return NeedMore(start) if matcher.is_prefix(text, at) else None
