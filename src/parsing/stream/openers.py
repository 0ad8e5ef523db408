"""How a block begins: the patterns that decide, at a character that may open one, whether one does.

Prose is searched for a handful of characters only (`ANCHORS`); what stands before such a character and may
belong to the block (a tool's name, `TOOL_CALL`) is looked at backwards, and was held back for that reason. Each
pattern knows its own beginnings, so that the answer is found, none, or not yet. All lengths are bounded.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from ..formats.table import FORMATS, MORE_CLOSERS, MORE_OPENERS, REASONING
from .prefix_regex import Matcher, Pattern, any_of, either, literal, maybe, named, repeated, sequence, some, whole_run

MAX_NAME = 80

SPACE = some(r"\s", 0, 64)
BLANK = some(r"[ \t]", 0, 16)
NAME = named("name", sequence(some(r"[^\W\d]", 1, 1), some(r"[\w.:/\\$-]", 0, MAX_NAME)))
FENCE = maybe(sequence(literal("```"), some(r"[\w+-]", 0, 20), SPACE))


def _in_any_case(texts: set[str]) -> Pattern:
    """What differs in case alone is one, since all are matched in any case."""
    return any_of(sorted({text.casefold() for text in texts}))


_WRAPPERS = {
    row.opener
    for row in FORMATS
    if row.opener[:1] in ("<", "[", "]") and row.opener not in ("<function=", "<function name=", "<invoke")
}
OPENERS = _in_any_case(_WRAPPERS | set(MORE_OPENERS))
CLOSERS = _in_any_case(
    {row.closer for row in FORMATS if row.closer[:1] in ("<", "[") and row.closer != "]"}
    | {f"]<]minimax[>[{tag}" for tag in ("</tool_call>", "</invoke>")}
    | set(MORE_CLOSERS)
)
_BRACKETED = "|".join(
    re.escape(opener[1:]) for opener in sorted({*(row.opener for row in FORMATS), *MORE_OPENERS}) if opener[:1] == "["
)
BRACKET = Pattern(rf"(?:\{{|\[(?!{_BRACKETED}))", some(r"[{\[]", 1, 1).begun)  # a bracket may open one more marker
NOISE = maybe(literal("]<]minimax[>["))
NAMESPACE = maybe(
    either(
        sequence(
            maybe(literal(" ")),
            some("[｜|]", 1, 1),
            some(" ", 0, 1),
            either(literal("DSML"), literal("GCML")),
            some(" ", 0, 1),
            some("[｜|]", 1, 1),
            some(" ", 0, 1),
        ),
        sequence(some("[a-z]", 2, 10), some("[:|]", 1, 1)),
    )
)
TOKEN = either(
    sequence(literal("<|"), some(r"[\w:/ ]", 1, 40), literal("|>")),
    sequence(literal("<｜"), some(r"[\w▁ ]", 1, 40), literal("｜>")),
)
_CALL_ID = sequence(literal("[CALL_ID]"), some(r"\w", 1, 32))
_BETWEEN = ("[ARGS]", "```", "json", "commentary", "analysis", "code")
SEPARATOR = maybe(repeated(either(whole_run(r"\s", 64), TOKEN, _CALL_ID, any_of(_BETWEEN), whole_run("[:*=]", 16)), 8))

_ELEMENTS = ("function", "invoke", "tool", "call", "parameter", "tool_call", "function_call")  # with an attribute
_BARE_ELEMENTS = ("invoke", "tool_name", "name", "function_name")
TAGS = sequence(
    NOISE,
    literal("<"),
    NAMESPACE,
    either(
        sequence(any_of(_ELEMENTS), either(sequence(BLANK, literal("=")), some(r"[ \t]", 1, 4))),
        sequence(any_of(_BARE_ELEMENTS), literal(">")),
    ),
)
_LONE_ELEMENTS = sequence(
    NOISE,
    literal("<"),
    NAMESPACE,
    either(
        sequence(literal("function"), any_of(("=", " name="))),
        sequence(literal("invoke"), any_of((">", " name="))),
        sequence(literal("tool_call"), literal(" name=")),
        sequence(literal("call"), literal(" tool=")),
    ),
    some(r"[\"'\w>]", 1, 1),
)
_XTML = sequence(literal("<|open|>call tool="), some(r"[\"'\w]", 1, 1))
JSON_BODY = named("json", sequence(SPACE, FENCE, BRACKET))
TAG_BODY = named("tags", sequence(SPACE, either(TAGS, _XTML)))
PAIR_BODY = named("pairs", sequence(SPACE, NAME, SPACE, literal("<"), NAMESPACE, any_of(("arg_key", "tool_sep"))))


def _renamed(part: Pattern, old: str, new: str) -> Pattern:
    return Pattern(part.whole.replace(f"(?P<{old}>", f"(?P<{new}>"), part.begun.replace(f"(?P<{old}>", "(?:"))


_EMPTY = named(
    "empty",
    sequence(SPACE, _renamed(NAME, "name", "empty_name"), SPACE, literal("</"), NAMESPACE, literal("tool_call")),
)
NAMED_BODY = named(
    "named",
    sequence(
        SPACE,
        maybe(sequence(maybe(sequence(any_of(("commentary", "analysis", "final")), SPACE)), literal("to="))),
        maybe(literal("call:")),
        _renamed(NAME, "name", "called"),
        SEPARATOR,
        named("bracket", some(r"[{(]", 1, 1)),
    ),
)


MAX_RUN = 64  # wrapping markers in a row


_OWN_MARKER = sequence(
    some(r"\*", 0, 3),
    literal("tool"),
    maybe(some("[ _-]", 1, 1)),
    literal("call"),
    some("s", 0, 1),
    some(r"[:*`]", 1, 8),
)
_ANY_OPENER = either(OPENERS, _OWN_MARKER)


@functools.cache
def run() -> re.Pattern[str]:
    """Wrapping markers, one after the other."""
    return re.compile(f"(?:{_ANY_OPENER.whole}{SPACE.whole}){{1,{MAX_RUN}}}", re.IGNORECASE)


@functools.cache
def openers() -> Matcher:
    return Matcher(_ANY_OPENER, re.IGNORECASE)


@functools.cache
def bodies() -> Matcher:
    """What may follow wrapping markers."""
    return Matcher(either(JSON_BODY, TAG_BODY, PAIR_BODY, _EMPTY, NAMED_BODY), re.IGNORECASE)


@functools.cache
def alone() -> Matcher:
    """An element that is marker and body in one."""
    return Matcher(either(_LONE_ELEMENTS, _XTML), re.IGNORECASE)


@functools.cache
def own() -> Matcher:
    """`TOOL_CALL` in any spelling; its plural is taken by what may stand after it."""
    joint = maybe(some("[ _-]", 1, 1))
    return Matcher(sequence(maybe(literal("**")), literal("tool"), joint, literal("call")), re.IGNORECASE)


@functools.cache
def gap() -> re.Pattern[str]:
    """What may stand between `TOOL_CALL` and its body: colon, decoration, the beginning of a fence."""
    return re.compile(r"[sS]?(?:[:*\s]|`{1,2}(?!`)){0,24}(?:```[\w+-]{0,20}\s)?")


@functools.cache
def reasoning() -> Matcher:
    return Matcher(any_of(opener for opener, _ in REASONING), re.IGNORECASE)


@functools.cache
def reasoning_end() -> Matcher:
    return Matcher(any_of(closer for _, closer in REASONING if closer != "<|end|>"), re.IGNORECASE)


_QUOTE = some(r"[\"'“‘]", 1, 1)
_END_QUOTE = some(r"[\"'”’]", 1, 1)
_KEY = named("key", some(r"[\w.\\/-]", 1, MAX_NAME))
_OBJECT_KEY = sequence(some(r"\{", 1, 2), SPACE, maybe(_QUOTE), _KEY, maybe(_END_QUOTE), SPACE, literal(":"))


@functools.cache
def object_key() -> Matcher:
    return Matcher(_OBJECT_KEY)


@functools.cache
def object_name() -> Matcher:
    """An object whose first key has a string for its value."""
    return Matcher(
        sequence(_OBJECT_KEY, SPACE, _QUOTE, named("value", some(r"[^\"'\n“”]", 1, MAX_NAME)), some(r"[\"'“”]", 1, 1))
    )


@functools.cache
def listed() -> Matcher:
    """A list of calls: of objects, of calls in Python's notation, of strings or tuples that hold them."""
    quoted = either(sequence(some("[frb]", 1, 1), some(r"[\"']", 1, 1)), some(r"[\"'“‘`]", 0, 1))
    item = either(
        named("object", literal("{")),
        sequence(
            maybe(some(r"[(\[]", 1, 1)),
            quoted,
            NAME,
            either(sequence(some(r"[\"'`]", 0, 1), SPACE, some(r"[(,]", 1, 1))),
        ),
    )
    return Matcher(sequence(literal("["), maybe(some(r"\[", 1, 1)), SPACE, item))


