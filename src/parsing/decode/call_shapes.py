"""Finds the calls in a value: names and arguments, in the many shapes that models write.

A raw call has its name as written and its arguments as read; classify.py decides whether the tool exists and the
arguments fit. `decode_value` parses a block's text first: strictly, then with repairs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...types.lazy_pattern import LazyPattern
from .json_repair import RepairReader, read_whole
from .nodes import (
    CallNode,
    Guess,
    Node,
    Pair,
    RepeatedKey,
    Source,
    UnreadableValue,
    parse_lenient,
    parse_strict,
    put,
)
from .scalars import unescape_entities
from .xml import NULLS, Markup

NAME_KEYS = ("name", "function", "function_name", "tool", "tool_name", "action", "func", "recipient_name")
ARGUMENT_KEYS = ("args", "arguments", "parameters", "params", "input", "tool_input", "action_input", "param")
_ARGUMENT_RANKS = {key: rank for rank, key in enumerate(ARGUMENT_KEYS)}  # of several keys the first counts
WRAPPER_KEYS = (
    "tool_calls", "function_calls", "tool_call", "function_call", "functionCall", "tools", "functions", "tool_uses",
    "function", "TOOL_CALL",
)  # fmt: skip
ENVELOPE_KEYS = frozenset(
    ("id", "type", "index", "tool_call_id", "thought", "reasoning", "role", "content", "description", "status")
)
CALL_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *WRAPPER_KEYS, *ENVELOPE_KEYS))
NO_END = UnreadableValue("The block was cut off before its end.")
NO_NAME = UnreadableValue("No tool's name could be read in it.")
_TOO_DEEP = UnreadableValue("The value is nested too deep.")
_NO_TOOL = UnreadableValue('It names no tool: "name" and "args" are expected.')
_TWO_ARGUMENTS = Guess("arguments under two keys")
_OTHER_KEYS = Guess("keys beside those of a call")  # as in the record of a call that was made, with its result
_CUT_ENDS = (
    '"',
    '": null',
    "",
    "null",
)  # which make a value whole that is cut off: in a string, in a key, or elsewhere
_MAX_NESTING = 6
_MAX_IN_STRING = 64
_PASSED_THROUGH = frozenset(("print", "await", "return", "json.dumps", "str"))  # calls around a call that add nothing
_KEYWORD = LazyPattern(r"[^\W\d]\w{0,63}\s?=(?!=)")
_QUOTED_LINE = LazyPattern(r"([\"'`])(.*)\1", re.DOTALL)
_ATTRIBUTE_KEY = LazyPattern(r"(\w{1,64})=")
_ATTRIBUTE_WORD = LazyPattern(r"""'([^'\\]*)'|([^\s"{\[']\S*?)(?=,?(?:\s|\Z))""")  # a value that is not JSON
_ATTRIBUTE_END = LazyPattern(r",\s*|\s+|\Z")
_NOTHING_CLOSED = LazyPattern(r"[^}\])]*\Z")
_SURROGATE = LazyPattern(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
_CALL_IN_STRING = LazyPattern(r"\s*(?:[{\[]|[^\W\d][\w.\\-]{0,80}\()")


class RawCall(Struct, frozen=True):
    """A call as written. `arguments` is None if they are no object, and `problem` says why."""

    name: str
    arguments: dict[str, Node] | None
    positional: list[Node]
    problem: UnreadableValue | None = None
    repairs: tuple[str, ...] = ()  # of a string that held the call
    container: object = None  # the node that holds the arguments; if the text ended inside it, the call was cut off


IsTool = Callable[[str], bool]


class DecodedBlock(Struct, frozen=True):
    """The calls of a block. `problem`: why it cannot be read, for the model; `cut`: its end is missing.

    `closers` end its values: tags named after arguments, and labels. What ends values in all rows is not among them.
    """

    calls: list[RawCall]
    repairs: tuple[str, ...] = ()
    problem: UnreadableValue | None = None
    cut: bool = False
    guessed: bool = False  # another reading is as good
    closers: tuple[str, ...] = ()


def find_calls(node: Node, is_tool: IsTool, depth: int = 0) -> list[RawCall]:
    """The calls in `node`, in order. `is_tool` decides whether a name is an offered tool's."""
    if depth > _MAX_NESTING:
        return []
    if isinstance(node, dict):
        return _find_in_object(node, is_tool, depth)
    if isinstance(node, list):
        return _find_in_list(node, is_tool, depth)
    if isinstance(node, CallNode):
        if node.name in _PASSED_THROUGH and len(node.positional) == 1 and not is_tool(node.name):
            return find_calls(node.positional[0], is_tool, depth + 1)
        return [RawCall(node.name, node.keywords, node.positional, container=node.keywords)]
    if isinstance(node, str) and not isinstance(node, Source):
        return _find_in_string(node, is_tool, depth)
    return []


