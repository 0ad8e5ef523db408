"""What is behind a call never leaves before it: for every API, any pieces of the text and any grouping into reads."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from src.parsing.classify import make_id_source
from src.serve.apis.dialects import ChatDialect, MessagesDialect, ResponsesDialect
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import StreamGuard

PARAMETERS = {"path": {"type": "string"}, "content": {"type": "string"}}
TOOL = {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": PARAMETERS}}}
CHAT = ChatBody({"model": "m", "messages": [], "tools": [TOOL]})
LONG = "It is a long line of a file, which is written while the model goes on with it, and on. " * 3


def write_call(path: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'write', 'arguments': {'path': path, 'content': LONG}})}\n</tool_call>"


PARTS = [
    "Let me write it.\n",
    write_call("a.txt"),
    "\nAnd the other:\n",
    write_call("b.txt"),
    "\nBoth are written now.",
]
TEXT = "".join(PARTS)
ENDS = [sum(map(len, PARTS[:count])) for count in range(1, len(PARTS))]
PLACES = st.one_of(st.integers(1, len(TEXT) - 1), st.sampled_from(ENDS).map(lambda end: end - 1))


def make_chunk(delta: dict, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return json.dumps({"id": "x", "model": "m", "choices": [choice]}, separators=(",", ":")).encode()


def stream(cuts: list[int], reads: list[int], *, finish: str | None = "stop") -> list[bytes]:
    """What leaves of TEXT in these pieces; `reads`: the first piece of each read but the first."""
    bounds = [0, *sorted(set(cuts)), len(TEXT)]
    chunks = [make_chunk({"content": TEXT[start:end]}) for start, end in pairwise(bounds)]
    chunks += [make_chunk({}, finish)] if finish else []
    guard = StreamGuard(CHAT, make_id_source())
    sent = []
    for start, end in pairwise([0, *sorted({read for read in reads if 0 < read < len(chunks)}), len(chunks)]):
        sent += guard.feed(chunks[start:end])
    guard.close(is_done=True)
    return [*sent, *guard.settle(guard.assembler.response().calls)]


def read_chat(sent: bytes) -> list[str]:
    """Texts and calls in the order in which they began, as a client joins them."""
    parts: list[tuple[object, list[str]]] = []
    for event in read_events(sent):
        delta = event["choices"][0]["delta"]
        pieces = [("text", delta["content"])] if delta.get("content") else []
        pieces += [(call["index"], call["function"]["arguments"]) for call in delta.get("tool_calls") or ()]
        for key, piece in pieces:
            if not parts or parts[-1][0] != key:
                parts.append((key, []))
            parts[-1][1].append(piece)
    return ["".join(pieces) for _, pieces in parts]


def read_messages(sent: bytes) -> list[str]:
    """As Anthropic's SDK does: a piece belongs to the block of its index, which has a kind."""
    blocks: list[list[str]] = []
    kinds: list[str] = []
    for event in read_events(sent):
        if event["type"] == "content_block_start":
            blocks.append([])
            kinds.append({"text": "text_delta", "tool_use": "input_json_delta"}[event["content_block"]["type"]])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            assert delta["type"] == kinds[event["index"]]
            blocks[event["index"]].append(delta.get("text", "") + delta.get("partial_json", ""))
    return ["".join(block) for block in blocks]


def read_responses(sent: bytes) -> list[str]:
    """As the items are when they are done."""
    items = [event["item"] for event in read_events(sent) if event["type"] == "response.output_item.done"]
    return [item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"] for item in items]


def read_events(sent: bytes) -> list[dict]:
    lines = (line.removeprefix(b"data: ") for line in sent.split(b"\n") if line.startswith(b"data: {"))
    return [json.loads(line) for line in lines]


APIS = {
    "chat completions": (ChatDialect, {}, read_chat),
    "messages": (MessagesDialect, {"model": "m", "messages": [], "max_tokens": 9}, read_messages),
    "responses": (ResponsesDialect, {"model": "m", "input": "x"}, read_responses),
}
CALLS = [{"path": path, "content": LONG} for path in ("a.txt", "b.txt")]


def expect(live: int) -> list[object]:
    """What a client gets if so many calls left while they were written; the others come at the end of the answer."""
    parts = [part for call, text in zip(CALLS, PARTS[2::2], strict=True) for part in (call, text)]
    written, waiting = parts[: 2 * live], parts[2 * live :]
    return [*written, *(part for part in waiting if isinstance(part, str)), *CALLS[live:]]


def join_texts(parts: list[object]) -> list[object]:
    joined: list[object] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return [" ".join(part.split()) if isinstance(part, str) else part for part in joined]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("finish", ["stop", None])
@given(cuts=st.lists(PLACES, max_size=25), reads=st.lists(st.integers(1, 26), max_size=6))
@example(cuts=[], reads=[])
@example(cuts=[200, 320], reads=[1, 2])
@example(cuts=[*range(100, 300, 10)], reads=[12])
def test_no_text_behind_a_call_leaves_before_the_call_is_whole(api, finish, cuts, reads):
    make_dialect, body, read = APIS[api]
    dialect = make_dialect(body, make_id_source())
    sent = b"".join(dialect.encode_payload([chunk]) for chunk in [*stream(cuts, reads, finish=finish), b"[DONE]"])
    parts = [json.loads(part) if part.startswith("{") else part for part in read(sent) if part.strip()]
    assert join_texts(parts) in [join_texts([PARTS[0], *expect(live)]) for live in range(3)]
