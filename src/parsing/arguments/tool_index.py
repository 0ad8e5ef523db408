"""The offered tools, found by the name a model wrote.

A name is looked up as written, then without case and punctuation, then without a namespace before it or a counter
behind it, then as the last part of exactly one offered name; similarity is never enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from ...types.messages import ToolDefinition

NAMESPACES = frozenset(("functions", "function", "tools", "tool", "default_api", "api", "tool_code"))
_PUNCTUATION = re.compile(r"[\W_]+")
_PARTS = re.compile(r"[.:/]+|__+")
_SUFFIX = re.compile(r"(?::\d+|\(call[-_ ]?\d+\)|\(\)|\.(?:call|run|invoke|execute)|<\|.*)\Z", re.DOTALL)
_SUFFIX_PREFIX = (  # compiled when needed: that takes 7 ms
    r"(?::\d*|\.(?:c(?:a(?:ll?)?)?|r(?:un?)?|i(?:n(?:v(?:o(?:ke?)?)?)?)?|e(?:x(?:e(?:c(?:u(?:te?)?)?)?)?)?)?)\Z"
)
_MIN_SIMILARITY = 0.5
_SCALARS = {"string": str, "integer": int, "boolean": bool, "number": float}
_CONSTRAINTS = frozenset(("enum", "anyOf", "oneOf", "$ref"))


class IndexedTool(NamedTuple):
    """A tool, and of its schema what fitting needs; `scalar_types` has the parameters of one scalar type alone."""

    name: str
    schema: Mapping[str, Any]
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    scalar_types: Mapping[str, type]


class ToolIndex:
    """Finds tools by name. `offered` are ToolDefinitions or OpenAI tool objects; anything else is left out."""

    def __init__(self, offered: Iterable[ToolDefinition | Mapping[str, Any]]) -> None:
        given = list(offered)
        self.tools = {tool.name: tool for tool in map(_index_tool, given) if tool.name}
        self._aliases = {
            alias: tool.name for tool in given if isinstance(tool, ToolDefinition) for alias in tool.aliases
        }
        self._by_normalized: dict[str, str] = {}
        self._by_tail: dict[str, str] = {}
        for name in self.tools:
            _add_unique(self._by_normalized, normalize(name), name)
            _add_unique(self._by_tail, normalize(_PARTS.split(name)[-1]), name)
        for alias, name in self._aliases.items():
            self._by_normalized.setdefault(normalize(alias), name)
        self._found: dict[str, IndexedTool | None] = {}
        self._leads: dict[str, bool] = {}
        self._prefixes: frozenset[str] = frozenset()
        self._are_prefixes: dict[str, bool] = {}
        self._mention: re.Pattern[str] | None = None

    def find(self, written: str) -> IndexedTool | None:
        """The offered tool that `written` names, or None."""
        if written not in self._found:
            _limit_size(self._found)
            self._found[written] = self._look_up(written)
        return self._found[written]

    def _look_up(self, written: str) -> IndexedTool | None:
        if tool := self.tools.get(written):
            return tool
        bare = written.replace("\\", "").strip(" \t\r\n\"'`*")
        while len(shorter := _SUFFIX.sub("", bare)) < len(bare):
            if name := self._by_normalized.get(normalize(bare)):
                return self.tools[name]
            bare = shorter
        parts = _PARTS.split(bare)[-6:]
        if tool := self.tools.get(parts[-1]):  # another name may differ from it in punctuation alone
            return tool
        for start in range(len(parts)):
            if name := self._by_normalized.get(normalize("".join(parts[start:]))):
                return self.tools[name]
        name = self._by_tail.get(normalize(bare), "")
        return self.tools.get(name)

    def mentions_name(self, text: str) -> bool:
        """Whether an offered name stands in the text as one does in a call: between quotes, tags or brackets."""
        if self._mention is None:
            names = "|".join(map(re.escape, self.tools)) or r"(?!)"
            self._mention = re.compile(rf"(?<=[\"'=>:.])(?:{names})(?=[\"'<>({{:\s])")
        return self._mention.search(text) is not None

    def is_exact(self, written: str) -> bool:
        """Whether `written` is an offered name, but for what formats put around one: `functions.read:0`, `**read**`."""
        bare = written.replace("\\", "").strip(" \t\r\n\"'`*")
        while not self._has(bare) and len(shorter := _SUFFIX.sub("", bare)) < len(bare):
            bare = shorter
        lead, _, rest = bare.partition(".")
        return self._has(bare) or (lead in NAMESPACES and self._has(rest))

    def _has(self, name: str) -> bool:
        return name in self.tools or name in self._aliases

    def names_tool(self, word: str) -> bool:
        """Whether `word`, which precedes a bracket, names a tool; only the usual namespaces may precede the name."""
        if word not in self._leads:
            _limit_size(self._leads)
            self._leads[word] = self._names_tool(word)
        return self._leads[word]

    def _names_tool(self, word: str) -> bool:
        bare = _SUFFIX.sub("", word.replace("\\", ""))
        parts = _PARTS.split(bare)
        if len(parts) > 1 and parts[0] in NAMESPACES:
            return self._names_tool(bare[len(parts[0]) + 1 :])
        if not all(map(normalize, parts)):
            return False
        return bool(
            self._by_normalized.get(normalize(bare)) or (len(parts) == 1 and self._by_tail.get(normalize(bare)))
        )

    def is_name_prefix(self, word: str) -> bool:
        """Whether `word` may be the beginning of a tool's name, with or without a namespace."""
        if word not in self._are_prefixes:
            _limit_size(self._are_prefixes)
            self._are_prefixes[word] = self._is_name_prefix(word)
        return self._are_prefixes[word]

    def _is_name_prefix(self, word: str) -> bool:
        if not self._prefixes:
            names = [*self._by_normalized, *(normalize(name) for name in NAMESPACES), *self._by_tail]
            self._prefixes = frozenset(name[:end] for name in names for end in range(len(name) + 1))
        word = re.sub(_SUFFIX_PREFIX, "", word.replace("\\", ""))
        head, dot, rest = word.rpartition(".")
        return normalize(word) in self._prefixes or bool(
            dot and head in NAMESPACES and normalize(rest) in self._prefixes
        )

    def find_nearest(self, written: str) -> list[str]:
        """Up to three offered names that are similar to `written`, the most similar first."""
        import difflib  # only needed once a model wrote a wrong name

        return difflib.get_close_matches(written[:100], self.tools, n=3, cutoff=_MIN_SIMILARITY)


