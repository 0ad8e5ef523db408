"""Strings and numbers inside a broken value: what a backslash means, what constant arithmetic evaluates to.

A Windows path written with single backslashes keeps them all. Markdown escapes lose theirs. Legal escapes mean what
JSON says, Python's escapes what Python says, and any other backslash is literal: regular expressions need it.
Arithmetic is on numbers only, and bounded in length and magnitude.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from ...types.lazy_pattern import LazyPattern
from .nodes import Guess

_ESCAPE = LazyPattern(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|\r?\n|.)", re.DOTALL)
_WINDOWS_PATH = LazyPattern(r"[A-Za-z]:\\[^\\\"'/]|\\\\\\\\[\w.-]+\\\w")
_ALL_LEGAL = LazyPattern(r"(?:[^\\]|\\(?:[\"'\\/bfnrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}))*", re.DOTALL)
_PATH_OR_ESCAPES = Guess("a Windows path")  # its backslashes may as well be escapes
_SURROGATES = LazyPattern("[\ud800-\udbff][\udc00-\udfff]")
_PLAIN = {
    **dict.fromkeys(("\n", "\r\n"), ""),
    **{mark: mark for mark in "\"\\/'"},
    **dict(zip("ntrbf", "\n\t\r\b\f", strict=True)),
}
_MARKDOWN = frozenset("_#~!`>&“”")  # never an escape of a regular expression


def unescape(raw: str, repairs: dict[str, None]) -> str:
    """The string that `raw`, the text between the quotes, stands for; repairs are noted in `repairs`."""
    if "\\" not in raw:
        if "\n" in raw or "\t" in raw:
            repairs["raw newlines"] = None
        return raw
    if _WINDOWS_PATH.match(raw):
        repairs[_PATH_OR_ESCAPES if _ALL_LEGAL.fullmatch(raw) else "backslashes"] = None
        return raw.replace("\\\\", "\\")

    def replace_escape(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape in _PLAIN:
            return _PLAIN[escape]
        if len(escape) > 1:
            code = int(escape[1:], 16)
            return chr(code) if code <= 0x10FFFF else "\\" + escape
        repairs["backslashes"] = None
        if escape in _MARKDOWN:
            return escape
        return "\\" + escape

    unescaped = _ESCAPE.sub(replace_escape, raw)
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), unescaped)


def unescape_entities(text: str) -> str:
    """The text with the characters that its entities stand for."""
    if "&" not in text:
        return text
    import html  # start-up is measured

    return html.unescape(text)


MAX_EXPRESSION_CHARS = 80
MAX_NUMBER = 1e18
_ARITHMETIC = LazyPattern(r"[\d\s.+\-*/%()eE_]+")


def eval_constant(source: str) -> int | float | None:
    """The value of an arithmetic expression of constants; None for other text, or if its value is out of bounds."""
    if len(source) > MAX_EXPRESSION_CHARS or not _ARITHMETIC.fullmatch(source):
        return None
    try:
        return _eval(ast.parse(source.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _eval(node: ast.expr) -> int | float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and (change := _SIGNS.get(type(node.op).__name__)):
        return change(_eval(node.operand))
    if isinstance(node, ast.BinOp) and (compute := _OPERATORS.get(type(node.op).__name__)):
        operands = _eval(node.left), _eval(node.right)
        for numbers in (map(float, operands), operands):  # floats first: they overflow where integers would grow on
            result = compute(*numbers)
            if not (isinstance(result, (int, float)) and abs(result) <= MAX_NUMBER):
                raise ValueError
        return result
    raise ValueError


_SIGNS: dict[str, Callable[[float], float]] = {"UAdd": operator.pos, "USub": operator.neg}
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Pow": operator.pow,
}  # fmt: skip
