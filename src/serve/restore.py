"""What a client drops of an answer, put back into its history: the thought, the ids and the exact text of calls. Pure.

It is kept under a digest of the credential, the model, everything before the answer as the client sends it, and the
answer: its text and its calls. So an edited conversation gets nothing, nor does another model or somebody else. Two
answers that differ in nothing else are distinguished by the ids of their calls; without ids, nothing is put back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import WireError
from ..negotiation.history.exchange_text import WRITTEN, leave_out
from ..negotiation.history.messages import has_inline_thought
from ..providers.wire_json import as_dict, as_dicts, as_str, encode_json, load_json
from ..types.messages import Response, ToolCall, write_arguments
from .memory import HISTORIES_BYTES, BoundedStore

_SIZE = 16  # of a digest, in bytes
_ANSWER_BYTES, _MESSAGE_BYTES = 1500, 200  # what Python takes for one in a history
_sort_json = msgspec.json.Encoder(order="sorted").encode
_decode_json = msgspec.json.Decoder().decode
_MARK_BYTES = 8
_THINK = "<think>"
_INLINE_THOUGHT = re.compile(rf"\s*{_THINK}.*?</think>", re.DOTALL)
_CACHE_MARK = "cache_control"
_CACHE_MARK_BYTES = _CACHE_MARK.encode()


class KeptAnswer(Struct, frozen=True, array_like=True):
    """`arguments`: of each call, as the model wrote them; empty where the usual way of writing gives them."""

    ids: tuple[str, ...]
    thought: str
    arguments: tuple[str, ...]
    written: str

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


decode_kept = msgspec.msgpack.Decoder(KeptAnswer).decode


class RestoredAnswer(Struct, frozen=True):
    """A client's answer with what was put back. `values`: what was kept of it; `renamed`: ids it had otherwise."""

    values: tuple[bytes, ...]
    message: dict[str, Any]
    is_changed: bool
    renamed: Mapping[str, str]


class HistoryDigest:
    """Of a request's messages. `keys`: the place of each answer in it, and what that is kept under.

    `marks`: a digest of each message; `answer`: text and calls of the last answer; `restored`: the answers of which
    something was kept. `known`: the digest of the first messages, which are not read again.
    """

    def __init__(
        self,
        credential: str,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        known: HistoryDigest | None = None,
    ) -> None:
        self.keys: dict[int, bytes] = {}
        self.marks: list[bytes] = []
        self.restored: dict[int, RestoredAnswer] = {}
        self.answer: tuple[str, list[list[str]]] = ("", [])
        self._digest: blake2b = blake2b(encode_json([credential, model]), digest_size=_SIZE)
        if known is not None:
            self.keys.update(known.keys)
            self.marks += known.marks
            self.restored.update(known.restored)
            self.answer = known.answer
            self._digest = known._digest.copy()
        for message in messages[len(self.marks) :]:
            if message.get("role") == "assistant":
                calls = as_dicts(message.get("tool_calls"))
                self.answer = _read_text(message), describe_calls(message)
                data = encode_json(self.answer)
                self.keys[len(self.marks)] = self._make_key(data)
                data += encode_json(list_ids(calls))
            else:
                data = _encode_without_marks(message)
            digest = sha256(data).digest()  # of which the others are made: a text is hashed once
            self._digest.update(digest)
            self.marks.append(digest[:_MARK_BYTES])

    def make_key(self, answer: Response) -> bytes:
        """What the answer to this request is kept under."""
        calls = [[call.name, sort_arguments(call.arguments)] for call in answer.calls]
        return self._make_key(encode_json([answer.text.strip(), calls]))

    def _make_key(self, answer: bytes) -> bytes:
        digest = self._digest.copy()
        digest.update(b"answer" + answer)
        return digest.digest()

    @property
    def size(self) -> int:
        """In bytes, about."""
        kept = sum(len(value) for each in self.restored.values() for value in each.values)
        return 2 * kept + _ANSWER_BYTES * len(self.restored) + _MESSAGE_BYTES * len(self.marks)


class HistoryMemo:
    """The digests of the last conversations of a worker, each until the request that goes on with it.

    A request is known by its bytes. What it is answered with changes nothing in it, so the next one, but for what is
    new, need not be read again. Any thread may use it.
    """

    def __init__(self, max_bytes: int = HISTORIES_BYTES) -> None:
        self._store = BoundedStore[HistoryDigest](max_bytes)
        self._lock = Lock()

    def take(
        self, credential: str, model: str, messages: Sequence[dict[str, Any]], *, with_thoughts: bool
    ) -> tuple[bytes, HistoryDigest]:
        """The digest of these messages, and what to keep it under."""
        last = next(
            (place for place in reversed(range(len(messages))) if messages[place].get("role") == "assistant"), 0
        )
        raw = sha256(encode_json([credential, model, with_thoughts]))  # twice as fast as blake2b
        raw.update(encode_json(messages[:last])[1:-1])
        before = raw.digest()
        with self._lock:
            values = self._store.find([before])[0]
            self._store.drop(before)
        if last:
            raw.update(b",")
        raw.update(encode_json(messages[last:])[1:-1])
        return raw.digest(), HistoryDigest(credential, model, messages, values)

    def keep(self, key: bytes, history: HistoryDigest) -> None:
        with self._lock:
            self._store.put(key, history, history.size)


def describe_calls(message: Mapping[str, Any]) -> list[list[str]]:
    """Names and arguments of an answer's calls, without what clients change: the spelling of arguments."""
    functions = [as_dict(call.get("function")) for call in as_dicts(message.get("tool_calls"))]
    return [[as_str(each.get("name")), _read_arguments(each.get("arguments"))] for each in functions]


