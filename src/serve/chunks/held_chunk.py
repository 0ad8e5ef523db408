"""A chunk that waits until it is known what of its text is part of a call, and what is made of it then. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...providers.wire_json import as_dicts, encode_json


class HeldChunk:
    """A chunk with `size` characters of content, of which `left` are not covered by segments yet.

    `data` is empty if it was sent; `size` is -1 if a part of its content was.
    """

    __slots__ = ("calls", "data", "deltas", "is_last", "left", "size")

    def __init__(self, data: bytes, size: int, calls: Sequence[int], is_last: bool) -> None:
        self.data = data
        self.size = self.left = size
        self.calls = calls  # indexes of the native calls that it has pieces of, in their order
        self.is_last = is_last
        self.deltas: list[dict[str, Any]] = []  # what its content becomes: text, and calls that stood in it

    def keep(self, text: str) -> None:
        """`text` of its content stays."""
        if self.deltas and "content" in self.deltas[-1]:
            self.deltas[-1]["content"] += text
        elif text:
            self.deltas.append({"content": text})

    @property
    def unsent(self) -> int:
        """How many characters of its content were not sent."""
        if not self.data:
            return 0
        return self.size if self.size >= 0 else self.left + self._kept

    @property
    def is_untouched(self) -> bool:
        """Whether all of its content stays as it is."""
        return self.size == self._kept and len(self.deltas) <= 1

    @property
    def _kept(self) -> int:
        """How many characters of its content are to be sent."""
        return sum(len(each.get("content", "")) for each in self.deltas)


def render(chunk: HeldChunk) -> list[bytes]:
    """The chunk with what is left of its content; none if nothing is, or if it was sent."""
    if not chunk.data:
        return []
    if chunk.is_untouched:
        return [chunk.data]
    value = json.loads(chunk.data)
    rest = list(chunk.deltas)
    first: list[bytes] = []
    if rest and "content" in rest[0]:
        (choice,) = value["choices"]
        before = {name: part for name, part in choice.items() if name != "logprobs"}  # they are of the whole content
        delta = {**choice["delta"], **rest.pop(0)}
        first = [encode_json({**value, "choices": [{**before, "delta": delta}]})]
    return [*first, *build_chunks(value, rest)]


def render_last(chunk: HeldChunk, added: Sequence[dict[str, Any]], reason: str, *, is_dropped: bool) -> list[bytes]:
    """The chunk with the finish reason, after chunks with its own calls and the `added` deltas.

    `reason`: why the answer ended; "": nothing of it was changed. `is_dropped`: its own calls are not sent.
    """
    if not reason and chunk.is_untouched:
        return [chunk.data]
    value = json.loads(chunk.data)
    (choice,) = value["choices"]
    deltas = [*chunk.deltas]
    if chunk.calls and not is_dropped:
        deltas.append({"tool_calls": choice["delta"]["tool_calls"]})
    chunks = build_chunks(value, [*deltas, *added])
    choice["finish_reason"] = reason or choice["finish_reason"]
    choice["delta"] = {}
    return [*chunks, encode_json(value)]


def build_chunks(like: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> list[bytes]:
    """Chunks that hold these deltas, and are else as this one before its end."""
    shell = {name: each for name, each in like.items() if name not in ("usage", "prompt_token_ids")}
    (choice,) = like["choices"]
    ended = {"finish_reason", "logprobs", "stop_reason", "token_ids"} & choice.keys()
    before = {**choice, **dict.fromkeys(ended)}
    return [encode_json({**shell, "choices": [{**before, "delta": delta}]}) for delta in deltas]


def name_end(*, has_calls: bool, is_cut: bool = False) -> str:
    """The finish reason of an answer. `is_cut`: it has reached its limit of tokens."""
    if is_cut:
        return "length"
    return "tool_calls" if has_calls else "stop"


def build_end(like: dict[str, Any], reason: str) -> bytes:
    """A last chunk, for an answer that has none."""
    value = json.loads(build_chunks(like, [{}])[0])
    value["choices"][0]["finish_reason"] = reason
    return encode_json(value)


def write_pieces(data: bytes, arguments: Sequence[str]) -> bytes:
    """The chunk with these arguments in its pieces of calls; b"" if nothing is left of it."""
    value = json.loads(data)
    (choice,) = value["choices"]
    delta = choice["delta"]
    calls = as_dicts(delta.get("tool_calls"))
    functions = [call.setdefault("function", {}) for call in calls]
    if delta.get("function_call"):  # OpenAI's API before tool_calls
        functions.insert(0, delta["function_call"])
    for function, text in zip(functions, arguments, strict=True):
        function["arguments"] = text
    has_more = any(arguments) or len(delta) > 1 or choice.get("finish_reason")
    if has_more or any(call.get("id") or call["function"].get("name") for call in calls):
        return encode_json(value)
    return b""


def clear_finish(data: bytes) -> bytes:
    """The chunk without its finish reason."""
    value = json.loads(data)
    for choice in value["choices"]:
        choice["finish_reason"] = None
    return encode_json(value)


def shift_calls(data: bytes, count: int) -> bytes:
    """The chunk with its calls behind those that were written before them."""
    value = json.loads(data)
    for choice in value["choices"]:
        for call in choice["delta"].get("tool_calls") or ():
            call["index"] = count + (call.get("index") or 0)
    return encode_json(value)
