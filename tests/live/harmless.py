"""Healthy answers, asked for straight at a server and through the gateway: what differs, but for ids and times.

    python -m tests.live.harmless SERVER_URL GATEWAY_URL      both without /v1

The cases cover the three APIs, streamed and whole. A stream is compared as its pieces add up, since a server joins
pieces where its client reads slowly.
"""

from __future__ import annotations

import itertools
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "file"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
NAMES_OF_TIMES_AND_IDS = (
    "id",
    "created",
    "created_at",
    "item_id",
    "call_id",
    "signature",
    "tool_use_id",
    "input_tokens_details",
    "cached_tokens",  # the server's cache was filled by the other request
)
TRIES = 20
TEXTS = {
    "plain": "It is done.",
    "markdown": "# Title\n\n- one\n- two\n\n```python\nprint({'a': [1, 2]})\n```\n| a | b |\n|---|---|\n",
    "json": 'Here: {"a": [1, 2, {"b": null}], "c": "d"} and [1, 2].',
    "html": "Use <b>bold</b>, <div class=\"x\"> and a < b > c & d.",
    "code": "def add(a, b):\n    return a + b  # add(a, b)\n\nadd(1, 2)\n",
    "long": "All is well with it. " * 40,
    "unicode": "Größe 12 µm, 日本語, emoji 🙂 and a\u2028line.",
    "quotes": 'She said "no\\n" and \\u00e9, \\\\, \t and </tool_call>.',
    "empty": "",
    "blank": "  \n\n ",
    "think": "<think>\nLet me see.\n</think>\n\nYes.",
    "call": '<tool_call>\n{"name": "read", "arguments": {"path": "notes.txt"}}\n</tool_call>',
    "call with text": 'Let me look.\n<tool_call>\n{"name": "read", "arguments": {"path": "a b.txt", "limit": 3}}\n</tool_call>',
    "two calls": '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "read", "arguments": {"path": "b"}}\n</tool_call>',
    "thought and call": '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>',
}  # fmt: skip
CHAT_EXTRAS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "usage": {"stream_options": {"include_usage": True}},
    "usage in every chunk": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "two choices": {"n": 2},
    "token ids": {"return_token_ids": True},
    "cut": {"max_tokens": 4},
    "stop": {"stop": ["is"]},
    "seed": {"seed": 3, "temperature": 0.5, "top_p": 0.9, "user": "me", "unknown_field": {"x": [1]}},
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
REFUSED: dict[str, dict[str, Any]] = {
    "image for a model without eyes": {"messages": [{"role": "user", "content": [IMAGE]}]},
    "bad temperature": {"temperature": -3},
    "bad tools": {"tools": [{"type": "function"}]},
    "no messages": {"messages": []},
    "other model": {"model": "nothing"},
    "too long": {"max_tokens": 10_000_000},
    "bad choice": {"tool_choice": {"type": "function", "function": {"name": "missing"}}},
}


class Case(NamedTuple):
    name: str
    path: str
    body: dict[str, Any]


def script(text: str) -> str:
    return f"Read it. @@SCRIPT@@{json.dumps([text, 'done'])}@@END@@"


def list_cases() -> Iterator[Case]:
    for (kind, text), stream in itertools.product(TEXTS.items(), (False, True)):
        how = "streamed" if stream else "whole"
        for extra, fields in CHAT_EXTRAS.items():
            if extra.startswith("usage") and not stream:
                continue
            yield Case(f"chat, {kind}, {extra}, {how}", "/v1/chat/completions", make_chat(text, stream) | fields)
        yield Case(f"messages, {kind}, {how}", "/v1/messages", make_message(text, stream))
        yield Case(f"responses, {kind}, {how}", "/v1/responses", make_response(text, stream))
    for (kind, fields), stream in itertools.product(REFUSED.items(), (False, True)):
        yield Case(f"chat refused, {kind}, {stream}", "/v1/chat/completions", make_chat("x", stream) | fields)
    for choice, stream in itertools.product(("none",), (False, True)):
        body = make_chat(TEXTS["plain"], stream) | {"tool_choice": choice}
        yield Case(f"chat, tool_choice {choice}, {stream}", "/v1/chat/completions", body)
    form = {"type": "json_object"}
    for stream in (False, True):
        body = make_chat('{"name": "read", "parameters": {"path": "a"}}', stream) | {"response_format": form}
        yield Case(f"chat, JSON mode, {stream}", "/v1/chat/completions", body)


def make_chat(text: str, stream: bool) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": SCHEMA}}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": script(text)}]
    return {"model": "tiny", "messages": messages, "tools": [tool], "max_tokens": 300, "stream": stream}


def make_message(text: str, stream: bool) -> dict[str, Any]:
    tool = {"name": "read", "description": "Read a file.", "input_schema": SCHEMA}
    message = {
        "role": "user",
        "content": [{"type": "text", "text": script(text), "cache_control": {"type": "ephemeral"}}],
    }
    return {
        "model": "tiny",
        "max_tokens": 300,
        "messages": [message],
        "tools": [tool],
        "stream": stream,
        "system": "Brief.",
    }


