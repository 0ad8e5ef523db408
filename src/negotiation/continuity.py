"""The law of a conversation, and its meter: a prompt begins with the tokens of the prompt and answer before it. Pure.

A server keeps what it has computed of a prompt, and uses it as far as the next one begins alike. So what goes back to a
model has to be what it read and wrote. Where that breaks, the meter names the cause and the first message that differs.

Token ids are compared as the server writes them, in blocks of bytes: of a prompt four bytes a block are kept, so that a
conversation of 100,000 tokens takes 5 KB, and a turn 0.2 ms.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from zlib import crc32

from msgspec import Struct

from ..types.events import PrefixKept

BLOCK_BYTES = 512  # some 100 tokens
_NOT_COMPACT = (b" ", b"\n", b"[", b"]")  # in a list of ids, beside digits and commas
CAUSES: Mapping[str, str] = {
    "model": "another model or server was asked",
    "path": "tools are offered in another way",
    "tools": "the tools changed",
    "system": "the system prompt changed",
    "compaction": "a summary took the place of older messages",
    "edit": "an earlier message changed",
    "arguments": "the client wrote the arguments of a call anew",
    "answer": "the server writes the last answer otherwise than the model did",
    "template": "the chat template writes earlier messages otherwise than before",
}


def describe_kept(kept: PrefixKept) -> str:
    """In one line, for people."""
    text = f"{kept.share:.1%} of the last prompt and answer were the beginning of this prompt"
    if kept.cause:
        text = f"{text}; {CAUSES[kept.cause]}"
    if kept.place is not None:
        text = f"{text}, from message {kept.place + 1} on"
    return text


class Sent(Struct, frozen=True):
    """What a prompt was made of; all is only compared. `has_system`: the first message is the system prompt."""

    model: str
    path: object
    tools: object
    messages: Sequence[object]
    has_system: bool


class Fingerprint(Struct, frozen=True):
    """Of a prompt and its answer: the checksums of the prompt up to the end of each whole block, and the rest as it is.

    So the last checksum tells whether a text begins with all blocks.
    """

    blocks: array[int]
    rest: bytes

    @classmethod
    def take(cls, prompt: bytes, answer: bytes, known: array[int]) -> Fingerprint:
        """`known`: the first of the checksums."""
        blocks, checksum = known[:], next(reversed(known), 0)
        end = len(prompt) - len(prompt) % BLOCK_BYTES
        for start in range(len(known) * BLOCK_BYTES, end, BLOCK_BYTES):
            checksum = crc32(prompt[start : start + BLOCK_BYTES], checksum)
            blocks.append(checksum)
        return cls(blocks, prompt[end:] + answer)

    @property
    def whole_size(self) -> int:
        """Bytes in whole blocks."""
        return len(self.blocks) * BLOCK_BYTES

    @property
    def size(self) -> int:
        """In bytes."""
        return self.whole_size + len(self.rest)

    def count_kept(self, text: bytes) -> int:
        """How many bytes of it a text begins with; where a block differs, as many as are in whole blocks."""
        start = self.whole_size
        if self.blocks and crc32(memoryview(text)[:start]) != self.blocks[-1]:
            return self._count_blocks(text) * BLOCK_BYTES
        if text.startswith(self.rest, start):
            return start + len(self.rest)
        return start + count_same(self.rest, text[start : start + len(self.rest)])

    def _count_blocks(self, text: bytes) -> int:
        checksum = 0
        for place, expected in enumerate(self.blocks):
            checksum = crc32(text[place * BLOCK_BYTES : (place + 1) * BLOCK_BYTES], checksum)
            if checksum != expected:
                return place
        return len(self.blocks)


class Trail(Struct, frozen=True):
    """What is kept of a turn until the next one."""

    sent: Sent
    prompt_tokens: int
    tokens: int  # of prompt and answer
    fingerprint: Fingerprint


def write_ids(ids: bytes) -> bytes:
    """Token ids, as a server writes them in a list, in the one form in which they are compared."""
    if any(each in ids for each in _NOT_COMPACT):  # to look is faster than to copy
        ids = ids.translate(None, b"".join(_NOT_COMPACT))
    return ids + b"," if ids else b""


class Known(Struct, frozen=True):
    """The beginning of a prompt that the turn before had, too: its size in bytes, its tokens, and its whole blocks."""

    size: int
    tokens: int
    blocks: array[int]


NOTHING_KNOWN = Known(0, 0, array("I"))


def find_known(before: Trail, prompt: bytes) -> Known:
    """`prompt`: as write_ids gives it."""
    fingerprint = before.fingerprint
    size = fingerprint.count_kept(prompt)
    if size >= fingerprint.whole_size:  # the usual case: to count what is not kept takes no time
        tokens = before.tokens - fingerprint.rest.count(b",", size - fingerprint.whole_size)
    else:
        tokens = prompt.count(b",", 0, size)
    return Known(size, tokens, fingerprint.blocks[: size // BLOCK_BYTES])


def make_trail(sent: Sent, prompt: bytes, answer: Sequence[int], known: Known = NOTHING_KNOWN) -> Trail:
    """`prompt`: as write_ids gives it. `known`: of its beginning, which is not read again."""
    written = b"".join([b"%d," % each for each in answer])
    count = known.tokens + prompt.count(b",", known.size)
    return Trail(sent, count, count + len(answer), Fingerprint.take(prompt, written, known.blocks))


def compare(before: Trail, sent: Sent, known: Known) -> PrefixKept:
    """What of the turn before the next prompt begins with."""
    tokens = known.tokens
    if tokens == before.tokens:
        return PrefixKept(tokens, before.tokens)
    return PrefixKept(tokens, before.tokens, *find_cause(before, sent, tokens))


def find_cause(before: Trail, now: Sent, kept: int) -> tuple[str, int | None]:
    """The cause of a break behind so many tokens, and the place of the first message that differs."""
    old = before.sent
    if old.model != now.model:
        return "model", None
    place = count_same(old.messages, now.messages)
    if place < len(old.messages):
        if place == 0 and old.has_system:
            return "path" if old.path != now.path else "system", 0
        return "compaction" if len(now.messages) < len(old.messages) else "edit", place
    if old.path != now.path:
        return "path", None
    if old.tools != now.tools:
        return "tools", None
    return "answer" if kept >= before.prompt_tokens else "template", None


def count_same(before: Sequence[object], now: Sequence[object]) -> int:
    """How many values two sequences begin with alike."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((place for place, (old, new) in pairs if old is not new and old != new), min(len(before), len(now)))


class ContinuityMeter:
    """Measures one conversation, turn by turn."""

    def __init__(self) -> None:
        self.last: PrefixKept | None = None  # of the last turn that could be measured
        self._before: Trail | None = None

    def measure(self, sent: Sent, prompt: bytes, answer: Sequence[int]) -> PrefixKept | None:
        """What was kept in a turn; None for a first one, and where the server tells no token ids.

        `prompt`: the ids of the prompt, as the server writes them; `answer`: those of the answer to it.
        """
        ids, before, self._before = write_ids(prompt), self._before, None
        if not ids:
            return None
        if before is None:
            self._before = make_trail(sent, ids, answer)
            return None
        shared = find_known(before, ids)
        self.last = compare(before, sent, shared)
        self._before = make_trail(sent, ids, answer, shared)
        return self.last
