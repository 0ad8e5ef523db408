"""A command line as simple commands, on which two parsers agree. Pure, linear.

`parse_line` reads a line with our scanner and with tree-sitter-bash, which knows the whole language. What either does
not accept, or what they see differently, is `UnsafeToParse`: it never runs without asking. `parse_tree` alone serves
the rules that deny, which need all commands of a line, however deep.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from .scanner import ASSIGNMENT, Scanner, SimpleCommand, UnsafeToParse

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LINE_CHARS = 10_000
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})  # of Unicode's general categories
DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
WORD_NODES = frozenset({"word", "number", "raw_string", "string", "concatenation"})
KNOWN_NODES = WORD_NODES | {
    "command", "command_name", "comment", "file_descriptor", "file_redirect", "heredoc_body", "heredoc_content",
    "heredoc_end", "heredoc_redirect", "heredoc_start", "herestring_redirect", "list", "negated_command", "pipeline",
    "program", "redirected_statement", "string_content", "subshell",
}  # fmt: skip


def parse_line(source: str) -> tuple[SimpleCommand, ...]:
    """The simple commands of a command line. Raises UnsafeToParse."""
    if len(source) > MAX_LINE_CHARS:
        raise UnsafeToParse(f"the command is longer than {MAX_LINE_CHARS:,} characters")
    _refuse_invisible(source)
    scanner = Scanner(source)
    commands = scanner.read_commands()
    _confirm(
        source,
        [(word.start, word.end) for word in scanner.words],
        [each.words[0].start for each in commands],
        [*scanner.groups, *scanner.negations],
    )
    return commands


@lru_cache(maxsize=1)
def _load_parser() -> Parser:
    import tree_sitter  # loaded for the first command, not at start
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse_tree(source: str) -> Node:
    """The syntax tree of a command line, which must contain no lone surrogate."""
    return _load_parser().parse(source.encode("utf-8")).root_node


def _confirm(source: str, words: Sequence[tuple[int, int]], names: Sequence[int], marks: Sequence[int]) -> None:
    """Raises UnsafeToParse unless tree-sitter sees the same words, the same commands, which begin at `names`, and the
    same groups and negations, which begin at `marks`.
    """
    root = parse_tree(source)
    if root.has_error:
        raise UnsafeToParse("it is not a valid command line")
    seen: list[tuple[int, int]] = []
    begun: list[int] = []
    marked: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "test_command":
            begun.append(node.start_byte)
            seen += _list_test_words(node)
            continue
        if node.type == "variable_assignment" and ASSIGNMENT.fullmatch((node.text or b"").decode()):
            seen.append((node.start_byte, node.end_byte))
            continue
        _refuse_unknown(node)
        if node.type in WORD_NODES:
            _refuse_unknown_inside(node)
            seen.append((node.start_byte, node.end_byte))
            continue
        if node.type == "command_name":
            begun.append(node.start_byte)
        if node.type in ("subshell", "negated_command"):
            marked.append(node.start_byte)
        stack.extend(node.named_children)
    if not source.isascii():
        words = [(_count_bytes(source, start), _count_bytes(source, end)) for start, end in words]
        names, marks = ([_count_bytes(source, start) for start in each] for each in (names, marks))
    if (sorted(seen), sorted(begun), sorted(marked)) != (sorted(words), sorted(names), sorted(marks)):
        raise UnsafeToParse("it can be read in more than one way")


def _list_test_words(test: Node) -> Iterator[tuple[int, int]]:
    """The words of `[ ... ]`: a command like any other, to which tree-sitter gives a node of its own."""
    stack = list(test.children)
    while stack:
        node = stack.pop()
        if node.type == "unary_expression":
            stack.extend(node.children)
        elif node.type in WORD_NODES or node.type in ("[", "]", "!", "test_operator"):
            _refuse_unknown_inside(node)
            yield node.start_byte, node.end_byte
        else:
            raise UnsafeToParse("it tests more than whether a file exists")


def _refuse_unknown_inside(word: Node) -> None:
    stack = list(word.named_children)
    while stack:
        node = stack.pop()
        _refuse_unknown(node)
        stack.extend(node.named_children)


def _refuse_unknown(node: Node) -> None:
    if node.type not in KNOWN_NODES:
        raise UnsafeToParse(f"it contains more than simple commands ({node.type.replace('_', ' ')})")


def _count_bytes(source: str, at: int) -> int:
    return len(source[:at].encode("utf-8"))


def _refuse_invisible(source: str) -> None:
    for character in source if not source.isascii() else set(source):
        if character not in " \n\t" and unicodedata.category(character) in INVISIBLE:
            raise UnsafeToParse(
                f"it contains the character U+{ord(character):04X}, which may be invisible or look like another"
            )
    if DRAWN_AS_NOTHING.search(source):
        raise UnsafeToParse("it contains an invisible character")
