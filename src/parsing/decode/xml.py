"""Calls written in tags: invoke and parameter elements, key and value tags, elements named after parameters.

A block is complete here: the stream parser found its end. Namespace prefixes (`seed:`, `minimax:`, `｜DSML｜`) are no
part of a tag's name. Values are text, and the schema decides what type they become.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .call_shapes import ARGUMENT_KEYS, IsTool, RawCall, find_calls
from .json_repair import RepairReader
from .nodes import Node, UnreadableValue

PREFIX = r"(?:\s?[｜|]\s?(?:DSML|GCML)\s?[｜|]\s?|[a-z]{2,10}[:|])?"
_NOISE = re.compile(r"\]<\]minimax\[>\[")
_XTML = re.compile(r"<\|(open|close)\|>([^<]*)<\|sep\|>")
_QUOTED = r"""["']?([^\s"'<>=/]+)["']?"""
_INVOKE = re.compile(
    rf"<{PREFIX}(?:function|invoke|tool|call|tool_call|tool_use|function_call)(?:\s*=\s*|\s+(?:name|tool|function)\s*=\s*){_QUOTED}([^<>]*)>?"
)
_PARAMETER = re.compile(
    rf"<{PREFIX}(?:parameter|param|argument|arg)(?:(\s+(?:name|key))?\s*=\s*){_QUOTED}"
    r"(?:=|([^<>\n]*)(?:>|(?=\n)))"  # also `<parameter=city=Oslo</parameter>`, which models drift to
)
_PART = re.compile(f"{_PARAMETER.pattern}|{_INVOKE.pattern}")
_VALUE_ENDS = {  # by its own tag, or before the next parameter that is written in the same style
    named: re.compile(
        rf"</{PREFIX}(?:parameter|param|argument|arg)\b[^<>]*>|(?=<{PREFIX}(?:parameter|param|argument|arg){style}\s*=)"
    )
    for named, style in ((True, r"\s+(?:name|key)"), (False, ""))
}
_CALL_END = re.compile(rf"</{PREFIX}(?:function|invoke|tool_calls?|call|function_calls?|tool)\b|\Z")
_KEY_BEGINS = re.compile(rf"<{PREFIX}arg_key(?::[\w-]+)?>")
_VALUE_BEGINS = re.compile(rf"</{PREFIX}arg_key(?::[\w-]+)?>\s*<{PREFIX}arg_value(?::[\w-]+)?>")
_PAIR_ENDS = re.compile(rf"</{PREFIX}arg_value(?::[\w-]+)?>|(?=<{PREFIX}arg_key)|(?=</{PREFIX}tool_call)|\Z")
_PAIRS_NAME = re.compile(rf"\s*([^\s<>]+)\s*(?:<{PREFIX}(?:arg_key|tool_sep)|</|\Z)")
_ELEMENT = re.compile(r"<([A-Za-z_][\w.-]{0,63})(?:\s[^<>]*)?>")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_MAX_DEPTH = 20
_MAX_CALLS = 64  # in one block


class Markup(str):
    """The text of an element; the schema decides whether it is text or more elements."""

    __slots__ = ()


def parse_invocations(block: str, is_tool: IsTool) -> list[RawCall]:
    """The calls of a block of invoke elements: each name with its parameters, JSON body or child elements."""
    text = _XTML.sub(lambda tag: f"<{'/' if tag[1] == 'close' else ''}{tag[2]}>", _NOISE.sub("", block))
    calls: list[RawCall] = []
    start = _INVOKE.search(text)
    while start and len(calls) < _MAX_CALLS:
        arguments, end = _parse_parameters(text, start.end())
        following = _INVOKE.search(text, end)
        body = text[start.end() : following.start() if following else len(text)]
        calls.append(RawCall(start.group(1), arguments, []) if arguments else _parse_invocation(start.group(1), body))
        start = following
    return calls or _parse_elements(text, is_tool)


def parse_pairs(block: str) -> list[RawCall]:
    """The call of a block that holds a name and pairs of key and value tags."""
    name = _PAIRS_NAME.match(block)
    return [RawCall(name.group(1), dict(_iter_pairs(block)), [])] if name else []


def _iter_pairs(block: str) -> Iterator[tuple[str, str]]:
    end = 0
    while (key := _KEY_BEGINS.search(block, end)) and (value := _VALUE_BEGINS.search(block, key.end())):
        ends = _PAIR_ENDS.search(block, value.end())
        assert ends  # noqa: S101 - the pattern ends with the end of the text
        yield block[key.end() : value.start()].strip(), _trim(block[value.end() : ends.start()])
        end = ends.end()


def parse_element(name: str, block: str) -> list[RawCall]:
    """The call of an element that is named after the tool, with elements named after its parameters."""
    end = block.rfind(f"</{name}")
    inner = block if end < 0 else block[:end]
    if inner.lstrip()[:1] == "{":
        return [_parse_json_body(name, inner)]
    return [RawCall(name, _group_children(inner), [])]


def _parse_invocation(name: str, body: str) -> RawCall:
    if body.lstrip()[:1] == "{":
        return _parse_json_body(name, body.lstrip())
    children = _group_children(body.split("</invoke>")[0].split("</function>")[0])
    wrapped = children.get("parameters") or children.get("arguments") or children.get("args")
    if len(children) == 1 and isinstance(wrapped, Markup) and (inner := _group_children(wrapped)):
        children = inner
    return RawCall(name, children, [])


def _parse_parameters(text: str, position: int) -> tuple[dict[str, Node], int]:
    """The parameters from `position` on, up to the next call, and where they end."""
    arguments: dict[str, Node] = {}
    while (start := _PART.search(text, position)) and start.group(2):
        end = _VALUE_ENDS[bool(start.group(1))].search(text, start.end())
        if not end or not end.group():  # not closed: the next parameter begins, or the call ends
            end = _CALL_END.search(text, start.end(), end.start() if end else len(text))
            assert end  # noqa: S101 - the pattern ends with the end of the text
        value = _trim(text[start.end() : end.start()])
        arguments[start.group(2)] = _parse_typed(value, start.group(3) or "")
        position = end.end()
    return arguments, position


def _parse_typed(value: str, attributes: str) -> Node:
    """The value, read as JSON if the attributes of its tag say that it is no string."""
    if 'string="false"' not in attributes:
        return value
    try:
        return RepairReader(value).read_value()
    except (UnreadableValue, RecursionError):
        return value


def _parse_json_body(name: str, body: str) -> RawCall:
    try:
        value = RepairReader(body).read_value()
    except (UnreadableValue, RecursionError) as error:
        return RawCall(name, None, [], str(error) or "It is nested too deep.")
    if isinstance(value, dict):
        return RawCall(name, value, [])
    return RawCall(name, None, [], "The arguments are no object.")


def _parse_elements(text: str, is_tool: IsTool) -> list[RawCall]:
    """Calls like `<tool_name>read</tool_name><parameters>...`: elements are read as the members of an object."""
    value = _group_children(text)
    for _ in range(_MAX_DEPTH):
        opened = {key: _group_children(item) or item if key in ARGUMENT_KEYS else item for key, item in value.items()}
        if calls := find_calls(opened, is_tool):
            return calls
        if len(value) != 1 or not isinstance(inner := next(iter(value.values())), Markup):
            break
        value = _group_children(inner)
    return []


def _find_children(text: str) -> list[tuple[str, Markup]]:
    children: list[tuple[str, Markup]] = []
    position = 0
    if text.lstrip()[:1] != "<" or _CDATA.fullmatch(text):
        return children
    while start := _ELEMENT.search(text, position):
        end = text.find(f"</{start.group(1)}>", start.end())
        if end < 0:
            break
        children.append((start.group(1), Markup(_trim(text[start.end() : end]))))
        position = end + len(start.group(1)) + 3
    return children


def _group_children(text: object) -> dict[str, Node]:
    """The elements in `text` by name; those of one name are a list."""
    found: dict[str, list[Node]] = {}
    for name, value in _find_children(text) if isinstance(text, str) else ():
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def parse_structure(text: Markup, kind: str = "", depth: int = 0) -> Node:
    """The elements in `text` as an object, or as a list if they share a name; the text itself if it holds none.

    With a `kind`, "object" or "array", only the outermost elements are taken apart.
    """
    children = _find_children(text) if depth < _MAX_DEPTH else []
    names = {name for name, _ in children}
    if not children or (kind == "array" and len(names) > 1):
        return str(text)
    deep = [(name, value if kind else parse_structure(value, "", depth + 1)) for name, value in children]
    if kind != "object" and (names == {"item"} or (len(names) == 1 and (len(children) > 1 or kind))):
        return [value for _, value in deep]
    return dict(deep)


def _trim(value: str) -> str:
    """The value without the newlines next to its tags; the content of a CDATA section."""
    if section := _CDATA.fullmatch(value):
        return section[1]
    if value[:1] == "\n" or value.count("\n") == 1:
        return value.removeprefix("\n").removesuffix("\n")
    return value
