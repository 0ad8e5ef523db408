"""Fits the arguments of native calls: values that the tool's schema refuses and that can be read in exactly one way.

`"5"` becomes 5 where an integer is required, a string of JSON the object or list in it, one value a list of it. A value
that the schema accepts is never touched, nor is one that has two readings, such as `"1"` for an integer or a boolean.

Whether a value may be refused shows at its first character, by its kind. So a stream holds such a value alone, to its
end, and gives the same arguments as `fit_native`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from ...types.messages import JSON, ToolCall, ToolDefinition, unwrap_call, write_arguments
from ...types.strict_json import loads_strict
from ..decode.nodes import Node, refuse_constant
from .coerce import MISSING, coerce, get_kind, unwrap
from .fit import list_choices, list_types, make_items
from .indexed_tool import ANY, IndexedTool, as_schema
from .tool_index import ToolIndex

FITTED = "fitted"  # begins what `ToolCall.repaired` says of a native call
_NUMBERS = ("integer", "number")
_OPENERS = ("[", "{", "(")
_AMBIGUOUS = frozenset(  # a list may be lines, words or JSON, a number has a fraction, and 1.1 may have been 1.10
    (("array", "string"), ("number", "integer"), ("number", "string"))
)

Schema: TypeAlias = Mapping[str, Any]


class Fitted(NamedTuple):
    """A value as the schema requires it, and what was changed; no changes: it is the value that was given."""

    value: JSON
    changes: tuple[str, ...] = ()


class NativeFitter:
    """Fits values to the schemas of one tool."""

    def __init__(self, tool: IndexedTool) -> None:
        self._tool = tool

    @property
    def root(self) -> Schema:
        """The schema of all arguments."""
        return self._tool.schema

    def may_refuse(self, schema: object, kind: str) -> bool:
        """Whether the schema refuses some values of this kind by themselves, whatever stands inside them."""
        return all(
            not _allows(_list_kinds(option), kind) or "enum" in option
            for option in self._tool.list_alternatives(schema)
        )

    def find_inner(self, schema: object, kind: str, key: str = "") -> Schema:
        """The schema of what stands inside a value: of the member `key` of an object, or of the items of an array."""
        options = self._tool.list_alternatives(schema)
        if len(options) > 1:
            options = [option for option in options if not self.may_refuse(option, kind)]
        if len(options) != 1:
            return ANY
        (option,) = options
        if kind == "array":
            return as_schema(option.get("items"))
        members = as_schema(option.get("properties"))
        return as_schema(members.get(key, option.get("additionalProperties")))

    def fit(self, value: JSON, schema: object, path: str = "") -> Fitted:
        """The value, in which what is refused and has one reading is read so. `path` names it in the changes."""
        kind = get_kind(value)
        if self.may_refuse(schema, kind):
            return self._fit_refused(value, schema, path)
        return self._fit_inside(value, schema, kind, path)

    def _fit_inside(self, value: JSON, schema: object, kind: str, path: str) -> Fitted:
        """The value with its members or items fitted."""
        if isinstance(value, dict):
            members = {
                key: self.fit(member, self.find_inner(schema, kind, key), f"{path}.{key}" if path else key)
                for key, member in value.items()
            }
            return _gather(value, {key: each.value for key, each in members.items()}, members.values())
        if isinstance(value, list):
            inner = self.find_inner(schema, kind)
            items = [self.fit(item, inner, f"{path}[{place}]") for place, item in enumerate(value)]
            return _gather(value, [each.value for each in items], items)
        return Fitted(value)

    def _fit_refused(self, value: JSON, schema: object, path: str) -> Fitted:
        """The only reading of the value that the schema accepts; the value where there is none, or it is accepted."""
        if self.accepts(value, schema):
            return Fitted(value)
        accepted: dict[str, Fitted] = {}
        # What the value may stand for where this schema is; the schema need not accept it.
        options = self._tool.list_alternatives(schema)
        for reading in chain.from_iterable(self._list_readings(value, option) for option in options):
            # Not read once more: 0 may be false, and false may be 0.
            fitted = self._fit_inside(reading, schema, get_kind(reading), path)
            if self.accepts(fitted.value, schema):
                accepted.setdefault(json.dumps(fitted.value, sort_keys=True), fitted)
        if len(accepted) != 1:
            return Fitted(value)
        (fitted,) = accepted.values()
        change = f"{FITTED} {path}: {get_kind(value)} to {get_kind(fitted.value)}"
        return Fitted(fitted.value, (change, *fitted.changes))

    def _list_readings(self, value: JSON, schema: Schema) -> Iterator[JSON]:
        kind, kinds = get_kind(value), _list_kinds(schema)
        yield from list_choices(value, schema)
        inner = unwrap(cast("Node", value), kinds)
        if inner is not MISSING and kind not in kinds and "string" not in kinds:
            yield inner
            yield from self._list_readings(inner, schema)
        for target in kinds:
            reading = _convert(value, kind, target)
            if reading is not MISSING:
                yield reading
        if "array" in kinds and kind not in ("array", "null") and not _begins_container(value):
            yield cast("list[JSON]", make_items(cast("Node", value), kind, schema)) or [value]

    def accepts(self, value: JSON, schema: object) -> bool:
        """Whether nothing in the schema refuses the value: types, choices, members and items."""
        return any(self._is_accepted(value, option) for option in self._tool.list_alternatives(schema))

    def _is_accepted(self, value: JSON, schema: Schema) -> bool:
        kind = get_kind(value)
        if not _allows(_list_kinds(schema), kind):
            return False
        choices = schema.get("enum")
        if isinstance(choices, list) and not any(value == each and kind == get_kind(each) for each in choices):
            return False
        if isinstance(value, list):
            items = self.find_inner(schema, "array")
            return all(self.accepts(item, items) for item in value)
        if isinstance(value, dict):
            return self._accepts_members(value, schema)
        return True

    def _accepts_members(self, value: Mapping[str, JSON], schema: Schema) -> bool:
        required = schema.get("required")
        if isinstance(required, list) and not all(name in value for name in required):
            return False
        is_closed = schema.get("additionalProperties") is False
        if is_closed and not value.keys() <= as_schema(schema.get("properties")).keys():
            return False
        return all(self.accepts(member, self.find_inner(schema, "object", key)) for key, member in value.items())


def fit_native(call: ToolCall, tool: IndexedTool) -> ToolCall:
    """The call with its arguments fitted. `written` keeps what the model wrote, which goes back to the server."""
    try:
        fitted, changes = NativeFitter(tool).fit(dict(call.arguments), tool.schema)
    except RecursionError:  # of arguments that are nested too deep
        return call
    if not changes or not isinstance(fitted, dict):
        return call
    written = call.written or write_arguments(call.arguments)
    return replace(call, arguments=fitted, written=written, repaired=(*call.repaired, *changes))


def fit_inner(call: ToolCall, index: ToolIndex) -> ToolCall:
    """A call of CALL_TOOL with the arguments in it fitted to the tool that it names."""
    inner = unwrap_call(call)
    if inner is call or not isinstance(inner, ToolCall):
        return call
    definition = index.tools.get(inner.name)
    if not isinstance(definition, ToolDefinition) or not definition.named_by:  # the tool may be one of a client's
        return call
    fitted = fit_native(inner, IndexedTool(definition.name, definition.parameters))
    if fitted is inner:
        return call
    arguments = {**call.arguments, "args": dict(fitted.arguments)}
    written = call.written or write_arguments(call.arguments)
    return replace(call, arguments=arguments, written=written, repaired=fitted.repaired)


def fits_form(text: str, form: Mapping[str, Any]) -> bool:
    """Whether a text is JSON in this `response_format`."""
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return False
    schema = as_schema(form.get("json_schema")).get("schema")
    if not isinstance(schema, dict):
        return isinstance(value, dict)
    return NativeFitter(IndexedTool("", schema)).accepts(value, schema)


def count_fitted(calls: Sequence[ToolCall]) -> int:
    """How many values of the calls were fitted."""
    return sum(repair.startswith(f"{FITTED} ") for call in calls for repair in call.repaired)


def _convert(value: JSON, kind: str, target: str) -> Any:
    """The value as this type; MISSING if it has not exactly one reading as it."""
    if kind == "string" and target in ("array", "object"):
        return _parse_container(str(value), target)
    if (kind, target) in _AMBIGUOUS:
        return MISSING
    return coerce(value, kind, target)


def _parse_container(text: str, target: str) -> Any:
    """The list or object in a string, as JSON or Python writes it; MISSING if the string holds something else."""
    if not _begins_container(text):
        return MISSING
    try:
        value = loads_strict(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        value = _parse_literal(text)
        # The second reader refuses keys that stand twice; by itself it reads much that is no data.
        if value != coerce(text, "string", target):
            return MISSING
    return value if get_kind(value) == target else MISSING


def _parse_literal(text: str) -> Any:
    """The data that a text is in Python, a tuple as a list; MISSING if it is something else."""
    try:
        value = ast.literal_eval(text.strip())
        json.dumps(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return MISSING
    return list(value) if isinstance(value, tuple) else value


def _begins_container(value: JSON) -> bool:
    """Whether a value is a string that begins as a list or an object does. Such a string is no item of a list."""
    return isinstance(value, str) and value.lstrip().startswith(_OPENERS)


def _list_kinds(schema: Schema) -> tuple[str, ...]:
    """The types that a schema allows; those of its choices where it names none; empty if it allows any."""
    choices = schema.get("enum")
    if "type" in schema or not isinstance(choices, list):
        return list_types(schema)
    return tuple(dict.fromkeys(map(get_kind, choices)))


def _allows(kinds: Sequence[str], kind: str) -> bool:
    """Whether a value of this kind may be accepted. A number in JSON is not known as an integer at its beginning."""
    return not kinds or kind in kinds or (kind in _NUMBERS and not set(kinds).isdisjoint(_NUMBERS))


def _gather(value: JSON, fitted: JSON, parts: Iterable[Fitted]) -> Fitted:
    """A container whose parts were fitted; `value` itself if nothing in them was changed."""
    changes = tuple(chain.from_iterable(each.changes for each in parts))
    return Fitted(fitted, changes) if changes else Fitted(value)
