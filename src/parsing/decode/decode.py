"""A whole block into raw calls, by the grammar it was found with; strict parsing first, repair after it failed."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ..stream.openers import Found
from .call_shapes import Known, RawCall, calls_in
from .json_repair import Reader
from .nodes import CallNode, Node, Unreadable, lenient, strict
from .xml import element_call, invoked, keyed

_ARGUMENT = re.compile(r"BEGIN_ARG:[ \t]*([^\s]+)[ \t]*\r?\n")
_ARGUMENT_ENDS = re.compile(r"\r?\n?END_ARG")
_KEYWORD = re.compile(r"[^\W\d]\w{0,63}\s?=(?!=)")
_TOOL_NAME = re.compile(r"TOOL_NAME:\s*(\S+)")
_NOTHING_CLOSED = re.compile(r"[^}\])]*\Z")
_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")


class Decoded(NamedTuple):
    """`problem` is set where the block is no call: why, in words for the model. `cut` says that its end is missing."""

    calls: list[RawCall]
    repairs: tuple[str, ...] = ()
    problem: str = ""
    cut: bool = False


class Body(NamedTuple):
    """`ended` says that the end it should have was there; `read` holds its value where that was read already."""

    text: str
    ended: bool
    read: tuple[Node] | None


def decode(found: Found, body: Body, known: Known) -> Decoded:
    """The calls of a block."""
    if found.kind in _TEXT_KINDS:
        return _decode_text(found, body.text, known, ended=body.ended)
    return _decode_value(found, body, known)


_TAIL = 200  # characters, more than a closing tag has
_TEXT_KINDS = frozenset(("tags", "pairs", "empty", "element", "labels", "arguments"))
_CLOSED_AT_END = re.compile(
    r"(?:</[^<>]*(?:parameter|param|argument|arg|arg_value|function|invoke)[^<>]*>|>)\s*(?:</?[\w:]*)?\Z"
)


def _decode_text(found: Found, body: str, known: Known, *, ended: bool) -> Decoded:
    if not ended and found.kind not in ("labels", "arguments") and not _CLOSED_AT_END.search(body[-_TAIL:]):
        return Decoded([], problem="The block was cut off before its end.", cut=True)
    if found.kind in ("pairs", "empty"):
        calls = keyed(body)
    elif found.kind == "element":
        calls = element_call(found.name, body)
    elif found.kind == "labels":
        calls = [_labelled(found.name, body.strip())]
    elif found.kind == "arguments":
        calls = _argument_blocks(body)
    else:
        calls = invoked(body, known)
    if not calls:
        return Decoded([], problem="No tool's name could be read in it.")
    return Decoded(calls, () if ended else ("missing closers",))


def _labelled(name: str, line: str) -> RawCall:
    """The arguments that stand on a line: `city="Oslo"`, the text between a bracket and its end, or one value."""
    if _KEYWORD.match(line):
        reader = Reader(f"{name}({line})")
        try:
            node = reader.value()
        except (Unreadable, RecursionError):
            node = None
        if isinstance(node, CallNode) and not node.positional and not reader.unclosed:
            return RawCall(name, node.keywords, [])
    if line.endswith("]") and "[" not in line:
        line = line[:-1]
    return RawCall(name, {}, [line[1:-1] if len(line) > 1 and line[0] == line[-1] and line[0] in "\"'`" else line])


def _argument_blocks(body: str) -> list[RawCall]:
    name = _TOOL_NAME.search(body)
    arguments: dict[str, Node] = {}
    end = 0
    while (begun := _ARGUMENT.search(body, end)) and (ends := _ARGUMENT_ENDS.search(body, begun.end())):
        value, end = body[begun.end() : ends.start()], ends.end()
        try:
            arguments[begun[1]] = strict(value.strip())[0]
        except (ValueError, RecursionError):
            arguments[begun[1]] = value
    return [RawCall(name.group(1), arguments, [])] if name else []


def _decode_value(found: Found, block: Body, known: Known) -> Decoded:
    body, ended, read = block
    if not ended and _NOTHING_CLOSED.match(body):
        return Decoded([], problem="The block was cut off before its end.", cut=True)
    text = found.name + body if found.kind == "pythonic" else body
    try:
        node, repairs, unclosed = (read[0], (), []) if read else _value(text)
    except (Unreadable, RecursionError) as error:
        problem = str(error) if isinstance(error, Unreadable) else "The value is nested too deep."
        return Decoded([], problem=problem, cut=not ended)
    if (not body.isascii() or "\\u" in body) and (problem := _surrogates(body, node)):
        return Decoded([], problem=problem)
    calls = _said(found, node, known)
    if not ended and any(_is_open(call, unclosed) for call in calls):
        return Decoded(calls, problem="The block was cut off before its end.", cut=True)
    if not calls:
        return Decoded([], problem='It names no tool: "name" and "args" are expected.', cut=not ended)
    return Decoded(calls, repairs)


def _value(text: str) -> tuple[Node, tuple[str, ...], list[object]]:
    if text[:1] in ("{", "["):
        for parse, repairs in ((strict, ()), (lenient, ("raw newlines",))):
            try:
                node, end = parse(text, 0)
            except Unreadable:
                raise
            except (ValueError, RecursionError):
                continue
            if end == len(text):
                return node, repairs, []
    reader = Reader(text[1:] if text.startswith("{{") and text.endswith("}}") else text)
    node = reader.value()
    pythonic = {"tuple"} if isinstance(node, CallNode) else set()
    return node, tuple(repair for repair in reader.repairs if repair not in pythonic), reader.unclosed


def _surrogates(body: str, node: Node) -> str:
    """Why text with half of a character in it is no argument, or nothing."""
    if not _SURROGATE.search(body):
        return ""
    try:
        json.dumps(node, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return "A string holds half of a surrogate pair."
    except (ValueError, RecursionError):
        return "The value is nested too deep."
    return ""


def _said(found: Found, node: Node, known: Known) -> list[RawCall]:
    """What the value says; where the name stood before it, the value is the arguments."""
    if found.kind != "named":
        return calls_in(node, known)
    if isinstance(node, dict):
        inner = calls_in(node, known) if "arguments" in node or "parameters" in node else []
        if inner and all(known(call.name) for call in inner):
            return inner
        return [RawCall(found.name, node, [], container=node)]
    return [RawCall(found.name, None, [], "The arguments must be one object.")]


def _is_open(call: RawCall, unclosed: list[object]) -> bool:
    """Whether the text ended inside the call's arguments."""
    return any(call.container is container for container in unclosed)
