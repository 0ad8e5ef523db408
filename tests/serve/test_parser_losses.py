"""What a server's parser cut or dropped beside calls that it made: the answer's tokens tell it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from src.model.recovery import MIN_CALL_TOKENS
from tests.serve.test_gateway import drive

PROPERTIES = {"content": {"type": "string"}, "path": {"type": "string"}}
WRITE = {"name": "write", "parameters": {"type": "object", "properties": PROPERTIES, "required": ["content", "path"]}}
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "Write it."}],
    "tools": [{"type": "function", "function": WRITE}],
}
TAGGED = "It ends with `</parameter>` here.\nMore."


def write_tagged(**values: str) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function=write>\n{inside}</function>\n</tool_call>"


def write_json(**values: str) -> str:
    return "<tool_call>\n" + json.dumps({"name": "write", "arguments": values}) + "\n</tool_call>"


def native(arguments: str, index: int = 0, name: str = "") -> dict[str, Any]:
    head = {"id": f"c{index}", "type": "function"} if name else {}
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return {"tool_calls": [{"index": index, **head, "function": function}]}


def make_stream(deltas: Sequence[dict[str, Any]], *, has_ids: bool = True) -> list[bytes]:
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    if has_ids:
        choices = [{**choice, "token_ids": [5, number]} for number, choice in enumerate(choices)]
    chunks = [json.dumps({"id": "1", "created": 1, "model": "m", "choices": [choice]}) for choice in choices]
    return [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]


def make_answer(text: str | None, *calls: dict[str, str]) -> dict[str, Any]:
    functions = [{"name": "write", "arguments": json.dumps(arguments)} for arguments in calls]
    made = [{"id": f"c{index}", "type": "function", "function": each} for index, each in enumerate(functions)]
    message = {"role": "assistant", "content": text, "tool_calls": made}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "token_ids": [5, 6]}
    return {"id": "1", "created": 1, "model": "m", "choices": [choice]}


def ask(folder: Path, answer: Any, written: str, times: int = 1) -> list[list[dict[str, Any]]]:
    """What the client gets each time, by event; of a whole answer that is its message."""
    got: list[list[dict[str, Any]]] = []

    async def use(client: Any, fake: Any) -> None:
        fake.written = written
        for _ in range(times):
            async with client.post("/v1/chat/completions", json={**BODY, "stream": isinstance(answer, list)}) as reply:
                body = await reply.text()
            datas = [line[6:] for line in body.splitlines() if line.startswith("data: {")] or [body]
            got.append([json.loads(data) for data in datas])

    drive(folder, lambda _: answer, use)
    return got


def read_answer(events: Sequence[dict[str, Any]]) -> tuple[str, list[Any]]:
    """The text, and the arguments of the calls; None for those that are no JSON."""
    text = ""
    calls: dict[int, str] = {}
    for choice in (event["choices"][0] for event in events if "choices" in event):
        message = choice.get("delta") or choice.get("message") or {}
        text += message.get("content") or ""
        for index, call in enumerate(message.get("tool_calls") or ()):
            index = call.get("index", index)
            calls[index] = calls.get(index, "") + call["function"]["arguments"]
    return text, [json.loads(arguments) for arguments in calls.values()]


WHOLE = {"content": "x", "path": "a"}
TEXT_AFTER = [
    [{"content": "Now.\n"}, native('{"content": "x", ', name="write"), native('"path": "a"}')],
    make_answer("Now.\n", WHOLE),
]


@pytest.mark.parametrize("answer", TEXT_AFTER)
def test_text_behind_a_call_that_the_parser_dropped_reaches_the_client(tmp_path, answer):
    written = f"Now.\n{write_json(**WHOLE)}\nThat is all."
    ((text, calls),) = map(read_answer, ask(tmp_path, _send(answer), written))
    assert (text.split(), calls) == (["Now.", "That", "is", "all."], [WHOLE])


CUT_LAST = [
    [native('{"path": "a", "content": "It ends ', name="write"), native("with `"), native('"}')],
    [native('{"path": "a", "content": "It ends with `"}', name="write")],
    make_answer(None, {"path": "a", "content": "It ends with `"}),
]


@pytest.mark.parametrize("answer", CUT_LAST)
def test_a_last_value_that_the_parser_cut_is_completed(tmp_path, answer):
    written = write_tagged(path="a", content=TAGGED)
    ((text, calls),) = map(read_answer, ask(tmp_path, _send(answer), written))
    assert (text, calls) == ("", [{"path": "a", "content": TAGGED}])


def test_the_second_of_two_calls_is_completed(tmp_path):
    deltas = [
        native('{"path": "a", "content": "x"}', name="write"),
        native('{"path": "b", "content": "It ends with `"}', 1, name="write"),
    ]
    written = write_tagged(path="a", content="x") + "\n" + write_tagged(path="b", content=TAGGED)
    ((_, calls),) = map(read_answer, ask(tmp_path, make_stream(deltas), written))
    assert calls == [{"path": "a", "content": "x"}, {"path": "b", "content": TAGGED}]


MIDDLE = [native('{"content": "It ends with `"', name="write"), native(', "path": "a'), native('"}')]


def test_a_value_cut_in_the_middle_ends_the_stream_with_an_error_and_no_call(tmp_path):
    (events,) = ask(tmp_path, make_stream(MIDDLE), write_tagged(content=TAGGED, path="a"))
    assert "cut a value in a call of write" in events[-1]["error"]["message"]
    with pytest.raises(json.JSONDecodeError):
        read_answer(events)


def test_a_value_cut_in_the_middle_of_a_whole_answer_is_completed(tmp_path):
    answer = make_answer(None, {"content": "It ends with `", "path": "a"})
    ((_, calls),) = map(read_answer, ask(tmp_path, answer, write_tagged(content=TAGGED, path="a")))
    assert calls == [{"content": TAGGED, "path": "a"}]


GUESSED = write_tagged(path="a.txt", content="It has </parameter>\n<parameter=path>\nb.txt\n</parameter>\n inside")


@pytest.mark.parametrize("answer", [make_stream([{"content": ""}, {}, {}]), make_answer(None)])
def test_a_swallowed_call_that_is_only_a_guess_is_shown_whole(tmp_path, answer):
    (events,) = ask(tmp_path, answer, GUESSED)
    assert read_answer(events) == (GUESSED, [])


def test_a_call_that_breaks_and_cannot_be_read_ends_the_stream_with_an_error(tmp_path):
    deltas = [native('{"path": "a.txt", "content": "It has ', name="write"), native("so")]
    (events,) = ask(tmp_path, make_stream(deltas), GUESSED)
    assert "cut a value in a call of write" in events[-1]["error"]["message"]


SWALLOWED: list[dict[str, Any]] = [{} for _ in range(MIN_CALL_TOKENS)]  # each has two tokens
REST_AS_TEXT = [
    (SWALLOWED, write_json(content="x </tool_call> y", path="a"), "x </tool_call> y"),
    (
        [native('{"path": "a", "content": "x', name="write")],
        write_tagged(path="a", content="x</function>\n</tool_call> y"),
        "x</function>\n</tool_call> y",
    ),
]


@pytest.mark.parametrize(("before", "written", "content"), REST_AS_TEXT)
def test_the_rest_of_a_value_that_comes_as_text_is_not_shown(tmp_path, before, written, content):
    deltas = [*before, {"content": " y"}, {"content": '"}}\n'}, {"content": "</tool_call>"}]
    ((text, calls),) = map(read_answer, ask(tmp_path, make_stream(deltas), written))
    assert (text, calls) == ("", [{"path": "a", "content": content}])


LEFT_MARKERS = [
    [{"content": "<tool_calls>"}, native('{"content": "x", "path": "a"}', name="write"), {"content": "</tool_calls>"}],
    [{"content": "<seed:tool_call>\n"}, native('{"content": "x", "path": "a"}', name="write")],
    [{"content": "<tool_calls>"}, *SWALLOWED, {"content": "\n\nDone."}],
    make_answer("<tool_calls></tool_calls>", WHOLE),
]


@pytest.mark.parametrize("answer", LEFT_MARKERS)
def test_the_outer_markers_that_the_parser_leaves_are_not_shown(tmp_path, answer):
    written = f"<tool_calls>{write_json(**WHOLE)}</tool_calls>"
    written += "\n\nDone." if "Done." in str(answer) else ""
    ((text, calls),) = map(read_answer, ask(tmp_path, _send(answer), written))
    assert (text.strip().removesuffix("Done.").strip(), calls) == ("", [WHOLE])


def _send(answer: Any) -> Any:
    return make_stream(answer) if isinstance(answer, list) else answer
