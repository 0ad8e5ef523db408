"""A call that leaves while it is written, and what stands behind it, as the clients of three APIs put them together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.classify import make_id_source
from src.parsing.events import is_safe
from src.serve.apis.dialects import ChatDialect, Dialect, MessagesDialect, ResponsesDialect
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import Ending, StreamGuard
from src.serve.chunks.intake import DONE
from tests.each import check_rows

from .test_call_writer import BODY, BROKEN, FORMATS, LONG, make_chunk, split, write_call

Part = list[str]  # what it is, its text, and of a call its arguments


def read_events(stream: bytes) -> Iterator[dict[str, Any]]:
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def read_chat(stream: bytes) -> list[Part]:
    """The deltas of the chat completion."""
    parts: list[Part] = []
    for event in read_events(stream):
        delta = event["choices"][0]["delta"]
        if delta.get("content"):
            parts.append(["text", delta["content"]])
        for call in delta.get("tool_calls") or ():
            parts.append([f"call {call['index']}", call["function"].get("arguments") or ""])
    return join_neighbours(parts)


def read_messages(stream: bytes) -> list[Part]:
    """The blocks of the message. A delta of another kind than its block is lost, as in Anthropic's SDK."""
    parts: list[Part] = []
    is_open = False
    for event in read_events(stream):
        if event["type"] == "content_block_start":
            kind = event["content_block"]["type"]
            parts.append(["text" if kind == "text" else f"call {count_calls(parts)}", ""])
            assert event["index"] == len(parts) - 1
            is_open = True
        elif event["type"] == "content_block_stop":
            is_open = False
        elif event["type"] == "content_block_delta":
            delta, part = event["delta"], parts[event["index"]]
            assert is_open
            part[1] += delta.get("text" if part[0] == "text" else "partial_json", "")
    return parts


def read_responses(stream: bytes) -> list[Part]:
    """The output of the response, which the deltas of its items make as well."""
    deltas: dict[int, str] = {}
    parts: list[Part] = []
    for event in read_events(stream):
        if event["type"].endswith((".output_text.delta", ".function_call_arguments.delta")):
            deltas[event["output_index"]] = deltas.get(event["output_index"], "") + event["delta"]
        elif event["type"] == "response.completed":
            for item in event["response"]["output"]:
                is_text = item["type"] == "message"
                text = item["content"][0]["text"] if is_text else item["arguments"]
                parts.append(["text" if is_text else f"call {count_calls(parts)}", text])
    assert [text for _, text in parts] == [deltas[place] for place in range(len(parts))]
    return parts


def count_calls(parts: list[Part]) -> int:
    return sum(kind != "text" for kind, _ in parts)


def join_neighbours(parts: list[Part]) -> list[Part]:
    joined: list[Part] = []
    for kind, text in parts:
        if joined and joined[-1][0] == kind:
            joined[-1][1] += text
        else:
            joined.append([kind, text])
    return joined


APIS: dict[str, tuple[Callable[..., Dialect], Callable[[bytes], list[Part]]]] = {
    "chat": (ChatDialect, read_chat),
    "messages": (MessagesDialect, read_messages),
    "responses": (ResponsesDialect, read_responses),
}
REQUESTS: dict[str, dict[str, Any]] = {
    "chat": BODY,
    "messages": {"model": "m", "max_tokens": 9, "messages": []},
    "responses": {"model": "m", "input": "Do it."},
}


def answer(api: str, reads: list[list[str]], calls: Any = None) -> list[Part]:
    """What a client puts together. `reads`: the texts of the chunks that come in each read of the server's answer.

    `calls`: those of the whole answer, if they are others than were found.
    """
    make, read = APIS[api]
    new_id = make_id_source()
    dialect = make(REQUESTS[api], new_id)
    guard = StreamGuard(ChatBody(BODY), new_id)
    stream = b"".join(
        dialect.encode_payload(guard.feed([make_chunk({"content": text}) for text in texts])) for texts in reads
    )
    stream += dialect.encode_payload(guard.feed([make_chunk({}, "stop")]))
    guard.close()
    found = [call for call in guard.assembler.response().calls if is_safe(call)]
    stream += dialect.encode_payload([*guard.settle(Ending(found if calls is None else calls)), DONE])
    return read(stream)


def write_arguments(path: str) -> str:
    return json.dumps({"path": path, "content": LONG}, ensure_ascii=False)


def group(pieces: list[str], ends: list[bool]) -> list[list[str]]:
    """The pieces in reads. `ends`: whether a read ends after the piece."""
    reads: list[list[str]] = [[]]
    for piece, is_end in zip(pieces, ends, strict=True):
        reads[-1].append(piece)
        if is_end:
            reads.append([])
    return reads


@given(st.sampled_from(sorted(APIS)), st.sampled_from(sorted(FORMATS)), st.lists(st.integers(0, 2000)), st.data())
def test_a_call_is_whole_and_in_its_place_however_the_answer_is_cut_and_read(api, format, cuts, data):
    before, behind = "First.\n", "It is done: I have written the file."
    pieces = split(f"{before}{write_call({'path': 'a.txt', 'content': LONG}, format)}\n{behind}\n", cuts)
    ends = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    parts = [[kind, text.split()] for kind, text in answer(api, group(pieces, ends))]
    call = ["call 0", write_arguments("a.txt").split()]
    written = [["text", before.split()], call, ["text", behind.split()]]
    assert parts == written


@check_rows("api", APIS)
@check_rows("size", [1, 7, 2000])
def test_two_calls_and_the_texts_behind_them_keep_their_order(api, size):
    calls = [write_call({"path": path, "content": LONG}) for path in "ab"]
    text = f"{calls[0]}\nNow the second one.\n{calls[1]}\nBoth are written."
    bounds = [0, 150, text.rindex("<tool_call>") + 150, len(text)]
    reads = [split(text[start:end], list(range(0, end - start, size))) for start, end in pairwise(bounds)]
    assert [[kind, part.strip()] for kind, part in answer(api, reads)] == [
        ["call 0", write_arguments("a")],
        ["text", "Now the second one."],
        ["call 1", write_arguments("b")],
        ["text", "Both are written."],
    ]


@check_rows("api", APIS)
@check_rows("behind", ["\nIt is written.", write_call({"path": "b.txt", "content": LONG})])
def test_what_stands_behind_a_call_that_broke_waits_for_its_rest(api, behind):
    whole = StreamGuard(ChatBody(BODY), make_id_source()).assembler.reparse
    begun = BROKEN[BROKEN.index('{"path') : BROKEN.index('", "limit"')]
    mended = whole(write_call({**json.loads(f'{begun}"}}'), "limit": 3}) + behind).calls
    parts = answer(api, [[BROKEN[:140]], [BROKEN[140:] + behind[:150]], [behind[150:]]], mended)
    calls = [json.loads(value) for kind, value in parts if kind != "text"]
    assert calls == [call.arguments for call in mended]
    assert parts[0][0] == "call 0"