def find_begun_calls(name: str, text: str, is_tool: IsTool) -> list[RawCall] | None:
    """The calls in a value that goes on behind `text`, which is the arguments of `name` if there is one.

    None if it cannot be read so far.
    """
    for end in _CUT_ENDS:
        try:
            node = RepairReader(text + end).read_value()
        except (UnreadableValue, RecursionError):
            continue
        return _list_calls(name, node, is_tool)
    return None


def _find_in_list(node: list[Node], is_tool: IsTool, depth: int) -> list[RawCall]:
    if len(node) > 1 and isinstance(node[0], str) and is_tool(node[0]):
        if all(isinstance(item, str) and is_tool(item) for item in node):
            return []  # a list of tools
        return [_read_list_call(node)]
    return [call for item in node for call in find_calls(item, is_tool, depth + 1)]


def _read_list_call(node: list[Node]) -> RawCall:
    """A name and its arguments in one list: an object, pairs, or values by position."""
    name, rest = str(node[0]), node[1:]
    if all(isinstance(item, Pair) for item in rest):
        return join_members(name, [pair for item in rest for pair in item.items()], node)  # type: ignore[union-attr]  # all are pairs
    if len(rest) == 1 and isinstance(rest[0], dict):
        return RawCall(name, rest[0], [], container=rest[0])
    return RawCall(name, {}, rest, container=node)


def join_members(name: str, members: Iterable[tuple[str, Node]], container: object = None) -> RawCall:
    """A call with these arguments; none of them may stand twice."""
    arguments: dict[str, Node] = {}
    try:
        for key, value in members:
            put(arguments, key, value)
    except UnreadableValue as error:
        return RawCall(name, None, [], error)
    return RawCall(name, arguments, [], container=container)


def _find_in_string(node: str, is_tool: IsTool, depth: int) -> list[RawCall]:
    """Calls in a string; Arctic and DBRX write lists of such strings, with one call or several in each."""
    if not depth or not _CALL_IN_STRING.match(node):
        return []
    calls: list[RawCall] = []
    reader = RepairReader(node)
    try:
        for _ in range(_MAX_IN_STRING):
            if reader.position == len(node):
                break
            calls += find_calls(reader.read_value(), is_tool, depth + 1)
            reader.pass_separators()
    except (UnreadableValue, RecursionError):
        pass  # the calls before it count
    repairs = tuple(repair for repair in reader.repairs if isinstance(repair, Guess))
    return [replace(call, repairs=(*call.repairs, *repairs)) for call in calls]


def _find_in_object(node: dict[str, Node], is_tool: IsTool, depth: int) -> list[RawCall]:
    for key in NAME_KEYS:
        if isinstance(node.get(key), str):
            return _read_named(node, key)
    for key in WRAPPER_KEYS:
        if isinstance(inner := node.get(key), (list, dict, CallNode, str)):
            return find_calls(inner, is_tool, depth + 1)
    return _find_by_key(node, is_tool)


def _find_by_key(node: dict[str, Node], is_tool: IsTool) -> list[RawCall]:
    """The calls in an object that has the names of tools for its keys and their arguments for values."""
    by_name = {key: value for key, value in node.items() if is_tool(key)}
    if not all(isinstance(value, (dict, str)) for value in by_name.values()) or node.keys() - by_name - ENVELOPE_KEYS:
        return []
    calls = [_make_call(key, value) for key, value in by_name.items()]
    if any(call.positional for call in calls):
        return []
    return calls


