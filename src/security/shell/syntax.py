"""A second reading of a command line, by tree-sitter-bash, which knows the whole language. Pure.

`confirm` compares it with ours; `commands` finds all commands in a line, however deep, for the rules that deny.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from .unclear import Unclear

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# Variables before a command that change how something looks, and name no file and no program; a / would be a path.
# In some encodings a letter ends in a byte that is an ASCII sign elsewhere, and a script reads as another.
ASSIGNMENT = re.compile(
    r"(?:LC_[A-Z]+|LANG)=(?:C|POSIX|(?:[A-Za-z_]+\.)?[Uu][Tt][Ff]-?8)?"
    "|(?:TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED"
    "|RUST_BACKTRACE)=[A-Za-z0-9_.@+-]*|(?:GIT_)?PAGER=(?:cat)?"
)
WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation"})
KNOWN = WORDS | {
    "program",
    "list",
    "pipeline",
    "command",
    "command_name",
    "subshell",
    "negated_command",
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


def confirm(source: str, words: Sequence[tuple[int, int]], names: Sequence[int], marks: Sequence[int]) -> None:
    """Unclear unless tree-sitter sees the same.

    That is: words from character to character, commands that begin at `names`, groups and negations at `marks`.
    """
    root = parse(source)
    if root.has_error:
        raise Unclear("it is not a valid command line")
    seen: list[tuple[int, int]] = []
    begun: list[int] = []
    marked: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "test_command":
            begun.append(node.start_byte)
            seen += _test_words(node)
            continue
        if node.type == "variable_assignment" and ASSIGNMENT.fullmatch((node.text or b"").decode()):
            seen.append((node.start_byte, node.end_byte))
            continue
        if node.type not in KNOWN:
            raise Unclear(f"it contains more than simple commands ({node.type.replace('_', ' ')})")
        if node.type in WORDS:
            _refuse_inner(node)
            seen.append((node.start_byte, node.end_byte))
            continue
        if node.type == "command_name":
            begun.append(node.start_byte)
        if node.type in ("subshell", "negated_command"):
            marked.append(node.start_byte)
        stack.extend(node.named_children)
    if not source.isascii():
        words = [(_bytes(source, start), _bytes(source, end)) for start, end in words]
        names, marks = ([_bytes(source, start) for start in each] for each in (names, marks))
    if (sorted(seen), sorted(begun), sorted(marked)) != (sorted(words), sorted(names), sorted(marks)):
        raise Unclear("it can be read in more than one way")


def _test_words(test: Node) -> Iterator[tuple[int, int]]:
    """The words of `[ ... ]`, which is a command like any other and has a node of its own."""
    stack = list(test.children)
    while stack:
        node = stack.pop()
        if node.type == "unary_expression":
            stack.extend(node.children)
        elif node.type in WORDS or node.type in ("[", "]", "!", "test_operator"):
            _refuse_inner(node)
            yield node.start_byte, node.end_byte
        else:
            raise Unclear("it tests more than whether a file exists")


def _refuse_inner(word: Node) -> None:
    stack = list(word.named_children)
    while stack:
        node = stack.pop()
        if node.type not in KNOWN:
            raise Unclear(f"it contains more than simple commands ({node.type.replace('_', ' ')})")
        stack.extend(node.named_children)


def _bytes(source: str, at: int) -> int:
    return len(source[:at].encode("utf-8"))
