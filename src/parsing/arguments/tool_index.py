"""The offered tools, found by the name a model wrote.

A name is looked up as written, then without case and punctuation, then without a namespace before it or a counter
behind it, then as the last part of exactly one offered name; similarity is never enough. Few of each are dropped, and
a name that is much longer than those on offer is none, so that what a model repeats without end costs little.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...types.lazy_pattern import LazyPattern
from ...types.messages import ToolDefinition
from .indexed_tool import IndexedTool, as_schema

NAMESPACES = frozenset(("functions", "function", "tools", "tool", "default_api", "api", "tool_code"))
_PUNCTUATION = re.compile(r"[\W_]+")
_JOINT = r"(?:[.:/]+|__+)"  # between a namespace and a name
_PARTS = LazyPattern(_JOINT)
_CALL = "call:"  # Gemma's, before a name
_NAMESPACE = LazyPattern(rf"(?:{'|'.join(sorted(NAMESPACES))}){_JOINT}|{_CALL}")
_SUFFIX = LazyPattern(r"(?::\d+|\(call[-_ ]?\d+\)|\(\)|\.(?:call|run|invoke|execute)|<\|.*)\Z", re.DOTALL)
_SUFFIX_PREFIX = (  # compiled when needed: that takes 7 ms
    r"(?::\d*|\.(?:c(?:a(?:ll?)?)?|r(?:un?)?|i(?:n(?:v(?:o(?:ke?)?)?)?)?|e(?:x(?:e(?:c(?:u(?:te?)?)?)?)?)?)?)\Z"
)
_MAX_NAMESPACES = _MAX_SUFFIXES = 3  # of a name
_MAX_DECORATION_CHARS = 256  # all that stands around a name
_MIN_SIMILARITY = 0.5
_REMEMBERED = 4096  # words that were looked up


class NameIndex:
    """The names on offer, and the aliases of some, in the spellings that are looked up."""

    def __init__(self, names: tuple[str, ...], aliases: tuple[tuple[str, str], ...]) -> None:
        self._names = frozenset(names)
        self._aliases = frozenset(alias for alias, _ in aliases)
        self._by_normalized: dict[str, str] = {}
        self._by_tail: dict[str, str] = {}
        for name in names:
            _add_unique(self._by_normalized, normalize(name), name)
            _add_unique(self._by_tail, normalize(_PARTS.split(name)[-1]), name)
        for alias, name in aliases:
            self._by_normalized.setdefault(normalize(alias), name)
        for table in (self._by_normalized, self._by_tail):
            table.pop("", None)  # punctuation alone is similar to nothing
        self._begun = sorted([*self._by_normalized, *map(normalize, (*NAMESPACES, _CALL)), *self._by_tail])
        self._max_chars = max(map(len, (*names, *self._aliases)), default=0) + _MAX_DECORATION_CHARS
        # Answers repeat their words.
        self._find = functools.lru_cache(_REMEMBERED)(self._look_up)
        self.names_tool = functools.lru_cache(_REMEMBERED)(self._names_tool)
        self.is_name_prefix = functools.lru_cache(_REMEMBERED)(self._is_name_prefix)

    def find(self, written: str) -> str | None:
        """The offered name that `written` means, or None."""
        return self._find(written) if len(written) <= self._max_chars else None

    def _look_up(self, written: str) -> str | None:
        if written in self._names:
            return written
        bare = _strip_decoration(written)
        for reading in _read_name(bare):
            if name := self._by_normalized.get(normalize(reading)):
                return name
        for form in reversed([*_drop_suffixes(bare)]):
            if name := self._find_end(form):
                return name
        return None

    def _find_end(self, word: str) -> str | None:
        """The tool whose name the last parts of a word are, or whose own last part the word is."""
        parts: list[str] = _PARTS.split(word)[-6:]
        if parts[-1] in self._names:  # another name may differ from it in punctuation alone
            return parts[-1]
        for start in range(1, len(parts)):
            if name := self._by_normalized.get(normalize("".join(parts[start:]))):
                return name
        return self._by_tail.get(normalize(word))

    def is_exact(self, written: str) -> bool:
        """Whether `written` is an offered name, but for what formats put around one: `functions.read:0`, `**read**`."""
        return any(
            reading in self._names or reading in self._aliases for reading in _read_name(_strip_decoration(written))
        )

    def _names_tool(self, word: str) -> bool:
        """Whether `word`, which precedes a bracket, names a tool; only the usual namespaces may precede the name."""
        if len(word) > self._max_chars:
            return False
        for reading in _read_name(word.replace("\\", "")):
            parts, name = _PARTS.split(reading), normalize(reading)
            is_name = self._by_normalized.get(name) or (len(parts) == 1 and self._by_tail.get(name))
            if is_name and all(map(normalize, parts)):
                return True
        return False

    def _is_name_prefix(self, word: str) -> bool:
        """Whether `word` may be the beginning of a word for which names_tool is true."""
        if word.isalnum():
            return self._begins_name(word.casefold())
        # Of the beginning of a name, a shorter beginning is one, too: so all that looks like a suffix may go.
        *_, word = _drop_suffixes(re.sub(_SUFFIX_PREFIX, "", word.replace("\\", "")))
        return any(self._begins_name(normalize(rest)) for rest in _drop_namespaces(word))

    def _begins_name(self, word: str) -> bool:
        at = bisect_left(self._begun, word)  # where the names that begin with it stand
        return at < len(self._begun) and self._begun[at].startswith(word)


_index_names = functools.lru_cache(maxsize=16)(NameIndex)  # the next answer mostly has the same tools on offer


class ToolIndex:
    """Finds tools by name. `offered` are ToolDefinitions or OpenAI tool objects; anything else is left out."""

    def __init__(self, offered: Iterable[ToolDefinition | Mapping[str, Any]]) -> None:
        self.tools = {name: tool for tool in offered if (name := _read_name_of(tool))}
        definitions = [tool for tool in self.tools.values() if isinstance(tool, ToolDefinition)]
        aliases = tuple((alias, tool.name) for tool in definitions for alias in tool.aliases)
        self.names = _index_names(tuple(self.tools), aliases)
        self._indexed: dict[str, IndexedTool] = {}  # the tools that were found

    def find(self, written: str) -> IndexedTool | None:
        """The offered tool that `written` names, or None."""
        name = self.names.find(written)
        if not name:
            return None
        if name not in self._indexed:
            self._indexed[name] = IndexedTool(name, _read_schema(self.tools[name]))
        return self._indexed[name]

    def find_nearest(self, written: str) -> list[str]:
        """Up to three offered names that are similar to `written`, the most similar first."""
        import difflib  # only needed once a model wrote a wrong name

        return difflib.get_close_matches(written[:100], self.tools, n=3, cutoff=_MIN_SIMILARITY)


def _strip_decoration(written: str) -> str:
    return written.replace("\\", "").strip(" \t\r\n\"'`*")


def _read_name(word: str) -> Iterator[str]:
    """What a word may say, the most likely first: `functions.run:0` is `run`, and `read.run` is `read`."""
    for form in _drop_suffixes(word):
        yield from _drop_namespaces(form)


def _drop_suffixes(word: str) -> Iterator[str]:
    """A word, and then without what formats put behind a name, one after the other."""
    yield word
    for _ in range(_MAX_SUFFIXES):
        suffix = _SUFFIX.search(word)
        if not suffix:
            return
        yield (word := word[: suffix.start()])


def _drop_namespaces(word: str) -> Iterator[str]:
    """A word, and then without the namespaces before it, one after the other."""
    yield word
    for _ in range(_MAX_NAMESPACES):
        namespace = _NAMESPACE.match(word)
        if not namespace:
            return
        yield (word := word[namespace.end() :].lstrip("*`"))


def normalize(name: str) -> str:
    """The name without case and punctuation."""
    return _PUNCTUATION.sub("", name).casefold()


def _add_unique(table: dict[str, str], key: str, name: str) -> None:
    """Adds an entry; a key that two names share finds neither."""
    if table.setdefault(key, name) != name:
        table[key] = ""


def _read_name_of(offered: object) -> str:
    """The name of an offered tool; empty if it is neither a ToolDefinition nor a tool object."""
    name = offered.name if isinstance(offered, ToolDefinition) else _read_function(offered).get("name")
    return name if isinstance(name, str) else ""


def _read_schema(offered: object) -> Mapping[str, Any]:
    if isinstance(offered, ToolDefinition):
        return offered.parameters
    function = _read_function(offered)
    return as_schema(function.get("parameters") or function.get("input_schema"))


def _read_function(offered: object) -> Mapping[str, Any]:
    return as_schema(as_schema(offered).get("function", offered))
