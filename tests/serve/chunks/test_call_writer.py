"""Calls in the text whose arguments leave while the model writes them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import WireError
from src.parsing.classify import make_id_source
from src.parsing.events import is_safe
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import Ending, StreamGuard
from tests.each import check_rows

PROPERTIES = {
    "path": {"type": "string"},
    "content": {"type": "string"},
    "limit": {"type": "integer"},
    "force": {"type": "boolean"},
    "mode": {"type": "string", "enum": ["a", "w"]},
    "tags": {"type": "array", "items": {"type": "string"}},
}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["path"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("write", "note")]
BODY: dict[str, Any] = {"model": "m", "messages": [], "tools": TOOLS}
LONG = 'All is "well" with it,\n\tand é \U0001f642 so on: \\n </tool_call> ' * 3
FORMATS = {
    "own": "TOOL_CALL: {head}",
    "hermes": "<tool_call>\n{head}\n</tool_call>",
    "mistral": "[TOOL_CALLS] [{head}]",
    "named": "[TOOL_CALLS]write[ARGS]{arguments}",
    "llama": '<|python_tag|>{{"name": "write", "parameters": {arguments}}}',
}


def write_call(arguments: dict[str, Any], format: str = "hermes", name: str = "write") -> str:
    body = json.dumps(arguments, ensure_ascii=False)
    key = "args" if format == "own" else "arguments"
    return FORMATS[format].format(head=f'{{"name": "{name}", "{key}": {body}}}', arguments=body)


def make_chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": [1]}
    return json.dumps({"id": "x", "choices": [choice]}, separators=(",", ":"), ensure_ascii=False).encode()


class Run:
    """One answer in pieces of text: what left while it came, and what was left for its end."""

    def __init__(self, pieces: list[str], finish: str = "stop", given: str = "") -> None:
        messages = [{"role": "tool", "content": given}] if given else []
        self.guard = StreamGuard(ChatBody({**BODY, "messages": messages}), make_id_source())
        chunks = [make_chunk({"content": piece}) for piece in pieces if piece]
        self.early = [part for chunk in chunks for part in self.guard.feed([chunk])]
        self.early += self.guard.feed([make_chunk({}, finish)])
        self.guard.close()

    def settle(self, calls: Any = None) -> list[dict[str, Any]]:
        """All that the client gets. `calls`: those of the whole answer, if they are others than were found."""
        found = [call for call in self.guard.assembler.response().calls if is_safe(call)]
        return [
            json.loads(each) for each in [*self.early, *self.guard.settle(Ending(found if calls is None else calls))]
        ]


def join_text(chunks: list[Any]) -> str:
    chunks = [json.loads(each) if isinstance(each, bytes) else each for each in chunks]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


def read_calls(chunks: list[Any]) -> list[tuple[str, str]]:
    """Name and arguments of each call, in the order of their indexes; ids and names come once."""
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        value = json.loads(chunk) if isinstance(chunk, bytes) else chunk
        for piece in value["choices"][0]["delta"].get("tool_calls") or ():
            function = piece["function"]
            if piece["index"] not in calls:
                assert piece["id"] and piece["type"] == "function"
                calls[piece["index"]] = [function["name"], ""]
            else:
                assert "name" not in function and "id" not in piece
            calls[piece["index"]][1] += function.get("arguments", "")
    assert sorted(calls) == list(range(len(calls)))
    return [(name, arguments) for _, (name, arguments) in sorted(calls.items())]


def split(text: str, cuts: list[int]) -> list[str]:
    bounds = [0, *sorted({cut % len(text) for cut in cuts}), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


VALUES = st.fixed_dictionaries(
    {"path": st.text(max_size=70)},
    optional={
        "content": st.text(min_size=45, max_size=200),
        "limit": st.integers(),
        "force": st.booleans(),
        "mode": st.sampled_from("aw"),
        "tags": st.lists(st.text(max_size=5), max_size=3),
    },
)


@given(VALUES, st.sampled_from(sorted(FORMATS)), st.lists(st.integers(0, 2000), max_size=30), st.booleans())
def test_the_pieces_of_a_call_are_the_arguments_of_the_whole_in_any_chunking(arguments, format, cuts, is_escaped):
    text = write_call(arguments, format)
    text = text.encode("ascii", "backslashreplace").decode() if is_escaped and "\\" not in text else text
    run = Run(split(f"Let me write it.\n{text}", cuts))
    (found,) = run.guard.assembler.response().calls or [None]
    sent = run.settle()
    if found is not None and is_safe(found):
        assert [(name, json.loads(raw)) for name, raw in read_calls(sent)] == [("write", found.arguments)]
        assert join_text(sent) == "Let me write it.\n"
        assert sent[-1]["choices"][0]["finish_reason"] == "tool_calls"
    else:
        assert read_calls(sent) == []


@check_rows("format", FORMATS)
def test_a_long_argument_leaves_while_it_is_written(format):
    text = write_call({"path": "a.txt", "content": LONG}, format)
    start = text.index("All is") + 80
    run = Run([*text[:start], text[start:]])
    assert len(read_calls(run.early[:-1])[0][1]) > 60
    assert read_calls(run.settle()) == [("write", json.dumps({"path": "a.txt", "content": LONG}, ensure_ascii=False))]


def test_a_call_is_complete_at_its_closer():
    run = Run([*write_call({"path": "a.txt"}), "\nIt is"])
    assert read_calls(run.early) == [("write", '{"path": "a.txt"}')]


def test_the_text_before_a_call_leaves_before_it():
    text = write_call({"path": "a.txt", "content": LONG})
    run = Run([f"Let me see. {text[:20]}", *text[20:]])
    texts = [join_text([chunk]) for chunk in run.early]
    first = next(number for number, chunk in enumerate(run.early) if b"tool_calls" in chunk)
    assert "".join(texts[:first]) == "Let me see. "


def test_a_value_that_the_schema_may_change_waits_for_the_closer():
    text = write_call({"path": "a.txt", "content": LONG, "tags": [LONG]})
    run = Run([*text[: text.index("tags") + 20]], finish="length")
    assert "tags" not in read_calls(run.early)[0][1]


def test_a_call_that_repeats_a_result_does_not_leave():
    text = write_call({"path": "a.txt", "content": LONG})
    run = Run([*text], given=f"The log says:\n{text}\n")
    assert read_calls(run.settle()) == []
    assert join_text(run.settle()) == ""


def test_a_call_with_a_value_out_of_a_result_leaves_once_another_is_new():
    new = "Something that no result holds, and that is long enough to show it."
    text = write_call({"path": "a.txt", "content": LONG}) + write_call({"path": LONG, "content": new})
    run = Run([*text, "\nIt is"], given=LONG)
    assert [json.loads(arguments)["path"] for _, arguments in read_calls(run.early)] == ["a.txt", LONG]


@pytest.mark.parametrize("lead", ["For example: ", "The file says `", "You could use it like this:\n"])
def test_a_call_that_is_only_presented_does_not_leave(lead):
    text = write_call({"path": "a.txt", "content": LONG})
    assert read_calls(Run([lead, *text]).early) == []


def test_a_call_that_waits_keeps_its_place_before_the_next():
    tagged = "<tool_call>\n<function=note>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>\n"
    run = Run([*tagged, *write_call({"path": "b", "content": LONG})])
    assert read_calls(run.early) == []
    assert [name for name, _ in read_calls(run.settle())] == ["note", "write"]


def test_a_call_that_the_limit_cut_leaves_as_far_as_it_came_and_not_as_text_too():
    text = write_call({"path": "a.txt", "content": LONG})
    sent = Run([*text[:150]], finish="length").settle()
    ((_, arguments),) = read_calls(sent)
    assert json.dumps({"path": "a.txt", "content": LONG}, ensure_ascii=False).startswith(arguments)
    assert join_text(sent) == ""
    assert sent[-1]["choices"][0]["finish_reason"] == "length"


BROKEN = write_call({"path": "a.txt", "content": LONG})[:150] + '", "limit": }}}}\n</tool_call>'


def test_a_call_that_breaks_ends_the_answer_with_an_error():
    run = Run([*BROKEN])
    assert len(read_calls(run.early)) == 1
    with pytest.raises(WireError, match="write"):
        run.settle([])


def test_a_call_that_breaks_is_completed_by_the_mended_one():
    run = Run([*BROKEN])
    begun = json.loads(read_calls(run.early)[0][1] + "}")
    mended = run.guard.assembler.reparse(write_call({**begun, "limit": 3}))
    ((_, arguments),) = read_calls(run.settle(mended.calls))
    assert json.loads(arguments) == {**begun, "limit": 3}


def test_a_native_call_behind_a_written_one_gets_the_next_place():
    text = write_call({"path": "a.txt", "content": LONG})
    guard = StreamGuard(ChatBody(BODY), make_id_source())
    function = {"name": "note", "arguments": '{"path": "b"}'}
    native = make_chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
    end = make_chunk({}, "tool_calls")
    chunks = [*(make_chunk({"content": piece}) for piece in text), native, end]
    sent = [part for chunk in chunks for part in guard.feed([chunk])]
    guard.close()
    sent += guard.settle(Ending([call for call in guard.assembler.response().calls if call.origin != "native"]))
    assert [name for name, _ in read_calls(sent)] == ["write", "note"]
