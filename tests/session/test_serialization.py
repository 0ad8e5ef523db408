import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.session.journal import encoded
from src.session.serialization import from_json, to_json
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
)

texts = st.text(st.characters(), max_size=20)  # lone surrogates as well: a model may write them
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
results = st.builds(ToolResult, texts, texts, st.sampled_from(["text", "data", "error", "multimodal"]), values)
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
    ),
    st.builds(MalformedCall, texts, texts, texts, texts, texts),
)
usages = st.none() | st.builds(Usage, st.integers(0), st.integers(0))
messages = st.one_of(
    st.builds(SystemMessage, texts),
    st.builds(UserMessage, texts),
    st.builds(
        Response,
        st.lists(blocks, max_size=4).map(tuple),
        st.sampled_from(["end_turn", "tool_use", "max_tokens", "other"]),
        usages,
        texts,
    ),
    st.builds(ToolResults, st.lists(results, max_size=3).map(tuple)),
)


@given(messages)
def test_what_is_read_is_what_was_written(written):
    assert from_json(json.loads(encoded(to_json(written)))) == written


def test_what_holds_its_default_is_left_out():
    assert to_json(Response((Text("hi"),))) == {"type": "response", "content": [{"type": "text", "text": "hi"}]}


def test_a_number_that_json_does_not_know_comes_back_as_well():
    call = Response((ToolCall("c", "f", {"x": math.inf}),))
    assert from_json(json.loads(encoded(to_json(call)))) == call


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"type": "user"},
        {"type": "user", "text": 5},
        {"type": "text", "text": "no message"},
        {"type": "response", "content": "hi"},
        {"type": "response", "content": [{"type": "user", "text": "hi"}]},
        {"type": "response", "content": [{"type": "call", "id": "c", "name": "f", "arguments": "{}"}]},
        {"type": "results", "results": [{"type": "result", "tool_call_id": "c", "name": "f", "kind": 1, "value": 1}]},
        {"type": ["user"], "text": ""},
    ],
)
def test_what_is_no_message_is_an_error_and_never_a_message(value):
    with pytest.raises(ValueError):
        from_json(value)
