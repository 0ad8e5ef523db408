"""Which schemas a server can hold a call's arguments to (`strict: true`). Pure.

Without it, vLLM constrains at most the frame of a native call, not its arguments. One schema that cannot become a
grammar makes the server refuse the whole request, so `strict` is only used for keywords known to work; a tool with any
other keyword is offered without it. Measured on vLLM 0.32 (xgrammar), which refuses
`pattern` with look-around, references that lead nowhere and numbers beyond 64 bits, and passes over
`multipleOf` and `uniqueItems`; OpenAI's rules are those of its guide to structured outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..types.messages import JSON

_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema"})
_PINNED = frozenset({"type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items"})
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"})
_LARGEST = 2**53


def grammatical(schema: Mapping[str, JSON]) -> bool:
    """Whether vLLM can make a grammar of it."""
    return all(map(_is_plain, _schemas(schema)))


def closed(schema: Mapping[str, JSON]) -> bool:
    """Whether OpenAI accepts it as strict: every object lists all its properties and requires them."""
    return grammatical(schema) and all(map(_is_closed, _schemas(schema)))


def never(_: Mapping[str, JSON]) -> bool:
    """For servers without strict tools."""
    return False


def _schemas(schema: object) -> Iterator[object]:
    """The schema and all schemas in it, even invalid ones."""
    yield schema
    if not isinstance(schema, Mapping):
        return
    properties, choices = schema.get("properties", {}), schema.get("anyOf", [])
    inner: list[object] = [*(properties.values() if isinstance(properties, Mapping) else [properties])]
    inner += choices if isinstance(choices, list) else [choices]
    inner += [schema[key] for key in ("items", "additionalProperties") if not isinstance(schema.get(key, True), bool)]
    for each in inner:
        yield from _schemas(each)


def _is_plain(schema: object) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _ANNOTATIONS | _PINNED | _BOUNDS:
        return False
    kinds = schema.get("type", [])
    if not _TYPES.issuperset(kinds if isinstance(kinds, list) else [kinds]):
        return False
    bounds = [schema[key] for key in _BOUNDS if key in schema]
    if not all(isinstance(bound, (int, float)) and abs(bound) <= _LARGEST for bound in bounds):
        return False
    return all(_in_order(schema, f"min{of}", f"max{of}") for of in ("imum", "Items", "Length"))


def _in_order(schema: Mapping[str, JSON], least: str, most: str) -> bool:
    low, high = schema.get(least), schema.get(most)
    return not (isinstance(low, (int, float)) and isinstance(high, (int, float))) or low <= high


def _is_closed(schema: object) -> bool:
    if not isinstance(schema, Mapping) or ("properties" not in schema and schema.get("type") != "object"):
        return True
    properties, required = schema.get("properties", {}), schema.get("required", [])
    named = set(properties) if isinstance(properties, Mapping) else set()
    needed = set(map(str, required)) if isinstance(required, list) else set()
    return schema.get("additionalProperties") is False and named == needed
