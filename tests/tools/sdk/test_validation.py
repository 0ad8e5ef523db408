"""What is wrong with arguments, in the words that the model reads."""

from collections.abc import Mapping
from typing import Any

import pytest

from src.cli.demo.loopback import LoopbackReply, serve
from src.tools.sdk.validation import ArgumentValidator, WrongArguments
from tests.each import check_rows

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "times": {"type": "integer"}, "words": {"items": {"type": "string"}}},
    "required": ["name"],
    "additionalProperties": False,
}
MISMATCHES = [
    ({}, "name is missing, expected string"),
    ({"name": 1}, "name: expected string, got integer 1"),
    ({"name": None}, "name: expected string, got null"),
    ({"name": "a", "times": "3"}, 'times: expected integer, got string "3"'),
    ({"name": "a", "times": True}, "times: expected integer, got boolean true"),
    ({"name": "a", "times": 1.5}, "times: expected integer, got number 1.5"),
    ({"name": ["a"]}, 'name: expected string, got array ["a"]'),
    ({"name": "a", "words": ["b", 5]}, "words.1: expected string, got integer 5"),
    ({"name": "a", "time": 3}, 'there is no parameter "time" (nearest: times)'),
    ({"name": "a", "zzz": 3}, 'there is no parameter "zzz"'),
    ([], "expected an object, got array []"),
    (None, "expected an object, got null"),
    ("name", 'expected an object, got string "name"'),
]


def find_mismatch(schema: Mapping[str, Any], arguments: object) -> str:
    try:
        ArgumentValidator(schema).check(arguments)
    except WrongArguments as error:
        return error.message
    return ""


@check_rows("arguments, mismatch", MISMATCHES)
def test_a_mismatch_names_the_parameter_and_what_it_got(arguments, mismatch):
    assert find_mismatch(SCHEMA, arguments) == mismatch


@pytest.mark.parametrize("arguments", [{"name": "a"}, {"name": "a", "times": 2.0}, {"name": "a", "times": None}])
def test_arguments_that_fit_have_no_mismatch(arguments):
    assert find_mismatch(SCHEMA, arguments) == ""


def test_a_huge_wrong_value_is_shortened():
    assert len(find_mismatch(SCHEMA, {"name": ["x" * 5_000_000]})) < 200


def test_a_pattern_is_not_run_since_it_may_backtrack_without_end():
    slow = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    assert find_mismatch(slow, {"name": "a" * 40 + "!"}) == ""


def test_a_parameter_may_be_called_pattern():
    schema = {"type": "object", "properties": {"pattern": {"type": "string"}}}
    assert find_mismatch(schema, {"pattern": 1}) == "pattern: expected string, got integer 1"


@pytest.mark.parametrize("kind", ["file", "http"])
def test_a_reference_out_of_the_schema_is_not_followed(kind, tmp_path):
    (tmp_path / "text.json").write_text('{"type": "string"}')
    with serve(lambda request: asked.append(request) or LoopbackReply(200, "application/json", [b"{}"])) as address:
        asked: list[object] = []
        place = {"file": (tmp_path / "text.json").as_uri(), "http": f"{address}/text.json"}[kind]
        with pytest.raises(ValueError, match="leads out of it"):
            find_mismatch({"properties": {"name": {"$ref": place}}}, {"name": 1})
    assert asked == []


def test_a_reference_within_the_schema_is_followed():
    schema = {
        "$id": "http://127.0.0.1:9/a",
        "$defs": {"b": {"type": "string"}},
        "properties": {"c": {"$ref": "#/$defs/b"}},
    }
    assert find_mismatch(schema, {"c": 1}).startswith("c: expected string")
