"""What the gateway knows of the conversation that a request goes on with: what its client dropped is put back, and how
much of the last turn the prompt begins with is measured. Both live in the memory of answers (memory.py).
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from ..negotiation.continuity import (
    CAUSES,
    NOTHING_KNOWN,
    Fingerprint,
    Sent,
    Trail,
    compare,
    find_known,
    make_trail,
    write_ids,
)
from ..negotiation.history.messages import is_system
from ..providers.wire_json import as_dict, as_dicts, as_str, encode_json
from ..types.events import PrefixKept
from ..types.messages import Response, write_arguments
from .chat_request import ChatBody
from .loop_notes import LoopNotes
from .memory import Memory
from .restore import HistoryMemo, list_ids, make_kept, put_back, sort_arguments

HEAD_CAUSES = ("system", "tools", "edit")
HEAD_SHARE = 0.5  # of the last turn; a break that keeps less is at the head
_DIGEST_BYTES = 8

log = logging.getLogger(__name__.rpartition(".")[0])


class Conversation:
    """Of one request. `credential`: of its client, who alone gets what is kept. `notes_loops`: the model is told of
    loops. `new_session`: the name of the conversation if this is its first request; "": it gets none. `read_clock`: in
    seconds.
    """

    def __init__(
        self,
        memory: Memory,
        memo: HistoryMemo,
        credential: str,
        chat: ChatBody,
        *,
        notes_loops: bool = False,
        new_session: str = "",
        read_clock: Callable[[], float] = monotonic,
    ) -> None:
        self.restored = 0  # answers that something was put back into
        self.has_new_note = False
        self._notes_loops = notes_loops
        self.session = new_session
        self._read_clock = read_clock
        self._notes: LoopNotes | None = None
        self._memory = memory
        self._chat = chat
        self._with_thoughts = chat.body.get("include_reasoning") is not False
        self._memo = memo
        self._memo_key, self._history = memo.take(
            credential, chat.model, chat.messages, with_thoughts=self._with_thoughts
        )
        self._sent = Sent(
            chat.model, "", _digest(chat.body.get("tools")), self._history.marks, any(map(is_system, chat.messages[:1]))
        )
        self._trail_seed = encode_json(["trail", credential, chat.model])
        answers = (each for each in reversed(chat.messages) if each.get("role") == "assistant")
        last_answer = next(answers, None)
        self._last_calls = as_dicts(as_dict(last_answer).get("tool_calls"))
        self._old_key = b""
        if last_answer is not None:
            self._old_key = self._make_trail_key(list_ids(self._last_calls), *self._history.answer)
        self._before: Trail | None = None
        self._known = NOTHING_KNOWN  # of the prompt's beginning
        self._spelling = b""  # of the last answer's arguments, as the client got them
        self._has_warned = False
        self._prompt = b""

    def _make_trail_key(self, ids: Sequence[str], text: str, calls: Sequence[Sequence[str]]) -> bytes:
        """An answer is found again by itself and the question that the conversation began with."""
        first = next(
            (mark for mark, each in zip(self._history.marks, self._chat.messages, strict=True) if not is_system(each)),
            b"",
        )
        data = encode_json([list(ids), text, calls])
        return blake2b(self._trail_seed + first + data, digest_size=2 * _DIGEST_BYTES).digest()

    async def restore(self) -> ChatBody:
        """The request with what its client dropped; itself where nothing is kept of it."""
        answers = list(self._history.keys.values())
        asides = [self._old_key, _make_aside_key("notes", answers), _make_aside_key("session", answers)]
        *values, trail, notes, sessions = await self._memory.find([*answers, *asides])
        if self.session and sessions:
            self.session = sessions[-1].decode()
        if trail:
            kept = msgspec.msgpack.decode(trail[-1])
            sent, prompt_tokens, tokens, blocks, rest, self._spelling, self._has_warned = kept
            self._before = Trail(Sent(*sent), prompt_tokens, tokens, Fingerprint(array("I", blocks), rest))
        messages, self.restored = put_back(
            self._chat.messages, self._history, values, with_thoughts=self._with_thoughts
        )
        self._memo.keep(self._memo_key, self._history)
        if self._notes_loops:
            self._notes = LoopNotes(self._chat.messages, (b"", *notes)[-1], self._read_clock())
            self.has_new_note = self._notes.is_new
            messages = self._notes.apply(messages)
        if not self._history.restored and messages == self._chat.messages:
            return self._chat
        return self._chat.with_messages(messages)

    def measure(self, ids: bytes, path: str) -> PrefixKept | None:
        """What of the last turn the prompt begins with. `ids`: its tokens, as the server writes them in a list."""
        self._prompt = write_ids(ids)
        self._sent = replace(self._sent, path=path)
        if self._before is None or not self._prompt:
            return None
        self._known = find_known(self._before, self._prompt)
        kept = compare(self._before, self._sent, self._known)
        if kept.cause == "answer" and not self.restored:
            functions = [as_dict(call.get("function")) for call in self._last_calls]
            if self._spelling != _digest([as_str(each.get("arguments")) for each in functions]):
                kept = replace(kept, cause="arguments")
        self._warn(kept)
        return kept

    def _warn(self, kept: PrefixKept) -> None:
        if self._has_warned or kept.cause not in HEAD_CAUSES or kept.share >= HEAD_SHARE:
            return
        self._has_warned = True
        where = ""
        if kept.place is not None:
            role = self._chat.messages[kept.place].get("role")
            where = f" Message {kept.place + 1} ({role}) is the first that differs."
        log.warning("A client broke the prefix of its own conversation: %s.%s", CAUSES[kept.cause], where)

    async def keep(self, answer: Response, tokens: Sequence[int]) -> None:
        """Remember the answer to this request. `tokens`: those that the model wrote."""
        if kept := make_kept(answer, with_thought=self._with_thoughts):
            await self._memory.keep(self._history.make_key(answer), kept.encode())
        if self._notes:
            key = _make_aside_key("notes", [self._history.make_key(answer)])
            await self._memory.replace(key, self._notes.encode(self._read_clock()))
        if self.session:
            key = _make_aside_key("session", [self._history.make_key(answer)])
            await self._memory.replace(key, self.session.encode())
        if not self._prompt:
            return
        trail = make_trail(self._sent, self._prompt, tokens, self._known)
        calls = [[call.name, sort_arguments(call.arguments)] for call in answer.calls]
        key = self._make_trail_key([call.id for call in answer.calls], answer.text.strip(), calls)
        spelling = _digest([call.written or write_arguments(call.arguments) for call in answer.calls])
        row = [astuple(trail.sent), trail.prompt_tokens, trail.tokens, *astuple(trail.fingerprint)]
        data = msgspec.msgpack.encode([*row, spelling, self._has_warned], enc_hook=bytes)  # the array of checksums
        await self._memory.replace(key, data, self._old_key)


def _make_aside_key(kind: str, answers: Sequence[bytes]) -> bytes:
    """What the notes of a history, or the name of its session, are kept under. `answers`: their keys in it."""
    if not answers:
        return b""
    return blake2b(kind.encode() + answers[-1], digest_size=2 * _DIGEST_BYTES).digest()


def _digest(value: Any) -> bytes:
    return blake2b(encode_json(value), digest_size=_DIGEST_BYTES).digest()