def make_response(text: str, stream: bool) -> dict[str, Any]:
    tool = {"type": "function", "name": "read", "description": "Read a file.", "parameters": SCHEMA, "strict": False}
    fields = {"model": "tiny", "input": script(text), "tools": [tool], "stream": stream, "instructions": "Be brief."}
    return {**fields, "max_output_tokens": 300}


def ask(url: str, case: Case) -> tuple[int, Any]:
    """Status and answer: JSON, or a stream as what its pieces add up to."""
    data = json.dumps(case.body).encode()
    request = urllib.request.Request(url + case.path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            status, kind, body = reply.status, reply.headers["Content-Type"], reply.read()
    except urllib.error.HTTPError as error:
        status, kind, body = error.code, error.headers["Content-Type"], error.read()
    if not kind.startswith("text/event-stream"):
        return status, blank(json.loads(body))
    events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return status, join(case.path, [blank(json.loads(event)) for event in events if event != "[DONE]"])


def blank(value: Any) -> Any:
    """The JSON without what differs from request to request."""
    if isinstance(value, dict):
        return {name: "-" if name in NAMES_OF_TIMES_AND_IDS and each else blank(each) for name, each in value.items()}
    return [blank(each) for each in value] if isinstance(value, list) else value


def join(path: str, events: list[dict[str, Any]]) -> Any:
    """The events, with neighbours that are pieces of one thing as one."""
    joined: list[dict[str, Any]] = []
    for event in sorted(events, key=get_choice):
        event.pop("sequence_number", None)
        if joined and add_piece(path, joined[-1], event):
            continue
        joined.append(event)
    return joined


def get_choice(event: dict[str, Any]) -> int:
    """Two choices are written at once; their order is the server's."""
    choices = event.get("choices")
    return choices[0]["index"] if choices else 99 if choices == [] else 0


def add_piece(path: str, last: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether `event` was a piece that went on from the last one, to which it is added."""
    if path != "/v1/chat/completions":
        pieces = [last.get("delta"), event.get("delta")]
        if last.get("type") != event.get("type") or last.get("index") != event.get("index"):
            return False
        if all(isinstance(piece, str) for piece in pieces):
            last["delta"] += event["delta"]
            return True
        if all(isinstance(piece, dict) and piece.get("type", "").endswith("_delta") for piece in pieces):
            name = next((name for name in ("text", "thinking", "partial_json") if name in event["delta"]), "")
            if name and name in last["delta"]:
                last["delta"][name] += event["delta"][name]
                return True
        return False
    return add_chunk(last, event)


def add_chunk(last: dict[str, Any], event: dict[str, Any]) -> bool:
    if len(last.get("choices", ())) != 1 or len(event.get("choices", ())) != 1:
        return False
    (a,), (b,) = last["choices"], event["choices"]
    if (
        a["index"] != b["index"]
        or a["finish_reason"]
        or b["finish_reason"]
        or set(a) != set(b)
        or set(last) != set(event)
    ):
        return False
    first, second = a["delta"], b["delta"]
    if set(first) == set(second) == {"content", "tool_calls"} and a.get("logprobs") is None:
        add_calls(first["tool_calls"], second["tool_calls"])
        if "usage" in event:
            last["usage"] = event["usage"]
        return True
    for name in ("content", "reasoning"):
        if set(first) == {name} == set(second) and isinstance(first[name], str):
            first[name] += second[name]
            for field in ("token_ids", "logprobs"):
                if isinstance(a.get(field), list):
                    a[field] += b[field] or []
                if isinstance(a.get(field), dict):
                    a[field]["content"] += b[field]["content"]
            if "usage" in event:
                last["usage"] = event["usage"]
            return True
    return False


def add_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        if calls and calls[-1]["index"] == piece["index"] and not piece.get("id"):
            function = calls[-1]["function"]
            function["arguments"] = function.get("arguments", "") + piece["function"].get("arguments", "")
        else:
            calls.append(piece)


def find_difference(server: str, gateway: str, case: Case) -> str:
    """Empty if both gave the same answer once. A busy server joins pieces in other ways from try to try."""
    direct: list[tuple[int, Any]] = []
    through: list[tuple[int, Any]] = []
    for _ in range(TRIES):
        direct.append(ask(server, case))
        through.append(ask(gateway, case))
        if direct[-1] in through or through[-1] in direct:
            return ""
    return f"{case.name}\n  direct:  {json.dumps(direct[-1])[:1500]}\n  through: {json.dumps(through[-1])[:1500]}"


if __name__ == "__main__":
    cases = list(list_cases())
    wanted = [case for case in cases if len(sys.argv) < 4 or sys.argv[3] in case.name]
    found = [each for case in wanted if (each := find_difference(sys.argv[1], sys.argv[2], case))]
    print("\n".join(found))
    print(f"{len(wanted) - len(found)} of {len(wanted)} answers are equal")