_ASSIGNED = sequence(some(r"\w", 1, 40), BLANK, literal("="), BLANK)


@functools.cache
def fence() -> Matcher:
    """A fence, or a quoting backtick, and the first character in it that is no comment and names no variable."""
    comment = sequence(literal("#"), some(r"[^\n`]", 0, 120), literal("\n"), SPACE)
    first = some(r"[^\s`#]", 1, 1)
    after_language = sequence(
        some(r"[\w+-]", 0, 20), some(r"\s", 1, 64), maybe(repeated(comment, 3)), maybe(_ASSIGNED), first
    )
    block = sequence(literal("```"), some("`", 0, 1), either(after_language, some(r"[^\s`\w+-]", 1, 1)))
    return Matcher(either(block, sequence(some("`", 1, 2), some(r"[^\s`]", 1, 1))))


@functools.cache
def fenced_word() -> Matcher:
    """The first word in a fence and the bracket or colon that makes it a call."""
    passed = maybe(any_of(("print(", "await ")))
    mark = named("mark", either(some(r"[({\[]", 1, 1), sequence(literal(":"), some(r"[\s*\"'`]", 1, 1))))
    return Matcher(sequence(maybe(_ASSIGNED), passed, NAME, some(r"\s", 0, 8), mark))


@functools.cache
def labelled() -> Matcher:
    """A name on one labelled line, its arguments after the label of the next."""
    first = any_of(
        (
            "Action", "Tool Name", "Tool_Name", "Tool", "Function Name", "Function_Name", "Function Call",
            "Function", "name",
        )
    )  # fmt: skip
    second = any_of(
        (
            "Action Input", "Action_Input", "Arguments", "Args", "Parameters", "Params", "Input", "Tool Input",
            "Tool_Input", "Function Arguments",
        )
    )  # fmt: skip
    decoration = some(r"[*\"'` ]", 0, 6)
    return Matcher(
        sequence(
            first, decoration, literal(":"), decoration, NAME, some(r"[*\"'`,() \t\r]", 0, 8), literal("\n"),
            some(r"[\s*\"'-]", 0, 8), named("label", second), some(r"[*\"']", 0, 3), literal(":"),
            either(
                named("json", sequence(some(r"[*\s]", 0, 16), FENCE, BRACKET)),
                named("line", sequence(some(r"[ \t*]", 0, 8), some(r"[^\s{\[*]", 1, 1))),
            ),
        ),
        re.IGNORECASE,
    )  # fmt: skip


