"""Constants are worked out, and nothing else is."""

import pytest

from src.parsing.decode.arithmetic import worked_out


@pytest.mark.parametrize(
    ("source", "value"), [("2*5", 10), ("3 + 4.5", 7.5), ("-(2**10)", -1024), ("7 // 2", 3), ("3*10**8", 300_000_000)]
)
def test_an_expression_of_constants_comes_to_its_number(source, value):
    assert worked_out(source) == value


@pytest.mark.parametrize("source", ["a*2", "1/0", "9**999", "10**30", "2 +", "__import__", "(" * 70, "1" * 81, "()"])
def test_whatever_else_is_left_alone(source):
    assert worked_out(source) is None
