"""Fits arguments to the tool's schema and notes what it changed. Raises ArgumentMismatch if they do not fit.

Only the schema decides: "5" becomes 5 where an integer is required, and "02134" stays a string where a string is. The
type that a value's tag declares counts where the schema leaves it open. Arguments that fit are returned unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Any

from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON
from ..decode.call_shapes import ARGUMENT_KEYS
from ..decode.json_repair import read_whole
from ..decode.nodes import CallNode, DeclaredText, Guess, Node, Source, UnreadableValue
from ..decode.scalars import eval_constant
from ..decode.xml import NULLS, Markup, group_children, parse_elements, parse_structure
from .coerce import KINDS, MISSING, coerce, get_kind, parse_literal, unwrap
from .indexed_tool import ANY, IndexedTool, as_schema, list_required
from .tool_index import normalize

MAX_DEPTH = 100
_PLAIN_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}  # and no subclass
_SOLE_TYPES = {kind: (kind,) for kind in KINDS.values()}
_REFERENCES = frozenset(("anyOf", "oneOf", "$ref"))
_CONSTRAINTS = _REFERENCES | {"enum"}
_SYNONYMS = (  # as other agents call the parameters of the same tools
    ("path", "file_path", "file", "filename", "absolute_path", "target_file"),
    ("path", "dir", "directory", "folder"),
    ("command", "cmd"),
    ("old_text", "old_string", "old_str"),
    ("new_text", "new_string", "new_str"),
    ("content", "contents", "file_text", "text"),
    ("pattern", "regex", "query"),
)
_GROUPS: dict[str, set[str]] = {}
for _group in _SYNONYMS:
    for _name in _group:
        _GROUPS.setdefault(normalize(_name), set()).update(map(normalize, _group))

_BY_ORDER = Guess("values without names")
_TEXT_TO_NULL = Guess("text to null")  # of an untyped parameter
_TYPE_NAMES = {
    "dict": "object", "map": "object", "float": "number", "double": "number", "int": "integer", "str": "string",
    "bool": "boolean", "list": "array", "tuple": "array",
}  # fmt: skip
_NAME_LEADS = ("params", "param", "parameters", "parameter", "args", "arg", "arguments")  # as in `params_x=1`
_PAIR_TEXT = LazyPattern(r"\s*[^\W\d]\w{0,63}\s*=(?!=)")


class ArgumentMismatch(ValueError):
    """The arguments do not fit; the message names the parameter, what was expected and what was given."""


class Fitter:
    """Fits one call's arguments; `changes` names what was changed in them, as an ordered set.

    Unless `lenient`, arguments that the schema does not declare, and a parameter's own name in place of its value,
    do not fit: the text may not be meant as a call.
    """

    def __init__(self, tool: IndexedTool, *, lenient: bool = True) -> None:
        self._tool = tool
        self._lenient = lenient
        self.changes: dict[str, None] = {}

    def fit(self, given: Mapping[str, Node], positional: list[Node]) -> dict[str, JSON]:
        """The arguments as the schema requires them. Raises ArgumentMismatch."""
        tool = self._tool
        fits = not positional and all(map(given.__contains__, tool.required))
        if fits and all(map(_fits_plainly, given.values(), map(tool.properties.get, given))):
            return dict(given)  # type: ignore[arg-type]  # all are plain values
        try:
            fitted = self._fit_each(self._unwrap_arguments(given), positional)
        except RecursionError:
            raise ArgumentMismatch("The arguments are nested too deep.") from None
        for name in tool.required:
            if name not in fitted and name in tool.properties:
                expected = _describe(tool.properties[name])
                raise ArgumentMismatch(f"{tool.name}: the required parameter '{name}' ({expected}) is missing.")
        return fitted

    def _fit_each(self, given: Mapping[str, Node], positional: list[Node]) -> dict[str, JSON]:
        tool, fitted = self._tool, dict[str, JSON]()
        for name, value in self._place_positional(self._match_names(given, positional), positional).items():
            schema = tool.properties.get(name, ANY)
            if isinstance(value, DeclaredText):
                value = self._read_declared(value, schema)
            is_optional = name in tool.properties and name not in tool.required
            if value is None and is_optional and not accepts_kind(tool, schema, "null"):
                self.changes[f"{name} null"] = None
                continue
            fitted[name] = self.fit_value(value, schema, name, 0)
        return fitted

    def _read_declared(self, text: DeclaredText, schema: object) -> Node:
        """The value that the text is in JSON; the text itself if it is none, or if the schema takes only that."""
        try:
            value = read_whole(text)
        except UnreadableValue:
            return str(text)
        accepts = partial(accepts_kind, self._tool, schema)
        if accepts("string") and not accepts(get_kind(value)):
            return str(text)
        return value

    def _unwrap_arguments(self, given: Mapping[str, Node]) -> Mapping[str, Node]:
        """The arguments in `{"arguments": {...}}`, if the tool has no parameter of that name."""
        key = next(iter(given), "")
        if len(given) != 1 or key not in ARGUMENT_KEYS or match_parameter(self._tool, key):
            return given
        inner = given[key]
        if isinstance(inner, str):
            inner = group_children(inner) or parse_literal(inner)
        if not isinstance(inner, dict) or not self._are_arguments(inner):
            return given
        self.changes[f"arguments in '{key}'"] = None
        return inner

    def _match_names(self, given: Mapping[str, Node], positional: list[Node]) -> dict[str, Node]:
        """The keyword arguments under the names that the schema has for them."""
        if positional and not given:
            given = self._name_positional(positional)
        named: dict[str, Node] = {}
        for name, value in given.items():
            target = self._match_name(name, given)
            if target != name:
                self.changes[f"{name} for {target}"] = None
            named[target] = value
        return named

    def _name_positional(self, positional: list[Node]) -> Mapping[str, Node]:
        """Arguments in one object, or in strings (`"path=a.txt"`), which are then no longer positional."""
        only, named = positional[0], dict[str, Node]()
        if len(positional) == 1 and isinstance(only, dict) and self._are_arguments(only):
            named = only
        elif all(_PAIR_TEXT.match(str(item)) for item in positional):
            pairs = [str(item).partition("=") for item in positional]
            if not all(match_parameter(self._tool, name.strip()) for name, _, _ in pairs):
                return {}
            named = {name.strip(): parse_literal(text.strip()) for name, _, text in pairs}
        else:
            return {}
        positional.clear()
        self.changes["positional arguments"] = None
        return named

    def _are_arguments(self, value: Mapping[str, Node]) -> bool:
        return not value or any(match_parameter(self._tool, name, value) for name in value)

    def _match_name(self, name: str, given: Mapping[str, Node]) -> str:
        if not self._tool.properties:
            return name
        if parameter := match_parameter(self._tool, name, given):
            return parameter
        if not self._lenient or self._tool.schema.get("additionalProperties") is False:
            declared = ", ".join(self._tool.properties) or "none"
            raise ArgumentMismatch(f"{self._tool.name} has no parameter '{name}'; its parameters are: {declared}.")
        return name

    def _place_positional(self, named: dict[str, Node], positional: list[Node]) -> dict[str, Node]:
        free = [name for name in self._tool.properties if name not in named]
        if len(positional) > len(free):
            raise ArgumentMismatch(f"{self._tool.name} takes {len(self._tool.properties)} arguments; more were given.")
        if positional:
            self.changes[_BY_ORDER] = None
        return {**dict(zip(free, positional, strict=False)), **named}

    def fit_value(self, value: Node, schema: object, path: str, depth: int) -> JSON:
        """The value as `schema` requires it; `path` names it in messages. Raises ArgumentMismatch."""
        if depth > MAX_DEPTH:
            raise ArgumentMismatch(f"Parameter '{path}' is nested too deep.")
        if _fits_plainly(value, schema):
            return value  # type: ignore[return-value]  # no node of source text
        options = self._tool.list_alternatives(schema)
        if isinstance(value, Markup) and value in NULLS and self._takes_null(options):
            return None
        if len(options) > 1:
            return self._fit_any(value, options, path, depth)
        (schema,) = options
        kind, types = get_kind(value), list_types(schema)
        if not _admits(types, kind):
            value = self._coerce(value, kind, types, schema, path)
        fitted = self._fit_inner(value, schema, path, depth)
        return self._match_choice(fitted, schema, path)

    def _takes_null(self, options: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the word for null is null where these schemas are, which a schema without a type leaves open."""
        if len(options) == 1 and not list_types(options[0]):
            self.changes[_TEXT_TO_NULL] = None
            return True
        return any("null" in list_types(option) for option in options)

    def _fit_any(self, value: Node, options: Sequence[Mapping[str, Any]], path: str, depth: int) -> JSON:
        kind = get_kind(value)
        mismatch = ArgumentMismatch(f"Parameter '{path}' fits none of its alternatives.")
        for option in sorted(options, key=lambda option: kind not in list_types(option)):
            try:
                return self.fit_value(value, option, path, depth + 1)
            except ArgumentMismatch as error:
                mismatch = error
        raise mismatch

    def _coerce(self, value: Node, kind: str, types: tuple[str, ...], schema: Mapping[str, Any], path: str) -> Node:
        if isinstance(value, Markup) and isinstance(parts := parse_elements(value, types[0]), (dict, list)):
            self.changes[f"{path} elements to {types[0]}"] = None
            return parts
        inner = unwrap(value, types)
        if inner is not MISSING:
            self.changes[f"{path} {kind} to the value in it"] = None
            value, kind = inner, get_kind(inner)
            if kind in types:
                return value
        for target in types:
            node: Node = coerce(value, kind, target)
            if node is not MISSING:
                self.changes[f"{path} {kind} to {target}"] = None
                return node
        if "array" in types and (items := make_items(value, kind, schema)):
            self.changes[f"{path} {kind} to array"] = None
            return items
        if isinstance(value, (Source, CallNode)) and "string" in types and self._is_text(value, path):
            return str(value)
        raise ArgumentMismatch(f"Parameter '{path}' must be {_describe(schema)}; {_shorten(value)} was given.")

    def _is_text(self, value: Source | CallNode, path: str) -> bool:
        """Whether source text may stand for a string; the parameter's own name is a variable."""
        return self._lenient or isinstance(value, CallNode) or normalize(value) != normalize(path)

    def _fit_inner(self, value: Node, schema: Mapping[str, Any], path: str, depth: int) -> JSON:
        if isinstance(value, list):
            items = schema.get("items", ANY)
            return [self.fit_value(item, items, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return self._fit_object(value, schema, path, depth)
        if isinstance(value, (Source, CallNode)):
            return self._fit_source(value, schema, path)
        if isinstance(value, Markup):
            if list_types(schema):
                return str(value)
            return self._fit_inner(parse_structure(value), schema, path, depth)
        return value

    def _fit_source(self, value: Source | CallNode, schema: Mapping[str, Any], path: str) -> JSON:
        """Source text as a text; where the schema has no type, arithmetic is the number that it stands for."""
        number = eval_constant(str(value))
        if number is not None and not list_types(schema):
            return number
        if not self._is_text(value, path):
            raise ArgumentMismatch(f"Parameter '{path}' is {_shorten(value)}, which is not a value.")
        return str(value)

    def _fit_object(self, value: dict[str, Node], schema: Mapping[str, Any], path: str, depth: int) -> JSON:
        declared, others = as_schema(schema.get("properties")), as_schema(schema.get("additionalProperties"))
        fitted = {
            key: self.fit_value(item, declared.get(key, others), f"{path}.{key}", depth + 1)
            for key, item in value.items()
        }
        missing = [key for key in list_required(schema) if key not in fitted]
        if missing and declared:
            raise ArgumentMismatch(f"Parameter '{path}' lacks its required member '{missing[0]}'.")
        return fitted

    def _match_choice(self, value: JSON, schema: Mapping[str, Any], path: str) -> JSON:
        if _is_choice(value, schema):
            return value
        choices = schema["enum"]
        if isinstance(value, list) and all(item in choices for item in value):
            return value  # the enum was meant for the items
        same = list_choices(value, schema)
        if len(same) == 1:
            self.changes[f"{path} spelling"] = None
            return same[0]
        listed = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices[:20])
        raise ArgumentMismatch(f"Parameter '{path}' must be one of {listed}; {_shorten(value)} was given.")


def _fits_plainly(value: Node, schema: object) -> bool:
    """Whether a plain value has the type of its schema, which asks for nothing else that would have to be checked."""
    kind = _PLAIN_KINDS.get(type(value))
    if kind is None or not isinstance(schema, dict) or schema.get("type", kind) != kind:
        return False
    return _CONSTRAINTS.isdisjoint(schema) or (_is_choice(value, schema) and _REFERENCES.isdisjoint(schema))


def _is_choice(value: Node, schema: Mapping[str, Any]) -> bool:
    choices = schema.get("enum")
    return not isinstance(choices, list) or value in choices


def list_choices(value: JSON, schema: Mapping[str, Any]) -> list[JSON]:
    """The choices that are spelled like the value, a text, but for case and punctuation; none for punctuation alone."""
    choices, spelling = schema.get("enum"), isinstance(value, str) and normalize(value)
    if not spelling or not isinstance(choices, list):
        return []
    return [each for each in choices if isinstance(each, str) and normalize(each) == spelling]


def match_parameter(tool: IndexedTool, name: str, given: Container[str] = ()) -> str | None:
    """The parameter that `name` means, by its spelling or as a usual synonym, and that is not `given` by its own."""
    if name in tool.properties:
        return name
    key, free = normalize(name), (parameter for parameter in tool.properties if parameter not in given)
    spellings = {parameter: normalize(parameter) for parameter in free}
    # A name may be written with the word for all arguments before it: `params_city`.
    stripped = {key.removeprefix(lead) for lead in _NAME_LEADS if key.startswith(lead)}
    for meanings in ({key}, _GROUPS.get(key, ()), stripped):
        same = [parameter for parameter, spelling in spellings.items() if spelling in meanings]
        if same:
            return same[0] if len(same) == 1 else None
    return None


def make_items(value: Node, kind: str, schema: Mapping[str, Any]) -> list[Node]:
    """The items of a list that one value stands for; none if it cannot.

    A string may list several choices of the items' enum, divided by commas.
    """
    items = as_schema(schema.get("items"))
    choices = items.get("enum")
    if isinstance(value, str) and isinstance(choices, list) and value not in choices:
        parts: list[Node] = [part.strip() for part in value.split(",")]
        if all(part in choices for part in parts):
            return parts
    if kind in ("object", "null", "source") and kind not in list_types(items):
        return []
    return [value]


def list_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The types a schema allows, by JSON Schema's names; empty if it allows any."""
    named = schema.get("type")
    if isinstance(named, str):
        if named in _SOLE_TYPES and "nullable" not in schema:  # most are so, and many are asked for
            return _SOLE_TYPES[named]
        named = [named]
    if not isinstance(named, list):
        return ()
    types = [_TYPE_NAMES.get(str(name).lower(), str(name).lower()) for name in named]
    if schema.get("nullable") is True and types:
        types.append("null")
    if not _SOLE_TYPES.keys() >= set(types):
        return ()
    return tuple(types)


def accepts_kind(tool: IndexedTool, schema: object, kind: str) -> bool:
    """Whether a schema of the tool takes some values of this JSON type."""
    return any(_admits(list_types(option), kind) for option in tool.list_alternatives(schema))


def _admits(types: Container[str], kind: str) -> bool:
    """Whether a value of this JSON type is of one of the types; of any if there are none."""
    return not types or kind in types or (kind == "integer" and "number" in types)


def _describe(schema: object) -> str:
    return " or ".join(list_types(as_schema(schema))) or "any value"


def _shorten(value: object) -> str:
    text = repr(value)
    if isinstance(value, (CallNode, Source)):
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