@functools.cache
def action_object() -> Matcher:
    """`Action:` before an object that says the rest."""
    return Matcher(
        sequence(
            literal("Action"),
            some(r"[*\"']", 0, 3),
            literal(":"),
            named("json", sequence(some(r"[*\s]", 0, 16), FENCE, BRACKET)),
        ),
        re.IGNORECASE,
    )


@functools.cache
def bracketed() -> Matcher:
    """ReAct's first notation: `Action: search[...]`."""
    return Matcher(
        sequence(literal("Action"), some(r"[*\"'` ]", 0, 6), literal(":"), BLANK, NAME, literal("[")), re.IGNORECASE
    )


@functools.cache
def chevrons() -> Matcher:
    return Matcher(sequence(literal(">>>"), BLANK, NAME, SPACE, FENCE, named("bracket", some(r"[{(]", 1, 1))))


@functools.cache
def numbered() -> Matcher:
    """What follows gptme's `@read`."""
    return Matcher(sequence(literal("("), some(r"[\w-]", 1, 40), literal("):"), SPACE, literal("{")))


@functools.cache
def element() -> Matcher:
    return Matcher(sequence(literal("<"), NAME, literal(">")))


class Found(NamedTuple):
    """A block's beginning: where it starts, where its body is followed from, and how."""

    start: int
    body: int
    kind: str  # json, pythonic, named, tags, pairs, empty, element, labels, arguments
    opener: str
    name: str = ""
    asks: bool = True  # it asks for a call by name, whatever the name
    alone: bool = False  # it counts only where its line ends with it
