import itertools

import pytest

from src.providers.stream.response_builder import CallAssembler, parse_arguments
from src.types.events import ToolCallDelta
from src.types.messages import MalformedCall, ToolCall


def entry(index=None, id=None, name=None, arguments=None):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {key: value for key, value in (("index", index), ("id", id), ("function", function)) if value is not None}


def assemble(*entries, truncated=False):
    ids = (f"made{number}" for number in itertools.count())
    assembler = CallAssembler(lambda: next(ids))
    for one in entries:
        assembler.add(one)
    return assembler.finish(truncated)


A = ToolCall("a", "read", {"path": "x"})
B = ToolCall("b", "read", {"path": "y"})

STREAMS = {
    "id and name once, arguments in pieces": (
        [entry(0, "a", "read"), entry(0, arguments='{"path'), entry(0, arguments='": "x"}')],
        [A],
    ),
    "parallel calls interleave": (
        [
            entry(0, "a", "read"),
            entry(1, "b", "read"),
            entry(0, arguments='{"path": '),
            entry(1, arguments='{"path": "y"}'),
            entry(0, arguments='"x"}'),
        ],
        [A, B],
    ),
    "the first index is 1": ([entry(1, "a", "read", '{"path": "x"}')], [A]),
    "new ids on one index": ([entry(0, "a", "read", '{"path": "x"}'), entry(0, "b", "read", '{"path": "y"}')], [A, B]),
    "no index: told apart by id": (
        [
            entry(None, "a", "read", '{"path": '),
            entry(None, "b", "read", '{"path": "y"}'),
            entry(None, "a", None, '"x"}'),
        ],
        [A, B],
    ),
    "no index and no id: goes on with the last": (
        [entry(None, "a", "read", '{"path": '), entry(arguments='"x"}')],
        [A],
    ),
    "the name in every chunk": ([entry(0, "a", "read", '{"path": '), entry(0, None, "read", '"x"}')], [A]),
    "the name in pieces": ([entry(0, "a", "re"), entry(0, None, "ad", '{"path": "x"}')], [A]),
    "a new name after arguments is a new call": (
        [entry(0, None, "read", '{"path": "x"}'), entry(0, None, "edit", "{}")],
        [ToolCall("made0", "read", {"path": "x"}), ToolCall("made1", "edit", {})],
    ),
    "no id: one is made": ([entry(0, None, "read", '{"path": "x"}')], [ToolCall("made0", "read", {"path": "x"})]),
    "no arguments": ([entry(0, "a", "list")], [ToolCall("a", "list", {})]),
    "null arguments": (
        [{"index": 0, "id": "a", "function": {"name": "list", "arguments": None}}],
        [ToolCall("a", "list", {})],
    ),
    "empty arguments": ([entry(0, "a", "list", "")], [ToolCall("a", "list", {})]),
    "arguments as an object": ([entry(0, "a", "read", {"path": "x"})], [A]),
    "no function": ([{"index": 0, "id": "a"}, entry(0, None, "read", '{"path": "x"}')], [A]),
}


@pytest.mark.parametrize(("entries", "calls"), STREAMS.values(), ids=STREAMS)
def test_deltas_become_calls(entries, calls):
    assert assemble(*entries) == calls


def test_each_delta_is_passed_on_with_its_place():
    assembler = CallAssembler(str)
    assert assembler.add(entry(3, "a", "read")) == ToolCallDelta(0, "a", "read", "")
    assert assembler.add(entry(3, arguments="{}")) == ToolCallDelta(0, None, None, "{}")


@pytest.mark.parametrize("raw", ["{", '{"a": }', "[1]", '"text"', "42", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_are_a_malformed_call_with_a_reason(raw):
    (call,) = assemble(entry(0, "a", "read", raw))
    assert isinstance(call, MalformedCall)
    assert (call.name, call.raw, call.origin) == ("read", raw, "native")
    assert call.reason.startswith("The arguments")


def test_the_last_call_of_a_truncated_answer_is_no_call_without_whole_arguments():
    calls = assemble(entry(0, "a", "read", '{"path": "x"}'), entry(1, "b", "read"), truncated=True)
    assert calls[0] == A
    assert isinstance(calls[1], MalformedCall)
    assert "cut off" in calls[1].reason


def test_a_whole_call_before_max_tokens_is_a_call():
    assert assemble(entry(0, "a", "read", '{"path": "x"}'), truncated=True) == [A]


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
    with pytest.raises(ValueError, match="'path' twice, with different values"):
        parse_arguments('{"path": "a", "path": "../b"}')
    assert parse_arguments('{"path": "a", "path": "a"}') == {"path": "a"}
