"""How a format writes a call in tags: four templates, which give both the writer and the patterns of the reader.

A template is written as the model's chat template writes it. What models vary is matched anyway: whitespace, quotes
and further attributes, a namespace before a tag's name, and the names that they take for each other.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON
from ..decode.nodes import KINDS

CALL_ELEMENTS = ("function_call", "tool_call", "tool_use", "function", "invoke", "tool", "call")
PARAMETER_ELEMENTS = ("parameter", "argument", "param", "arg")
PREFIX = r"(?:\s?[｜|]\s?(?:DSML|GCML)\s?[｜|]\s?(?:r:)?|[a-z][a-z0-9]{1,9}[:|])?"
NOISE = "]<]minimax[>["  # before each tag of MiniMax M3, which other models may leave out
MAX_TAG_CHARS = 300  # of a tag, or of the tags between a name and its value
_ALIASES = {
    **dict.fromkeys(CALL_ELEMENTS, f"(?P<element>{'|'.join(CALL_ELEMENTS)})"),
    **dict.fromkeys(PARAMETER_ELEMENTS, f"(?P<element>{'|'.join(PARAMETER_ELEMENTS)})"),
}
NAME_ELEMENTS = ("tool_name", "function_name", "name")
ELEMENT_NAMES = {  # elements that hold a name or arguments
    **dict.fromkeys(NAME_ELEMENTS, f"(?:{'|'.join(NAME_ELEMENTS)})"),
    **dict.fromkeys(("parameters", "arguments"), "(?:parameters|arguments|args|params|input)"),
}
_TYPES = {kind: kind for kind in KINDS.values()}
_DECLARATIONS: Mapping[str, Mapping[str, str]] = {  # the words of the fields that declare a type, by that type
    "type": {},  # K2-Horizon: the type itself, with that of an array's items
    "value_type": {**_TYPES, "integer": "number"},  # Kimi K3: what JSON tells apart
    "is_string": {**dict.fromkeys(_TYPES, "false"), "string": "true"},  # DeepSeek
}
# Whether a declared word says that a value is a string: models mix the words of the formats.
_IS_STRING = {word: kind == "string" for words in (_TYPES, *_DECLARATIONS.values()) for kind, word in words.items()}
_DECLARATION = LazyPattern(r"(?:\b(?:string|type)=\"|^)(\w+)\s{0,8}(?:[\"\[]|$)")
_WORD = r"[^\s\"'<>=/]{1,200}(?![^\s\"'<>=/])"  # whole: it is divided from what follows in one way only
_ATTRIBUTES = r"(?P<attributes>[^<>\n]{0,200})"
_PARTS = LazyPattern(
    r"(?P<attribute> \w+)?=\"?\{(?P<valued>name|key)\}\"?[^<>\n]*(?P<end>>|<\|sep\|>)"
    r"|\{(?P<field>\w+)\}|(?P<blank>\s+)|<(?P<slash>/?)(?P<tag>\w+)|(?P<literal>.)",
    re.DOTALL,
)


class TagSyntax(Struct, frozen=True):
    """`call` begins a call and holds {name}; `key` begins an argument and holds {key}; two more end them.

    `key` may declare the type of the value, too, in a field of _DECLARATIONS. `prefix` stands before the name of each
    tag. A newline that ends `key` or begins `value_end` is no part of a value.
    """

    call: str
    key: str
    value_end: str
    call_end: str
    prefix: str = ""

    @property
    def is_element(self) -> bool:
        """Whether an argument is an element that is named after it."""
        return "<{key}>" in self.key

    @property
    def declares_type(self) -> bool:
        """Whether the tags of an argument say what type its value is."""
        return any(f"{{{field}}}" in self.key for field in _DECLARATIONS)

    def list_closers(self) -> list[str]:
        """The tags that close a value or a call, if they are the same for all."""
        closers = (*self._prefix(self.value_end).split(), *self._prefix(self.call_end).split())
        return [closer for closer in closers if closer.startswith("<") and "{" not in closer]

    @property
    def call_closer(self) -> str:
        """The tag that closes a call; empty if several do or nothing does, or if the call decides on it."""
        closer = self._prefix(self.call_end).strip()
        return closer if "{" not in closer and len(closer.split()) == 1 else ""

    def write(self, name: str, arguments: Mapping[str, JSON]) -> str:
        """A call: a string stands as it is, other values as JSON."""
        begin, end = self.frame_call(name)
        for key, value in arguments.items():
            opened, closed = self.frame_value(key, KINDS[type(value)])
            begin += opened + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) + closed
        return begin + end

    def frame_call(self, name: str) -> tuple[str, str]:
        """What stands before and behind the arguments of a call."""
        begin, end = self._prefix(self.call), self._prefix(self.call_end)
        return begin.replace("{name}", name).replace("{index}", "1"), end.replace("{name}", name)

    def frame_value(self, key: str, kind: str = "string") -> tuple[str, str]:
        """What stands before and behind a value; `kind` is its type in the schema, such as `array[string]`."""
        begin, end = self._prefix(self.key), self._prefix(self.value_end)
        for field, words in _DECLARATIONS.items():
            begin = begin.replace(f"{{{field}}}", words.get(kind.partition("[")[0], kind))
        return begin.replace("{key}", key), end.replace("{key}", key)

    def _prefix(self, template: str) -> str:
        return re.sub(r"<(/?)(?=\w)", rf"<\1{self.prefix}", template) if self.prefix else template


def declares_string(attributes: str) -> bool | None:
    """Whether the tag of a value declares it to be a string; None if it declares no type."""
    declared = _DECLARATION.search(attributes)
    return _IS_STRING.get(declared[1]) if declared else None


ELEMENT = TagSyntax("<{name}>\n", "<{key}>", "</{key}>\n", "</{name}>\n")


@functools.cache
def compile_opening(template: str, *, of_call: bool, key: str = "") -> re.Pattern[str]:
    """The pattern of an opening template; its groups are word, prefix, element and attributes, where it has them.

    `key`: of a call, how its arguments begin.
    """
    ahead = ""
    if of_call:
        ahead = _compile_ahead(template, key)
    elif template.endswith("\n"):
        template = template[:-1]  # one newline behind it, if there is one, is cut off from the value
        if template.endswith("}"):
            ahead = r"(?=\n)"
    source = "".join(_compile_part(part, template, of_call) for part in _PARTS.finditer(template)) + ahead
    for group in ("prefix", "element", "attributes"):  # the first of each name counts
        head, mark, rest = source.partition(f"(?P<{group}>")
        source = head + mark + rest.replace(mark, "(?:") if mark else source
    return re.compile(source, 0 if "<" in template else re.IGNORECASE)


def _compile_ahead(template: str, key: str) -> str:
    """What ends a name that nothing in its own template ends: the tag of an argument, or the line; else nothing."""
    if _FRAMED.search(template):
        return ""
    if not template.startswith("{"):
        return r"(?<=\n)"
    if key.startswith("<"):
        return r"(?=<[^<>]{1,100}>)"
    return rf"(?={re.escape(key.partition('{')[0].rstrip())})"


_FRAMED = LazyPattern(r"\{name\}.*[^\s]", re.DOTALL)  # something follows the name, which ends it


def _compile_part(part: re.Match[str], template: str, of_call: bool) -> str:
    if part["valued"]:
        return _compile_attribute(part, of_call)
    if part["field"] in ("name", "key"):
        return _compile_word(part, template, of_call)
    if part["tag"]:
        tag, ends = part["tag"], template[part.end() : part.end() + 1] == ">"
        element = _ALIASES.get(tag) or ELEMENT_NAMES.get(tag) or re.escape(tag)
        return rf"<{part['slash']}(?P<prefix>{PREFIX}){element}" + (r"(?::[\w-]{1,20})?" if ends else "")
    if part["blank"]:
        return r"\s{0,64}" if "\n" in part["blank"] else r"\s{1,8}"
    return r"\s{0,8}(?P<attributes>[^<>\"']{0,64})" if part["field"] else re.escape(part["literal"])


def _compile_attribute(part: re.Match[str], of_call: bool) -> str:
    end, named = re.escape(part["end"]), ""
    if part["attribute"]:
        named = rf"\s{{0,8}}(?:name|key|tool|function|{part['attribute'].strip()})"
    # In quotes a key may hold blanks; without quotes a name ends at the first.
    # What follows decides whether a quote that begins a key is closed, so that no value begins within.
    bare = _WORD if of_call else rf"(?<![\"']){_WORD}|{_WORD}(?=[\s\"'<>/])"
    word = rf"(?:(?<=[\"'])[^\"'<>\n]{{1,200}}(?=[\"'])|{bare})"
    tokens = rf"(?:(?!{end})<\|\w{{1,24}}\|>){{0,4}}"  # special tokens that a model left in a name
    quoted = rf"{named}\s{{0,8}}=\s{{0,8}}[\"']?\s{{0,8}}(?P<word>{word}){tokens}(?:[ \t]{{0,8}}[\"'])?"
    if part["end"] != ">":
        return f"{quoted}{_ATTRIBUTES}{end}"
    drifted = "" if of_call else "=|"  # `<parameter=city=Oslo</parameter>`
    return rf"{quoted}(?:{drifted}{_ATTRIBUTES}(?:{end}|(?=\n)))"


def _compile_word(part: re.Match[str], template: str, of_call: bool) -> str:
    if template[: part.start()].endswith("<"):
        return r"(?P<word>[^\W\d][\w.-]{0,63})(?:\s[^<>]{0,200})?"
    blanks = r"\s{0,64}" if of_call or template[part.end() :] else r"[ \t]{0,16}"
    more = "" if of_call else r"(?: [^<>\n]{1,100})?"
    return rf"\s{{0,64}}(?P<word>[^\s<>]{{1,200}}{more}?){blanks}"