def _read_text(message: Mapping[str, Any]) -> str:
    """The text of an answer, without what clients change: thoughts, blanks around."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(as_str(part.get("text")) for part in as_dicts(content))
    text = as_str(content)
    if _THINK in text:
        text = _INLINE_THOUGHT.sub("", text, count=1)
    return text.strip()


def _read_arguments(arguments: object) -> str:
    if not isinstance(arguments, str):
        return sort_arguments(arguments or {})
    parsed = _parse(arguments)
    return arguments if parsed is None else sort_arguments(parsed)


def _parse(arguments: str) -> Any:
    """None where they are no JSON."""
    try:
        return _decode_json(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # load_json reads more
    if not arguments.strip():
        return {}
    try:
        return load_json(arguments.encode(errors="replace"))
    except WireError:
        return None


def sort_arguments(arguments: object) -> str:
    """Arguments in one spelling, whatever the order of their keys."""
    try:
        return _sort_json(arguments).decode()
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, an integer of more than 64 bits
        return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


def list_ids(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    return [as_str(call.get("id")) for call in calls]


def _encode_without_marks(message: Mapping[str, Any]) -> bytes:
    """Without `cache_control`, which clients move from message to message."""
    data = encode_json(message)
    if _CACHE_MARK_BYTES not in data:
        return data
    kept = leave_out(dict(message), _CACHE_MARK)
    if isinstance(content := message.get("content"), list):
        kept["content"] = [leave_out(part, _CACHE_MARK) if isinstance(part, dict) else part for part in content]
    return encode_json(kept)


def make_kept(answer: Response, *, with_thought: bool) -> KeptAnswer | None:
    """What may have to be put back of an answer; None if there is nothing."""
    thought = answer.thought if with_thought else ""
    written = tuple(_write(call) for call in answer.calls)
    if not thought and not written:
        return None
    return KeptAnswer(tuple(call.id for call in answer.calls), thought, written, answer.written)


def _write(call: ToolCall) -> str:
    return "" if call.written == write_arguments(call.arguments) else call.written


def choose(values: Sequence[bytes], ids: tuple[str, ...]) -> KeptAnswer | None:
    """What belongs to an answer of a client whose calls have these ids; None where that is not certain.

    Ids that a client dropped come back; an answer with other ids than ours is another answer.
    """
    candidates = [*map(decode_kept, values)]
    if any(ids):
        candidates = [each for each in candidates if each.ids == ids]
    return candidates[0] if len(candidates) == 1 else None


def put_back(
    messages: Sequence[dict[str, Any]],
    history: HistoryDigest,
    values: Sequence[tuple[bytes, ...]],
    *,
    with_thoughts: bool,
) -> tuple[list[dict[str, Any]], int]:
    """The messages with what was kept of their answers, and how many of them changed.

    `values`: what was found under each key of the history, which remembers the answers that it is put back into.
    """
    restored = list(messages)
    before, history.restored = history.restored, {}
    count = 0
    for place, value in zip(history.keys, values, strict=True):
        if not value:
            continue
        answer = before.get(place)
        if answer is None or answer.values != value:
            answer = restore_answer(messages[place], value, with_thoughts=with_thoughts)
        history.restored[place] = answer
        restored[place] = answer.message
        count += answer.is_changed
    if any(each.renamed for each in history.restored.values()):
        _rename_results(restored, history.restored)
    return restored, count


def _rename_results(messages: list[dict[str, Any]], answers: Mapping[int, RestoredAnswer]) -> None:
    """Give results the ids of the calls before them."""
    renamed: dict[str, str] = {}
    for place, message in enumerate(messages):
        if place in answers:
            renamed.update(answers[place].renamed)
        elif (id := message.get("tool_call_id")) in renamed:
            messages[place] = {**message, "tool_call_id": renamed[id]}


def restore_answer(message: dict[str, Any], values: tuple[bytes, ...], *, with_thoughts: bool) -> RestoredAnswer:
    """The answer with what was kept of it, if that is certain."""
    calls = as_dicts(message.get("tool_calls"))
    ids = tuple(list_ids(calls))
    kept = choose(values, ids)
    if kept is None:
        return RestoredAnswer(values, message, is_changed=False, renamed={})
    changed = _restore(message, calls, kept, with_thoughts=with_thoughts)
    is_changed = changed != message
    if kept.written:
        changed[WRITTEN] = kept.written
    renamed = {own: id for own, id in zip(ids, kept.ids, strict=False) if own != id}
    return RestoredAnswer(values, changed, is_changed, renamed)


def _restore(
    message: dict[str, Any], calls: Sequence[dict[str, Any]], kept: KeptAnswer, *, with_thoughts: bool
) -> dict[str, Any]:
    restored = dict(message)
    has_thought = message.get("reasoning") or message.get("reasoning_content") or has_inline_thought(message)
    if kept.thought and with_thoughts and not has_thought:
        restored["reasoning"] = kept.thought
    if kept.ids:
        spelled = zip(calls, kept.ids, kept.arguments, strict=False)
        restored["tool_calls"] = [_restore_call(call, id, arguments) for call, id, arguments in spelled]
    return restored


def _restore_call(call: dict[str, Any], id: str, arguments: str) -> dict[str, Any]:
    function = as_dict(call.get("function"))
    if not arguments:
        written = as_str(function.get("arguments"))
        parsed = _parse(written)
        arguments = write_arguments(parsed) if isinstance(parsed, dict) else written
    return {**call, "id": id, "function": {**function, "arguments": arguments}}
