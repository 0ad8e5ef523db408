"""A value as another type."""

import pytest

from src.parsing.arguments.coerce import COERCIONS, NOTHING, held
from src.parsing.decode.json_repair import Reader


@pytest.mark.parametrize(
    ("kinds", "value", "other"),
    [
        (("string", "integer"), "5", 5),
        (("string", "integer"), "1,250", 1250),
        (("string", "integer"), "1,25", NOTHING),
        (("string", "number"), "-2.5e3", -2500),
        (("string", "boolean"), "No", False),
        (("string", "null"), "None", None),
        (("string", "array"), "['a', 1]", ["a", 1]),
        (("string", "object"), "{'a': 1}", {"a": 1}),
        (("string", "object"), "{'a': 1", NOTHING),
        (("integer", "boolean"), 2, NOTHING),
        (("number", "integer"), 2.5, NOTHING),
        (("object", "string"), {"a": 1}, '{"a": 1}'),
    ],
)
def test_a_value_becomes_another_type_or_nothing(kinds, value, other):
    assert COERCIONS[kinds](value) == other


@pytest.mark.parametrize(
    ("value", "types", "inner"),
    [
        (["a"], ("string",), "a"),
        ([1], ("string",), NOTHING),
        (["a", "b"], ("string",), NOTHING),
        ({"type": "string", "value": "a"}, ("string",), "a"),
        ({"value": "a", "more": 1}, ("string",), NOTHING),
        (Reader("float(3)").value(), ("number",), 3),
        (Reader("float(3)").value(), ("string",), NOTHING),
        (Reader("len(3)").value(), ("number",), NOTHING),
    ],
)
def test_what_merely_holds_a_value_gives_it(value, types, inner):
    assert held(value, types) == inner
