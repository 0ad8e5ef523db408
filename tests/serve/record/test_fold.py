"""What a client got, put together: chunks of a stream, or a whole answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.serve.record.fold import fold_chunks


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {**fields, "type": "function", "function": {"name": name, "arguments": arguments}}


def fold_calls(*answers: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The id, name and arguments of each call. `answers`: the choice of each chunk, or of a whole answer."""
    events = [json.dumps({"choices": [{"index": 0, **each}]}).encode() for each in answers]
    (choice,) = fold_chunks([*events, b"[DONE]"]).choices.values()
    return [(each.id, each.name, each.raw) for each in choice.builder.calls]


READ = ("a", "read", '{"path":"x"}')
EDIT = ("b", "edit", '{"path":"y"}')


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([call("read", '{"path":"x"}', index=0, id="a"), call("edit", '{"path":"y"}', index=0, id="b")], [READ, EDIT]),
        ([call("read", '{"path":"x"}', id="a"), call("edit", '{"path":"y"}', id="b")], [READ, EDIT]),
        (
            [
                call("read", '{"path"', index=0, id="a"),
                call("edit", '{"path":"y"}', index=1, id="b"),
                call("", ':"x"}', index=0),
            ],
            [READ, EDIT],
        ),
        ([call("read", {"path": "x"}, index=0, id="a")], [("a", "read", '{"path": "x"}')]),
        ([call("list", None, index=0, id="a")], [("a", "list", "")]),
        ([{"index": 0, "id": "a"}], []),
    ],
    ids=["one index", "no index", "in turn", "an object", "no arguments", "no function"],
)
def test_pieces_become_the_calls_that_the_chat_makes_of_them(pieces, calls):
    assert fold_calls(*({"delta": {"tool_calls": [each]}} for each in pieces)) == calls


def test_a_whole_answer_has_its_calls_without_an_index_and_with_objects():
    calls = [call("list", {}), call("list", {}), call("read", {"path": "x"}, id="a")]
    assert fold_calls({"message": {"content": None, "tool_calls": calls}}) == [
        ("", "list", "{}"),
        ("", "list", "{}"),
        ("a", "read", '{"path": "x"}'),
    ]
