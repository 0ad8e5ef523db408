"""The rest of an answer that broke off: what the client has is kept, and another answer is read behind it. Pure.

A server that continues a message of the assistant is given the text so far. Another one is asked anew, and its answer
counts only if it begins with that text. Parts of a call are never completed from another answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import StreamCut
from ..providers.wire_json import as_dict, as_dicts, encode_json, load_json

_SUMMED = ("prompt_tokens", "completion_tokens", "total_tokens")
_IDENTITY = ("id", "created", "model")


class OtherAnswer(StreamCut):
    """The answer does not begin with what the client has of the one before."""


class Resumption:
    """Of one answer. `text`: what the client has of it; `last`: the last chunk that came of it, {} if none did.

    `is_continued`: the server gives only what follows the text.
    """

    def __init__(self, text: str, last: Mapping[str, Any], *, is_continued: bool) -> None:
        self.text = text
        self._last = last
        self._missing = "" if is_continued else text  # that the new answer has yet to repeat

    def make_beginning(self) -> bytes:
        """A chunk with what the client has."""
        choice = {"index": 0, "delta": {"content": self.text}, "finish_reason": None}
        return encode_json({**self._last, "usage": None, "choices": [choice]})

    def adapt(self, chunks: Sequence[bytes]) -> list[bytes]:
        """The chunks as they go on with the answer before. Raises OtherAnswer where they do not."""
        return [self._adapt(load_json(data)) for data in chunks]

    def _adapt(self, chunk: Any) -> bytes:
        chunk = as_dict(chunk)
        if self._last and "choices" in chunk:
            chunk |= {name: self._last[name] for name in _IDENTITY if name in self._last}
        for choice in as_dicts(chunk.get("choices")):
            self._adapt_choice(choice)
        self._add_usage(chunk)
        return encode_json(chunk)

    def _adapt_choice(self, choice: dict[str, Any]) -> None:
        choice["delta"] = delta = as_dict(choice.get("delta"))
        if self._last:
            delta.pop("role", None)  # some clients join the roles of all chunks
        if isinstance(delta.get("content"), str):
            delta["content"] = self._skip(delta["content"])
        if self._missing and (delta.get("tool_calls") or choice.get("finish_reason")):
            raise OtherAnswer("The second answer is another one.")

    def _skip(self, content: str) -> str:
        """The content without what the client has."""
        size = min(len(content), len(self._missing))
        if content[:size] != self._missing[:size]:
            raise OtherAnswer("The second answer is another one.")
        self._missing = self._missing[size:]
        return content[size:]

    def _add_usage(self, chunk: dict[str, Any]) -> None:
        """Both answers were written, so that both are counted, as far as the first one told it."""
        before, usage = as_dict(self._last.get("usage")), as_dict(chunk.get("usage"))
        if usage:
            counted = {name: usage.get(name, 0) + (before.get(name) or 0) for name in _SUMMED}
            chunk["usage"] = {**usage, **counted}
