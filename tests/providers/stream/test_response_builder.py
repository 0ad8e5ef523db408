import itertools

import pytest

from src.providers.stream.response_builder import ResponseBuilder, parse_arguments
from src.types.events import ToolCallDelta
from src.types.messages import MalformedCall, ToolCall
from tests.each import check_rows


def piece(index=None, id="", name="", arguments=None):
    return index, id, name, arguments


def build(*pieces, truncated=False):
    ids = (f"made{number}" for number in itertools.count())
    builder = ResponseBuilder(lambda: next(ids))
    for each in pieces:
        builder.add_call(*each)
    return list(builder.build(truncated))


NO_OBJECT = "The arguments must be a JSON object, not list."
A = ToolCall("a", "read", {"path": "x"})
B = ToolCall("b", "read", {"path": "y"})

STREAMS = {
    "id and name once, arguments in pieces": (
        [piece(0, "a", "read"), piece(0, arguments='{"path'), piece(0, arguments='": "x"}')],
        [A],
    ),
    "parallel calls interleave": (
        [
            piece(0, "a", "read"),
            piece(1, "b", "read"),
            piece(0, arguments='{"path": '),
            piece(1, arguments='{"path": "y"}'),
            piece(0, arguments='"x"}'),
        ],
        [A, B],
    ),
    "the first index is 1": ([piece(1, "a", "read", '{"path": "x"}')], [A]),
    "new ids on one index": ([piece(0, "a", "read", '{"path": "x"}'), piece(0, "b", "read", '{"path": "y"}')], [A, B]),
    "no index: told apart by id": (
        [
            piece(None, "a", "read", '{"path": '),
            piece(None, "b", "read", '{"path": "y"}'),
            piece(None, "a", "", '"x"}'),
        ],
        [A, B],
    ),
    "no index and no id: goes on with the last": (
        [piece(None, "a", "read", '{"path": '), piece(arguments='"x"}')],
        [A],
    ),
    "the name in every chunk": ([piece(0, "a", "read", '{"path": '), piece(0, "", "read", '"x"}')], [A]),
    "the name in pieces": ([piece(0, "a", "re"), piece(0, "", "ad", '{"path": "x"}')], [A]),
    "a new name after arguments is a new call": (
        [piece(0, "", "read", '{"path": "x"}'), piece(0, "", "edit", "{}")],
        [ToolCall("made0", "read", {"path": "x"}), ToolCall("made1", "edit", {})],
    ),
    "no id: one is made": ([piece(0, "", "read", '{"path": "x"}')], [ToolCall("made0", "read", {"path": "x"})]),
    "no arguments": ([piece(0, "a", "list")], [ToolCall("a", "list", {})]),
    "null arguments": (
        [piece(0, "a", "list", None)],
        [ToolCall("a", "list", {})],
    ),
    "empty arguments": ([piece(0, "a", "list", "")], [ToolCall("a", "list", {})]),
    "arguments as an object": ([piece(0, "a", "read", {"path": "x"})], [A]),
    "arguments as a list": ([piece(0, "a", "list", [])], [MalformedCall("a", "list", "[]", NO_OBJECT)]),
    "one id for two calls of an answer": (
        [piece(0, "a", "read", '{"path": "x"}'), piece(1, "a", "read", '{"path": "y"}')],
        [A, ToolCall("made0", "read", {"path": "y"})],
    ),
    "one id for two calls, and no index": (
        [piece(None, "a", "read", '{"path": "x"}'), piece(None, "a", "read", '{"path": "y"}')],
        [A, ToolCall("made0", "read", {"path": "y"})],
    ),
    "one index and no id for two calls": (
        [piece(0, "", "read", '{"path": "x"}'), piece(0, "", "read", '{"path": "y"}')],
        [ToolCall("made0", "read", {"path": "x"}), ToolCall("made1", "read", {"path": "y"})],
    ),
    "a new id in each piece": (
        [piece(0, "a", "read"), piece(0, "b", "", '{"path": '), piece(0, "c", "", '"x"}')],
        [A],
    ),
    "a new id and the name in each piece": (
        [piece(0, "a", "read", '{"path": '), piece(0, "b", "read", '"x"}')],
        [A],
    ),
    "each piece repeats all before it": (
        [piece(0, "a", "read", '{"path"'), piece(0, "a", "read", '{"path": "'), piece(0, "a", "read", '{"path": "x"}')],
        [A],
    ),
    "the name comes last": ([piece(0, "a", "", '{"path": "x"}'), piece(0, "", "read")], [A]),
    "nothing but a place": ([piece(0, "a"), piece(1, "b", "read", '{"path": "y"}')], [B]),
    "no function": ([piece(0, "a"), piece(0, "", "read", '{"path": "x"}')], [A]),
}


@check_rows("entries, calls", STREAMS.values())
def test_deltas_become_calls(entries, calls):
    assert build(*entries) == calls


def test_each_delta_is_passed_on_with_its_place():
    builder = ResponseBuilder(str)
    assert builder.add_call(3, "a", "read") == ToolCallDelta(0, "a", "read", "")
    assert builder.add_call(3, arguments="{}") == ToolCallDelta(0, None, None, "{}")


@check_rows("raw", ["{", '{"a": }', "[1]", '"text"', "42", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000])
def test_arguments_that_are_no_object_are_a_malformed_call_with_a_reason(raw):
    (call,) = build(piece(0, "a", "read", raw))
    assert isinstance(call, MalformedCall)
    assert (call.name, call.raw, call.origin) == ("read", raw, "native")
    assert call.reason.startswith("The arguments")


def test_the_last_call_of_a_truncated_answer_is_no_call_without_whole_arguments():
    calls = build(piece(0, "a", "read", '{"path": "x"}'), piece(1, "b", "read"), truncated=True)
    assert calls[0] == A
    assert isinstance(calls[1], MalformedCall)
    assert "cut off" in calls[1].reason


def test_a_whole_call_before_max_tokens_is_a_call():
    assert build(piece(0, "a", "read", '{"path": "x"}'), truncated=True) == [A]


def test_big_integers_do_not_raise_anything_but_value_errors():
    with pytest.raises(ValueError, match="valid JSON|limit"):
        parse_arguments('{"n": ' + "9" * 5000 + "}")


@pytest.mark.parametrize("raw", ['{"n": 1e999}', '{"n": [-1e999]}', '{"n": ' + "[" * 101 + "]" * 101 + "}"])
def test_what_could_not_be_sent_again_is_malformed(raw):
    with pytest.raises(ValueError, match="too"):
        parse_arguments(raw)


def test_ordinary_nesting_is_read():
    assert parse_arguments('{"n": ' + "[" * 90 + "]" * 90 + "}")


def test_of_a_key_that_stands_twice_no_value_is_chosen():
    for again in ("../b", "a"):
        with pytest.raises(ValueError, match="'path' twice"):
            parse_arguments(f'{{"path": "a", "path": "{again}"}}')
