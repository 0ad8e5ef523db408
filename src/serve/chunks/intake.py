"""What a server's events are before they are guarded: chunks of the documented form. Pure.

Most chunks pass untouched. A whole answer in place of chunks, and one call in place of a list of calls, are rewritten,
for a client reads neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...errors import WireError
from ...providers.stream.sse import EventDecoder
from ...providers.wire_json import as_dict, as_dicts, encode_json, load_json

DONE = b"[DONE]"
_NO_CHOICE = b'"choices":[]'
_BLANKS = b'"choices": '  # vLLM writes JSON without them; a proxy between may not
_ONE_CALL = b'"tool_calls":{'


def sort_events(found: Sequence[bytes], last: list[bytes]) -> tuple[list[bytes], bool]:
    """The chunks with choices, and whether the server said that they are the last; the others are added to `last`."""
    chunks: list[bytes] = []
    for data in found:
        if data == DONE:  # a server may keep the connection open
            return chunks, True
        if _BLANKS in data:
            data = encode_json(load_json(data))
        if _NO_CHOICE in data:
            last.append(data)
        elif _ONE_CALL in data or b'"delta"' not in data:
            chunks += _rewrite(data)
        elif data.strip():
            chunks.append(data)
    return chunks, False


def take_rest(events: EventDecoder) -> list[bytes]:
    """The events that no blank line has ended, but for one that is cut."""
    rest: list[bytes] = []
    with suppress(WireError):
        for line in events.close():
            if line != DONE:
                load_json(line)
            rest.append(line)
    return rest


def split_choices(chunks: Sequence[bytes]) -> Iterable[tuple[int, list[bytes]]]:
    """The chunks of each choice."""
    parts: dict[int, list[bytes]] = {}
    for data in chunks:
        chunk = as_dict(load_json(data))
        for choice in as_dicts(chunk.get("choices")):
            part = encode_json({**chunk, "choices": [choice]})
            parts.setdefault(int(choice.get("index") or 0), []).append(part)
    return parts.items()


def make_chunks(answer: Mapping[str, Any], *, has_usage: bool = False) -> list[bytes]:
    """A whole answer as it would have been streamed; `has_usage`: with a chunk for its usage."""
    shell = {**answer, "object": "chat.completion.chunk"}
    usage = {"usage": shell.pop("usage", None)}
    chunks: list[dict[str, Any]] = []
    for choice in as_dicts(answer.get("choices")):
        delta = as_dict(choice.get("message") or choice.get("delta"))
        if delta.get("tool_calls"):
            delta = {**delta, "tool_calls": _index_calls(delta["tool_calls"])}
        before = {"index": choice.get("index", 0), "delta": delta, "finish_reason": None}
        chunks.append({**shell, "choices": [before]})
        if choice.get("finish_reason"):
            after = {**choice, "delta": {}}
            after.pop("message", None)
            chunks.append({**shell, "choices": [after]})
    if has_usage:
        chunks.append({**shell, "choices": [], **usage})
    return [encode_json(chunk) for chunk in chunks]


def _index_calls(calls: Any) -> list[dict[str, Any]]:
    if isinstance(calls, dict):
        calls = [calls]
    return [{**call, "index": call.get("index") or index} for index, call in enumerate(as_dicts(calls))]


def _rewrite(data: bytes) -> list[bytes]:
    """A chunk that has no delta, or one call in place of a list; as it is if it is no answer either."""
    if not data.strip():
        return []
    chunk = as_dict(load_json(data))
    if any(choice.get("message") or choice.get("delta") for choice in as_dicts(chunk.get("choices"))):
        return make_chunks(chunk)
    return [data]
