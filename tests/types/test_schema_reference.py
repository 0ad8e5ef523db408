"""What local references point to in a schema."""

from src.types.schema_reference import find_reference
from tests.each import check_rows

ROOT = {
    "$defs": {"a/b": 1, "c~d": 2, "~1": 3, "e f": 4, "": 5},
    "anyOf": ["first", {"type": "second"}],
    "type": "object",
}


@check_rows(
    "reference, target",
    [
        ("#", ROOT), ("#/$defs/a~1b", 1), ("#/$defs/c~0d", 2), ("#/$defs/~01", 3), ("#/$defs/e%20f", 4), ("#/$defs/", 5),
        ("#/%24defs/e f", 4), ("#/anyOf/0", "first"), ("#/anyOf/1/type", "second"),
    ],
)  # fmt: skip
def test_a_local_reference_is_followed(reference, target):
    assert find_reference(reference, ROOT) == target


@check_rows(
    "reference",
    [
        "#/gone",
        "#/anyOf/2",
        "#/anyOf/-1",
        "#/anyOf/x",
        "#/type/o",
        "#anchor",
        "",
        "/$defs",
        "a.json#/$defs",
        "https://a/b#/c",
    ],
)
def test_of_others_nothing_is_found(reference):
    assert find_reference(reference, ROOT) is None
