"""A value as another type."""

from src.parsing.arguments.coerce import MISSING, coerce, unwrap
from src.parsing.decode.json_repair import RepairReader
from src.parsing.decode.nodes import Source
from tests.each import check_rows


@check_rows(
    "kinds, value, other",
    [
        (("string", "integer"), "5", 5),
        (("string", "integer"), "1,25", MISSING),
        (("string", "number"), "-2.5e3", -2500),
        (("string", "boolean"), "No", False),
        (("string", "null"), "None", None),
        (("string", "array"), "['a', 1]", ["a", 1]),
        (("string", "object"), "{'a': 1}", {"a": 1}),
        (("string", "object"), "{'a': 1", MISSING),
        (("string", "array"), "[" * 200, MISSING),
        (("object", "string"), {"a": {1}}, MISSING),
        (("integer", "boolean"), 2, MISSING),
        (("number", "integer"), 2.5, MISSING),
        (("object", "string"), {"a": 1}, '{"a": 1}'),
        (("source", "integer"), Source("2*5"), 10),
        (("source", "number"), Source("-(1+2)/4"), -0.75),
        (("source", "integer"), Source("10/4"), MISSING),
        (("source", "integer"), Source("2**9999"), MISSING),
    ],
)
def test_a_value_becomes_another_type_or_nothing(kinds, value, other):
    assert coerce(value, *kinds) == other


@check_rows(
    "value, types, inner",
    [
        (["a"], ("string",), "a"),
        ([1], ("string",), MISSING),
        (["a", "b"], ("string",), MISSING),
        ({"type": "string", "value": "a"}, ("string",), "a"),
        ({"value": "a", "more": 1}, ("string",), MISSING),
        (RepairReader("len(3)").read_value(), ("number",), MISSING),
    ],
)
def test_what_merely_holds_a_value_gives_it(value, types, inner):
    assert unwrap(value, types) == inner
