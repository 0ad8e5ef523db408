"""JSON objects that are still arriving."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.serve.chunks.json_prefix import JsonPrefix, complete_json
from tests.each import check_rows

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


def follow(text: str) -> JsonPrefix:
    prefix = JsonPrefix()
    prefix.feed(text)
    return prefix


@given(OBJECTS, st.booleans(), st.lists(st.integers(0, 400)))
def test_an_object_is_valid_in_any_pieces(value, is_ascii, cuts):
    text, prefix, start = json.dumps(value, ensure_ascii=is_ascii), JsonPrefix(), 0
    for cut in sorted(cut for cut in cuts if cut < len(text)):
        prefix.feed(text[start:cut])
        assert prefix.is_valid
        start = cut
    prefix.feed(text[start:])
    assert prefix.is_valid and prefix.is_settled


@check_rows("text",
    [
        '{"path": "a",}', "{'path': 1}", "{path: 1}", '{"a": 1 "b"', '{"a": True', '{"a": 01,', '{"a": "\n', '{"a": [1,]',
        '{"a": }', '{"a"}', '{"a": 1}}', '{"a": 1} x', "[1", '"a"', "1", '{"a": 1]', '{"a":: 1', '{,',
    ])  # fmt: skip
def test_what_json_loads_refuses_is_not_valid(text):
    prefix = follow(text)
    prefix.feed(" ")  # ends a literal
    assert not prefix.is_valid


@pytest.mark.parametrize("text", ['{"a": 1,', '{"a":', '{"a": [1, '])
def test_behind_a_comma_or_colon_nothing_is_settled(text):
    assert follow(text).is_valid
    assert not follow(text).is_settled


@given(OBJECTS, st.integers(0, 200))
def test_a_part_of_an_object_is_completed_to_it(value, cut):
    text = json.dumps(value)
    rest = complete_json(text[:cut], value)
    assert rest is not None
    assert json.loads(text[:cut] + rest) == value


def test_what_begins_otherwise_is_not_completed():
    assert complete_json('{"b"', {"a": 1}) is None
