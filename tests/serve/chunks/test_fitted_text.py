"""The arguments of native calls in a stream: what is held, and what the client gets of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.arguments.indexed_tool import IndexedTool
from src.parsing.arguments.native import NativeFitter
from src.serve.chunks.fitted_text import FittedText
from tests.each import check_rows
from tests.parsing.arguments.test_native import EDITS, INTEGER, SCHEMAS, STRING, UNIT, VALUES

SCHEMA = {"type": "object", "properties": {"path": STRING, "limit": INTEGER, "unit": UNIT, "edits": EDITS}}


def follow(pieces: list[str], schema: dict[str, Any] = SCHEMA) -> FittedText:
    text = FittedText(NativeFitter(IndexedTool("t", schema)))
    for piece in pieces:
        text.feed(piece)
    return text


def test_only_the_value_that_may_be_refused_is_held():
    text = follow(['{"path": "a', '.txt", "limit"', ': "', "5"])
    assert text.pieces == ['{"path": "a', '.txt", "limit"', ": ", ""]
    assert text.is_holding


def test_what_follows_a_fitted_value_goes_on_as_it_comes():
    text = follow(['{"limit": "', "5", '", "path": "a"', "}"])
    assert text.pieces == ['{"limit": 5', "", ', "path": "a"', "}"]
    assert not text.is_holding
    assert text.count == 1


def test_a_number_ends_where_the_next_token_begins():
    assert follow(['{"path": 1', "2", ' , "limit": 3}']).pieces == ['{"path": "12"', "", ' , "limit": 3}']


def test_a_member_of_an_object_in_a_list_is_held_by_itself():
    text = follow(['{"edits": [{"old": "a", "count": "', "2", '"}, {"old": "b'])
    assert text.pieces == ['{"edits": [{"old": "a", "count": 2', "", '}, {"old": "b']


def test_a_value_that_is_held_and_accepted_leaves_as_it_came():
    pieces = ['{"unit": "cel', "sius", '"}']
    text = follow(pieces)
    assert text.pieces == pieces
    assert text.count == 0


def test_at_the_end_what_is_held_leaves_as_it_came():
    pieces = ['{"limit": "', "5"]
    text = follow(pieces)
    text.release()
    assert text.pieces == pieces


@check_rows("written",
    ["", "null", "[1]", '"{}"', "}", '{"limit": "5"}}', '{"limit" "5"}', "{limit: '5'}", '{"limit": "5\\', '{"\\x": "5"}'])  # fmt: skip
def test_what_is_no_object_is_followed_without_an_error(written):
    text = follow([*written])
    text.release()
    if text.count == 0:
        assert "".join(text.pieces) == written


def chunk(text: str, cuts: list[int]) -> list[str]:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


@given(SCHEMAS, VALUES, st.lists(st.integers(0, 80), max_size=8), st.sampled_from([None, (",", ":")]))
def test_a_stream_in_any_pieces_says_what_the_whole_is_fitted_to(schema, value, cuts, separators):
    whole = {"type": "object", "properties": {"x": schema, "path": STRING}}
    written = json.dumps({"x": value, "path": 'a"\\'}, separators=separators)
    text = follow(chunk(written, cuts), whole)
    fitted, changes = NativeFitter(IndexedTool("t", whole)).fit(json.loads(written), whole)
    assert not text.is_holding
    assert json.dumps(json.loads("".join(text.pieces))) == json.dumps(fitted)
    assert text.count == len(changes)
    if not changes:
        assert "".join(text.pieces) == written
