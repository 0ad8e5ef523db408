"""Elements inside the text of a value. Values are text, and the schema decides what type they become."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...types.lazy_pattern import LazyPattern
from ..formats.tag_syntax import NOISE
from .nodes import Node

_ELEMENT = LazyPattern(r"<([A-Za-z_][\w.-]{0,63})(?:\s[^<>]*)?>")
_CDATA = LazyPattern(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_MAX_DEPTH = 20
_EMPTY: dict[str, Callable[[], Node]] = {"object": dict, "array": list}
NULLS = frozenset(("null", "None"))  # what templates write for no value


class Markup(str):
    """The text of an element; the schema decides whether it is text or more elements."""

    __slots__ = ()


def find_children(text: str) -> list[tuple[str, Node]]:
    """The elements in `text`: their names and contents."""
    children: list[tuple[str, Node]] = []
    position, text = 0, text.replace(NOISE, "")
    if text.lstrip()[:1] != "<" or _CDATA.fullmatch(text):
        return children
    while start := _ELEMENT.search(text, position):
        end = text.find(f"</{start.group(1)}>", start.end())
        if end < 0:
            break
        children.append((start.group(1), Markup(_trim(text[start.end() : end]))))
        position = end + len(start.group(1)) + 3
    return children


def _group(children: list[tuple[str, Node]]) -> dict[str, Node]:
    groups: dict[str, list[Node]] = {}
    for name, value in children:
        groups.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in groups.items()}


def group_children(text: str) -> dict[str, Node]:
    """The elements in `text` by name; those of one name are a list."""
    return _group(find_children(text))


def parse_elements(text: str, kind: str) -> Node:
    """The outermost elements in `text` as a value of this type, or as their names suggest; else the text."""
    children = find_children(text)
    names = {name for name, _ in children}
    if not text.strip() and kind in _EMPTY:
        return _EMPTY[kind]()  # templates write an empty object or list as no elements
    if not children or (kind == "array" and len(names) > 1):
        return str(text)
    if kind != "object" and len(names) == 1:
        return [value for _, value in children]
    return _group(children)


def parse_structure(text: str, depth: int = 0) -> Node:
    """All elements in `text`, as objects, or as lists where they share a name; the text itself if it holds none."""
    children = find_children(text)
    if not children or depth == _MAX_DEPTH:
        return str(text)
    names = {name for name, _ in children}
    deep = [(name, parse_structure(str(value), depth + 1)) for name, value in children]
    if names == {"item"} or (len(names) == 1 and len(children) > 1):
        return [value for _, value in deep]
    return _group(deep)


def _trim(value: str) -> str:
    """The value without the newlines next to its tags; the content of a CDATA section."""
    if section := _CDATA.fullmatch(value):
        return section[1]
    if value[:1] == "\n" or value.count("\n") == 1:
        return value.removeprefix("\n").removesuffix("\n")
    return value