def _read_named(node: dict[str, Node], name_key: str) -> list[RawCall]:
    name = str(node[name_key])
    keys = sorted(_ARGUMENT_RANKS.keys() & node.keys(), key=_ARGUMENT_RANKS.__getitem__)
    if not keys:
        siblings = {key: value for key, value in node.items() if key != name_key and key not in ENVELOPE_KEYS}
        return [RawCall(name, siblings, [], container=node)]
    first = node[keys[0]]
    values = [first]
    # A list of objects holds the arguments of several calls, unless it is one argument.
    if (
        isinstance(first, list)
        and len(first) > 1
        and all(isinstance(value, dict) and "value" not in value for value in first)
    ):
        values = first
    doubts = _list_doubts(node, keys)
    return [replace(_make_call(name, value), repairs=doubts) for value in values]


def _list_doubts(node: dict[str, Node], keys: list[str]) -> tuple[Guess, ...]:
    """What makes the call in an object a guess, whose arguments may stand under each of `keys`."""
    if any(node[key] and node[key] != node[keys[0]] for key in keys):
        return (_TWO_ARGUMENTS,)
    if not node.keys() <= CALL_KEYS:
        return (_OTHER_KEYS,)
    return ()


def _make_call(name: str, value: Node) -> RawCall:
    container, value = value, _unwrap_string(value)
    if value is None or value == "":
        return RawCall(name, {}, [])
    if isinstance(value, dict):
        return RawCall(name, value, [], container=container)
    if isinstance(value, list):
        return RawCall(name, {}, list(value), container=container)
    if isinstance(value, (bool, int, float)):
        return RawCall(name, None, [], UnreadableValue(f"The arguments must be one object; {value!r} was given."))
    return RawCall(name, {}, [value], container=container)


def _unwrap_string(node: Node) -> Node:
    """The object in a string, encoded up to four times; otherwise the string, or the node itself."""
    value = node
    for _ in range(4):
        if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
            break
        try:
            reader = RepairReader(value)
            value = reader.read_value()
        except (UnreadableValue, RecursionError):
            break
        if reader.unclosed:
            return node
    return value


class _ParsedValue(Struct, frozen=True):
    """`repairs` names what was wrong in the text; `unclosed` are the containers that the text ended in."""

    node: Node
    repairs: tuple[str, ...] = ()
    unclosed: Sequence[object] = ()


def decode_value(kind: str, name: str, body: str, parsed: Node, is_tool: IsTool, *, ended: bool) -> DecodedBlock:
    """The calls in a block in brackets; `parsed` is its value if that is read already."""
    if not ended and _NOTHING_CLOSED.match(body):
        return DecodedBlock([], problem=NO_END, cut=True)
    try:
        value = _parse_block(kind, name, body, parsed)
    except UnreadableValue as error:
        return DecodedBlock([], problem=error, cut=not ended)
    if problem := _check_surrogates(body, value.node):
        return DecodedBlock([], problem=problem)
    calls = _list_calls(name, value.node, is_tool)
    if not ended and any(call.container is container for call in calls for container in value.unclosed):
        return DecodedBlock(calls, problem=NO_END, cut=True)
    if not calls:
        return DecodedBlock([], problem=_NO_TOOL, cut=not ended)
    return DecodedBlock(calls, value.repairs)


def _parse_block(kind: str, name: str, body: str, parsed: Node) -> _ParsedValue:
    """The value of a block. Raises UnreadableValue."""
    if kind != "pythonic" or not name:
        return _parse_value(body, parsed)
    # The name may have slashes and colons, which no name in Python has.
    value = _parse_value("call" + body, None)
    if isinstance(value.node, CallNode):
        value = replace(value, node=replace(value.node, name=name))
    return value


