"""Arithmetic on constants that a model left to be done: `2*5` for 10. Bounded, and nothing but numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

MAX_EXPRESSION = 80  # characters of arithmetic that are evaluated
MAX_NUMBER = 1e18
_ARITHMETIC = re.compile(r"[\d\s.+\-*/%()eE_]+")


def worked_out(source: str) -> int | float | None:
    """What the expression comes to; None where it is none, or comes to no number within bounds."""
    if len(source) > MAX_EXPRESSION or not _ARITHMETIC.fullmatch(source):
        return None
    try:
        return _evaluated(ast.parse(source.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _evaluated(node: ast.expr) -> int | float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value = _evaluated(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluated(node.left), _evaluated(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise ValueError
        result = _OPERATORS[type(node.op)](left, right)
        if isinstance(result, (int, float)) and abs(result) <= MAX_NUMBER:
            return result
    raise ValueError


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
}
