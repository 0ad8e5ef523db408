"""Calls written in tags: invoke and parameter elements, key and value tags, elements named after parameters.

A block is complete here: its end was found by the scanner. Prefixes of namespaces (`seed:`, `minimax:`,
`｜DSML｜`) are no part of a tag's name. Values are text; what type they become is the schema's business.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from .calls import Known, RawCall, calls_in
from .repair import Node, Reader, Unreadable

PREFIX = r"(?:\s?[｜|]\s?(?:DSML|GCML)\s?[｜|]\s?|[a-z]{2,10}[:|])?"
_NOISE = re.compile(r"\]<\]minimax\[>\[")
_XTML = re.compile(r"<\|(open|close)\|>(.*?)<\|sep\|>", re.DOTALL)
_QUOTED = r"""["']?([^\s"'<>=/]+)["']?"""
_INVOKE = re.compile(
    rf"<{PREFIX}(?:function|invoke|tool|call|tool_call|tool_use|function_call)(?:\s*=\s*|\s+(?:name|tool|function)\s*=\s*){_QUOTED}([^<>]*)>?"
)
_PARAMETER = re.compile(
    rf"<{PREFIX}(?:parameter|param|argument|arg)(?:\s*=\s*|\s+(?:name|key)\s*=\s*){_QUOTED}([^<>\n]*)(?:>|(?=\n))"
)
_DRIFTED = re.compile(rf"<{PREFIX}parameter=([\w-]+)=")
_VALUE_END = re.compile(
    rf"</{PREFIX}(?:parameter|param|argument|arg)\b[^<>]*>|(?=<{PREFIX}(?:parameter|param|argument|arg)\b[\s=])"
    rf"|(?=</{PREFIX}(?:function|invoke|tool_calls?|call|function_calls?|tool)\b)|\Z"
)
_PAIR = re.compile(
    rf"<{PREFIX}arg_key(?::[\w-]+)?>\s*(.*?)\s*</{PREFIX}arg_key(?::[\w-]+)?>\s*"
    rf"<{PREFIX}arg_value(?::[\w-]+)?>(.*?)(?:</{PREFIX}arg_value(?::[\w-]+)?>|(?=<{PREFIX}arg_key)|(?=</)|\Z)",
    re.DOTALL,
)
_KEYED_NAME = re.compile(rf"\s*([^\s<>]+)\s*(?:<{PREFIX}(?:arg_key|tool_sep)|</|\Z)")
_ELEMENT = re.compile(r"<([A-Za-z_][\w.-]{0,63})(?:\s[^<>]*)?>")
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,63})(?:\s[^<>]*)?>")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_MAX_DEPTH = 20
_MAX_CALLS = 64  # in one block


def invoked(block: str, known: Known) -> list[RawCall]:
    """The calls of a block of invoke elements: each name with its parameters, JSON body or child elements."""
    text = _XTML.sub(lambda tag: f"<{'/' if tag[1] == 'close' else ''}{tag[2]}>", _NOISE.sub("", block))
    starts = list(itertools.islice(_INVOKE.finditer(text), _MAX_CALLS))
    if not starts:
        return list(_from_elements(text, known))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return [_invocation(start, text[start.end() : end]) for start, end in zip(starts, ends, strict=True)]


def keyed(block: str) -> list[RawCall]:
    """The call of a block that is a name and pairs of key and value tags; no pair is no argument."""
    name = _KEYED_NAME.match(block)
    return [RawCall(name.group(1), {key: _trimmed(value) for key, value in _PAIR.findall(block)}, [])] if name else []


def element_call(name: str, block: str) -> list[RawCall]:
    """The call whose element is named after the tool, its arguments after its parameters."""
    inner = block
    end = inner.rfind(f"</{name}")
    inner = inner if end < 0 else inner[:end]
    if inner.lstrip()[:1] == "{":
        return [_with_body(name, inner)]
    children = _elements(inner, 0)
    return [RawCall(name, children if isinstance(children, dict) else {}, [])]


def _invocation(start: re.Match[str], body: str) -> RawCall:
    name = start.group(1)
    if drifted := _DRIFTED.search(body):
        body = body[: drifted.end() - 1] + ">" + body[drifted.end() :]
    arguments = _parameters(body)
    if arguments:
        return RawCall(name, arguments, [])
    inner = body.lstrip()
    if inner[:1] == "{":
        return _with_body(name, inner)
    children = _elements(body.split("</invoke>")[0].split("</function>")[0], 0)
    if isinstance(children, dict) and len(children) == 1:
        wrapped = next(iter(children.values()))
        children = (
            wrapped if isinstance(wrapped, dict) and set(children) & {"parameters", "arguments", "args"} else children
        )
    return RawCall(name, children if isinstance(children, dict) else {}, [])


def _parameters(body: str) -> dict[str, Node]:
    arguments: dict[str, Node] = {}
    position = 0
    while start := _PARAMETER.search(body, position):
        end = _VALUE_END.search(body, start.end())
        assert end  # noqa: S101 - the pattern ends with the end of the text
        value = _trimmed(body[start.end() : end.start()])
        arguments[start.group(1)] = _typed(value, start.group(2))
        position = max(end.end(), start.end())
    return arguments


def _typed(value: str, attributes: str) -> Node:
    """A value whose tag says that it is no string is read as what it is."""
    if 'string="false"' not in attributes:
        return value
    try:
        return Reader(value).value()
    except (Unreadable, RecursionError):
        return value


def _with_body(name: str, body: str) -> RawCall:
    try:
        value = Reader(body).value()
    except (Unreadable, RecursionError) as error:
        return RawCall(name, None, [], str(error) or "It is nested too deep.")
    return (
        RawCall(name, value, []) if isinstance(value, dict) else RawCall(name, None, [], "The arguments are no object.")
    )


def _from_elements(text: str, known: Known) -> Iterator[RawCall]:
    """`<tool_name>read</tool_name><parameters>...`: elements are keys, and the keys say the rest."""
    value = _elements(text, 0)
    seen = 0
    while isinstance(value, dict) and len(value) == 1 and seen < _MAX_DEPTH:
        calls = list(calls_in(value, known))
        if calls:
            break
        value, seen = next(iter(value.values())), seen + 1
    yield from calls_in(value, known)


def _elements(text: str, depth: int) -> Node:
    """Child elements as an object, repeated or `item` ones as a list, and text without elements as itself."""
    children: list[tuple[str, Node]] = []
    position = 0
    while not _CDATA.fullmatch(text) and depth < _MAX_DEPTH and (start := _ELEMENT.search(text, position)):
        end = text.find(f"</{start.group(1)}>", start.end())
        if end < 0:
            break
        children.append((start.group(1), _elements(text[start.end() : end], depth + 1)))
        position = end + len(start.group(1)) + 3
    if not children:
        return _trimmed(text)
    names = {name for name, _ in children}
    if names == {"item"} or (len(names) == 1 and len(children) > 1 and depth):
        return [value for _, value in children]
    return dict(children)


def _trimmed(value: str) -> str:
    """The value without the one newline that sets it apart from its tags; of a CDATA section, what is in it."""
    section = _CDATA.fullmatch(value)
    return section[1] if section else value.removeprefix("\n").removesuffix("\n")
