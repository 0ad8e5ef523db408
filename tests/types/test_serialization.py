"""What `to_dict` writes, `from_dict` reads: an equal value, or ValueError."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.session.journal import encode_json
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    read_message,
)
from src.types.serialization import Serializable
from tests.each import check_rows

texts = st.text(st.characters(), max_size=20)  # lone surrogates as well: a model may write them
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
kinds = st.sampled_from(["text", "data", "error", "multimodal"])
results = st.builds(ToolResult, texts, texts, kinds, values, texts, st.booleans())
blocks = st.one_of(
    st.builds(Text, texts, objects),
    st.builds(Reasoning, texts, objects),
    st.builds(
        ToolCall,
        texts,
        texts,
        objects,
        origin=texts,
        repaired=st.lists(texts, max_size=2).map(tuple),
        echo=st.booleans(),
        metadata=objects,
        guessed=st.booleans(),
    ),
    st.builds(MalformedCall, texts, texts, texts, texts, texts),
)
usages = st.none() | st.builds(Usage, st.integers(0), st.integers(0))
messages = st.one_of(
    st.builds(SystemMessage, texts),
    st.builds(UserMessage, texts, st.lists(objects, max_size=3).map(tuple)),
    st.builds(
        Response,
        st.lists(blocks, max_size=4).map(tuple),
        st.sampled_from(["end_turn", "tool_use", "max_tokens", "other"]),
        usages,
        texts,
        texts,
    ),
    st.builds(ToolResults, st.lists(results, max_size=3).map(tuple)),
)


@given(messages)
def test_a_message_that_is_read_equals_the_one_written(written):
    assert read_message(json.loads(encode_json(written.to_dict()))) == written


def test_a_field_with_its_default_is_left_out():
    assert Response((Text("hi"),)).to_dict() == {"type": "response", "content": [{"type": "text", "text": "hi"}]}


def test_a_user_message_of_text_is_written_without_blocks():
    assert UserMessage("").to_dict() == {"type": "user", "text": ""}


def test_a_user_message_with_blocks_has_a_text_for_readers_that_know_only_that():
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    written = {"type": "user", "text": "[image of type image/png, not shown]", "blocks": [image]}
    assert UserMessage("", (image,)).to_dict() == written


def test_a_number_that_json_does_not_know_is_read_as_well():
    call = Response((ToolCall("c", "f", {"x": math.inf}),))
    assert read_message(json.loads(encode_json(call.to_dict()))) == call


@check_rows(
    "value",
    [
        None,
        [],
        {},
        {"type": "user"},
        {"type": "user", "text": 5},
        {"type": "user", "text": "", "blocks": ["hi"]},
        {"type": "text", "text": "no message"},
        {"type": "response", "content": "hi"},
        {"type": "response", "content": [{"type": "user", "text": "hi"}]},
        {"type": "response", "content": [{"type": "call", "id": "c", "name": "f", "arguments": "{}"}]},
        {"type": "results", "results": [{"type": "result", "tool_call_id": "c", "name": "f", "kind": 1, "value": 1}]},
        {"type": ["user"], "text": ""},
    ],
)
def test_anything_else_is_an_error(value):
    with pytest.raises(ValueError):
        read_message(value)


@given(st.one_of(blocks, results, usages.filter(bool)))
def test_a_part_that_is_read_equals_the_one_written(written):
    assert type(written).from_dict(json.loads(encode_json(written.to_dict()))) == written


def test_a_part_of_another_type_is_an_error():
    with pytest.raises(ValueError, match="type call"):
        ToolCall.from_dict(Text("hi").to_dict())


@pytest.mark.parametrize("kind", Serializable.__subclasses__(), ids=lambda kind: kind.__name__)
def test_the_fields_that_are_not_compared_or_stored_are_fields(kind):
    assert {*kind.UNCOMPARED, *kind.UNSTORED} <= {*kind.__struct_fields__}


def test_a_field_that_is_not_stored_is_not_read_either():
    written = ToolCall("c", "read", {"path": "a"}).to_dict() | {"real_path": "/etc/shadow"}
    assert ToolCall.from_dict(written).real_path is None


def test_an_unknown_field_is_ignored():
    assert read_message({"type": "user", "text": "hi", "newer": 1}) == UserMessage("hi")


@check_rows(
    "field, value", [("usage", {"type": "usage", "input_tokens": True}), ("usage", 5), ("content", None), ("model", 5)]
)
def test_a_field_of_another_type_is_an_error(field, value):
    with pytest.raises(ValueError, match="expected"):
        read_message({"type": "response", "content": [], field: value})


RESULT = {"type": "result", "tool_call_id": "c", "name": "exec", "kind": "text", "value": "x\n[exit code 1]"}


@check_rows("field, value", [("exit_code", "0"), ("exit_code", [1]), ("exit_code", False), ("ending", 1)])
def test_how_a_command_ended_is_checked(field, value):
    with pytest.raises(ValueError, match="expected"):
        ToolResult.from_dict({**RESULT, field: value})


@check_rows("written, code", [({}, None), ({"exit_code": None}, None), ({"exit_code": 1}, 1)])
def test_an_exit_code_is_a_number_or_absent(written, code):
    assert ToolResult.from_dict({**RESULT, **written}).exit_code == code


def test_the_shape_is_that_of_earlier_journals():
    call = ToolCall("c1", "look", {"path": "a"}, "hermes", ("comma",), True, {"k": 1})
    assert Response((call,), "tool_use", Usage(3, 0), "tiny").to_dict() == {
        "type": "response",
        "content": [
            {
                "type": "call",
                "id": "c1",
                "name": "look",
                "arguments": {"path": "a"},
                "origin": "hermes",
                "repaired": ["comma"],
                "echo": True,
                "metadata": {"k": 1},
            }
        ],
        "stop_reason": "tool_use",
        "usage": {"type": "usage", "input_tokens": 3},
        "model": "tiny",
    }