def normalize(name: str) -> str:
    """The name without case and punctuation."""
    return _PUNCTUATION.sub("", name).casefold()


def _limit_size(remembered: dict[str, Any]) -> None:
    """Bounds a cache: models may write any number of names."""
    if len(remembered) > 1000:
        remembered.clear()


def _add_unique(table: dict[str, str], key: str, name: str) -> None:
    """Adds an entry; a key that two names share finds neither."""
    table[key] = "" if table.get(key, name) != name else name


def _index_tool(offered: ToolDefinition | Mapping[str, Any]) -> IndexedTool:
    name, schema = "", cast("Mapping[str, Any]", {})
    if isinstance(offered, ToolDefinition):
        name, schema = offered.name, offered.parameters
    elif isinstance(function := offered.get("function", offered), Mapping):
        name = str(function.get("name", ""))
        schema = function.get("parameters") or function.get("input_schema") or {}
    listed, required = schema.get("properties"), schema.get("required")
    properties = listed if isinstance(listed, Mapping) else {}
    scalar_types = {
        key: _SCALARS[each["type"]]
        for key, each in properties.items()
        if isinstance(each, Mapping) and _is_scalar(each.get("type")) and _CONSTRAINTS.isdisjoint(each)
    }
    needed = tuple(map(str, required)) if isinstance(required, (list, tuple)) else ()
    return IndexedTool(name, schema, properties, needed, scalar_types)


def _is_scalar(kind: object) -> bool:
    return isinstance(kind, str) and kind in _SCALARS