def _list_calls(name: str, node: Node, is_tool: IsTool) -> list[RawCall]:
    """The calls in a value, which is the arguments of `name` if one stood before it."""
    if not name or isinstance(node, CallNode):
        return find_calls(node, is_tool)
    arguments = _unwrap_string(node)
    if isinstance(arguments, dict):
        return [RawCall(name, arguments, [], container=arguments)]
    return [RawCall(name, None, [], UnreadableValue("The arguments must be one object."))]


def _parse_value(text: str, parsed: Node) -> _ParsedValue:
    """The value of a text: strictly, then with repairs, unless it is `parsed` already. Raises UnreadableValue."""
    if parsed is not None:
        return _ParsedValue(parsed)
    if text[:1] in ("{", "[") and (value := _parse_json(text)):
        return value
    if "&quot;" in text and '"' not in text:
        inner = _parse_value(unescape_entities(text), None)
        return replace(inner, repairs=("entities", *inner.repairs))
    if text.startswith("{{") and text.endswith("}}"):
        text = text[1:]
    reader = RepairReader(text)
    try:
        node = reader.read_value()
    except RecursionError:
        raise _TOO_DEEP from None
    if isinstance(node, CallNode):
        reader.repairs.pop("tuple", None)
    return _ParsedValue(node, tuple(reader.repairs), reader.unclosed)


def _parse_json(text: str) -> _ParsedValue | None:
    """The value of a text that is JSON, but for newlines in its strings. Raises UnreadableValue."""
    for parse, repairs in ((parse_strict, ()), (parse_lenient, ("raw newlines",))):
        try:
            node, end = parse(text, 0)
        except UnreadableValue:
            raise
        except (ValueError, RecursionError):
            continue
        if end == len(text):
            return _ParsedValue(node, repairs)
    return None


def _check_surrogates(body: str, node: Node) -> UnreadableValue | None:
    """The problem with a string that holds half of a surrogate pair."""
    if (body.isascii() and "\\u" not in body) or not _SURROGATE.search(body):
        return None
    try:
        json.dumps(node, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return UnreadableValue("A string holds half of a surrogate pair.")
    except (ValueError, RecursionError):
        return _TOO_DEEP
    return None


def decode_label_line(name: str, line: str) -> RawCall:
    """The call of one line of arguments: `city="Oslo"`, the text inside brackets, or one value."""
    if _KEYWORD.match(line):
        try:
            node = read_whole(f"{name}({line})")
        except RepeatedKey as error:
            return RawCall(name, None, [], error)
        except UnreadableValue:
            node = None
        if isinstance(node, CallNode) and not node.positional:
            return RawCall(name, node.keywords, [])
    if line.endswith("]") and "[" not in line:
        line = line[:-1]
    if quoted := _QUOTED_LINE.fullmatch(line):
        line = quoted[2]
    return RawCall(name, {}, [line])


def decode_attributes(name: str, body: str) -> list[RawCall]:
    """The call of a name and `key=value` pairs, divided by blanks; none if anything else stands there.

    A value is JSON, a word, or text in single quotes.
    """
    members: list[tuple[str, Node]] = []
    _, written, text = body.partition(name)
    if body[0] == "[":
        text = text.removesuffix("]")
    text, at = text.lstrip("\"'").strip(), 0
    while key := _ATTRIBUTE_KEY.match(text, at):
        try:
            value, at = _read_attribute(text, key.end())
        except (ValueError, RecursionError):
            return []
        end = _ATTRIBUTE_END.match(text, at)
        if end is None:
            return []
        at = end.end()
        members.append((key[1], value))
    if not written or at < len(text):
        return []
    return [join_members(name, members)]


def _read_attribute(text: str, at: int) -> tuple[Node, int]:
    """The value at `at`, and where it ends. Raises ValueError and RecursionError."""
    if text[at : at + 1] in ('"', "{", "["):
        return parse_strict(text, at)
    word = _ATTRIBUTE_WORD.match(text, at)
    if word is None:
        raise UnreadableValue("No value follows the name of an argument.")
    if word[2] in NULLS:
        return Markup(word[2]), word.end()
    return word[1] or word[2] or "", word.end()
