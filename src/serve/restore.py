"""What a client drops of an answer, put back into its history: the thought, the ids and the exact text of calls. Pure.

It is kept under a digest of the credential, the model, everything before the answer as the client sends it, and the
answer: its text and its calls. So an edited conversation gets nothing, nor does another model or somebody else. Two
answers that differ in nothing else are distinguished by the ids of their calls; without ids, nothing is put back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from ..errors import WireError
from ..providers.wire_json import as_dict, as_dicts, as_str, encode_json, load_json
from ..types.messages import Reasoning, Response, ToolCall, write_arguments

WRITTEN = "x-vllm-bot-written"  # of a message: its text with the calls in it, as the model wrote it
_DIGEST_BYTES = 16
_SORTED = msgspec.json.Encoder(order="sorted")
_MARK_BYTES = 8
_INLINE_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


class KeptAnswer(NamedTuple):
    """`arguments`: of each call, as the model wrote them; empty where the usual way of writing gives them."""

    ids: tuple[str, ...]
    thought: str
    arguments: tuple[str, ...]
    written: str

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> KeptAnswer:
        return msgspec.msgpack.decode(data, type=cls)


class HistoryDigest:
    """Of a request's messages. `keys`: the place of each answer in it, and what that is kept under.

    `marks`: a digest of each message; `answers`: text and calls of each answer.
    """

    def __init__(self, credential: str, model: str, messages: Sequence[Mapping[str, Any]]) -> None:
        self._digest = blake2b(encode_json([credential, model]), digest_size=_DIGEST_BYTES)
        self.keys: dict[int, bytes] = {}
        self.marks: list[bytes] = []
        self.answers: list[tuple[str, list[list[str]]]] = []
        for place, message in enumerate(messages):
            if message.get("role") == "assistant":
                text, calls = describe_answer(message)
                self.keys[place] = self._make_key(text, calls)
                self.answers.append((text, calls))
                data = encode_json([text, calls, list_ids(message)])
            else:
                data = encode_json(_leave_out_marks(message))
            self._digest.update(data)
            self.marks.append(blake2b(data, digest_size=_MARK_BYTES).digest())

    def make_key(self, answer: Response) -> bytes:
        """What the answer to this request is kept under."""
        calls = [[call.name, sort_arguments(call.arguments)] for call in answer.calls]
        return self._make_key(answer.text.strip(), calls)

    def _make_key(self, text: str, calls: list[list[str]]) -> bytes:
        digest = self._digest.copy()
        digest.update(encode_json(["answer", text, calls]))
        return digest.digest()


def describe_answer(message: Mapping[str, Any]) -> tuple[str, list[list[str]]]:
    """Text and calls of an answer, without what clients change: thoughts, blanks around, the spelling of arguments."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(as_str(part.get("text")) for part in as_dicts(content))
    text = _INLINE_THOUGHT.sub("", as_str(content), count=1).strip()
    calls = [as_dict(call.get("function")) for call in as_dicts(message.get("tool_calls"))]
    return text, [[as_str(each.get("name")), _read_arguments(each.get("arguments"))] for each in calls]


def _read_arguments(arguments: object) -> str:
    if not isinstance(arguments, str):
        return sort_arguments(arguments or {})
    parsed = _parse(arguments)
    return arguments if parsed is None else sort_arguments(parsed)


def _parse(arguments: str) -> Any:
    """None where they are no JSON."""
    try:
        return load_json(arguments.encode(errors="replace")) if arguments.strip() else {}
    except WireError:
        return None


def sort_arguments(arguments: object) -> str:
    """Arguments in one spelling, whatever the order of their keys."""
    try:
        return _SORTED.encode(arguments).decode()
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, an integer of more than 64 bits
        return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


def list_ids(message: Mapping[str, Any]) -> list[str]:
    return [as_str(call.get("id")) for call in as_dicts(message.get("tool_calls"))]


def _leave_out_marks(message: Mapping[str, Any]) -> dict[str, Any]:
    """Without `cache_control`, which clients move from message to message."""
    kept = {name: value for name, value in message.items() if name != "cache_control"}
    if isinstance(content := message.get("content"), list):
        kept["content"] = [
            {name: value for name, value in part.items() if name != "cache_control"} if isinstance(part, dict) else part
            for part in content
        ]
    return kept


def make_kept(answer: Response, *, with_thought: bool) -> KeptAnswer | None:
    """What may have to be put back of an answer; None if there is nothing."""
    thought = "".join(block.text for block in answer.content if isinstance(block, Reasoning)) if with_thought else ""
    written = tuple(_write(call) for call in answer.calls)
    if not thought and not written:
        return None
    return KeptAnswer(tuple(call.id for call in answer.calls), thought, written, answer.written)


def _write(call: ToolCall) -> str:
    return "" if call.written == write_arguments(call.arguments) else call.written


def choose(values: Sequence[bytes], message: Mapping[str, Any]) -> KeptAnswer | None:
    """What belongs to this answer of a client; None where that is not certain.

    Ids that a client dropped come back; an answer with other ids than ours is another answer.
    """
    candidates = [KeptAnswer.decode(value) for value in values]
    ids = tuple(list_ids(message))
    same = [each for each in candidates if each.ids == ids] if any(ids) else candidates
    return same[0] if len(same) == 1 else None


def put_back(
    messages: Sequence[dict[str, Any]], found: Mapping[int, KeptAnswer], *, with_thoughts: bool
) -> tuple[list[dict[str, Any]], int]:
    """The messages with what was kept of the answers at these places, and how many of them changed."""
    restored: list[dict[str, Any]] = []
    renamed: dict[str, str] = {}
    count = 0
    for place, message in enumerate(messages):
        if kept := found.get(place):
            changed = _restore(message, kept, with_thoughts=with_thoughts)
            renamed.update(zip(list_ids(message), kept.ids, strict=False))
            count += changed != message
            restored.append({**changed, WRITTEN: kept.written} if kept.written else changed)
        elif (id := message.get("tool_call_id")) in renamed:
            restored.append({**message, "tool_call_id": renamed[id]} if renamed[id] != id else message)
        else:
            restored.append(message)
    return restored, count


def _restore(message: dict[str, Any], kept: KeptAnswer, *, with_thoughts: bool) -> dict[str, Any]:
    restored = dict(message)
    has_thought = any(message.get(name) for name in ("reasoning", "reasoning_content"))
    is_inline = bool(_INLINE_THOUGHT.match(as_str(message.get("content"))))
    if kept.thought and with_thoughts and not has_thought and not is_inline:
        restored["reasoning"] = kept.thought
    if kept.ids:
        calls = zip(as_dicts(message.get("tool_calls")), kept.ids, kept.arguments, strict=False)
        restored["tool_calls"] = [_restore_call(call, id, arguments) for call, id, arguments in calls]
    return restored


def _restore_call(call: dict[str, Any], id: str, arguments: str) -> dict[str, Any]:
    function = as_dict(call.get("function"))
    if not arguments:
        written = as_str(function.get("arguments"))
        parsed = _parse(written)
        arguments = write_arguments(parsed) if isinstance(parsed, dict) else written
    return {**call, "id": id, "function": {**function, "arguments": arguments}}
