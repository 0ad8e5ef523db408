"""A second reading of a command line, by tree-sitter-bash, which knows the whole language. Pure.

`confirm` compares it with ours; `commands` finds all commands in a line, however deep, for the rules that deny.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from .unclear import Unclear

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation"})
KNOWN = WORDS | {
    "program",
    "list",
    "pipeline",
    "command",
    "command_name",
    "redirected_statement",
    "file_redirect",
    "file_descriptor",
    "herestring_redirect",
    "heredoc_redirect",
    "heredoc_start",
    "heredoc_body",
    "heredoc_content",
    "heredoc_end",
    "string_content",
    "comment",
}


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter  # only who has a command to judge pays for it
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(source: str) -> Node:
    """The tree of a command line, which must hold no lone surrogate."""
    return _parser().parse(source.encode("utf-8")).root_node


def confirm(source: str, words: Sequence[tuple[int, int]], names: Sequence[int]) -> None:
    """Unclear unless tree-sitter sees these words, from character to character, and commands that begin at these."""
    root = parse(source)
    if root.has_error:
        raise Unclear("it is no correct command line")
    seen: list[tuple[int, int]] = []
    begun: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type not in KNOWN:
            raise Unclear(f"it holds more than simple commands ({node.type.replace('_', ' ')})")
        if node.type in WORDS:
            _refuse_inner(node)
            seen.append((node.start_byte, node.end_byte))
            continue
        if node.type == "command_name":
            begun.append(node.start_byte)
        stack.extend(node.named_children)
    if not source.isascii():
        words = [(_bytes(source, start), _bytes(source, end)) for start, end in words]
        names = [_bytes(source, start) for start in names]
    if sorted(seen) != sorted(words) or sorted(begun) != sorted(names):
        raise Unclear("it can be read in more than one way")


def _refuse_inner(word: Node) -> None:
    stack = list(word.named_children)
    while stack:
        node = stack.pop()
        if node.type not in KNOWN:
            raise Unclear(f"it holds more than simple commands ({node.type.replace('_', ' ')})")
        stack.extend(node.named_children)


def _bytes(source: str, at: int) -> int:
    return len(source[:at].encode("utf-8"))
