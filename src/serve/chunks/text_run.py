"""Chunks that differ from the one before only in their text, without reading their JSON. Pure.

Most chunks of an answer are such. Their text is looked at, their token ids are cut out, and they leave. What is kept of
them is joined to one chunk that says the same, which is decoded when a chunk of another form comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ...errors import WireError
from ...providers.wire_json import load_string

# In a JSON string a quote is escaped, so that these match fields alone. The ids are the last list of the chunk.
_FORM = re.compile(
    rb'(.*"delta":\{"(?:content|(reasoning|reasoning_content))":")[^"\\]*(?:\\.[^"\\]*)*("[^\[\]]*(?:"token_ids":\[)?)'
    rb"([0-9,]*\][^\[]*)",
    re.DOTALL,
)
_TOKEN_IDS = b'token_ids":['  # and prompt_token_ids
_PROMPT = re.compile(rb'"prompt_token_ids": ?\[([0-9, ]+)\]')
_NUMBERS = b"0123456789,"


def hide_token_ids(data: bytes) -> bytes:
    """The JSON with null for token ids, as vLLM writes it where they are not asked for."""
    start = data.find(_TOKEN_IDS)
    while start >= 0:
        start += len(_TOKEN_IDS) - 1
        data = data[:start] + b"null" + data[data.index(b"]", start) + 1 :]
        start = data.find(_TOKEN_IDS, start)
    return data


def clear_token_ids(answer: dict[str, Any]) -> None:
    """As hide_token_ids, for a whole answer."""
    for holder in (answer, *answer["choices"]):
        for name in ("prompt_token_ids", "token_ids"):
            if name in holder:
                holder[name] = None


def count_prompt_tokens(data: bytes) -> int:
    """Those that an answer, or its first event, tells; 0 if it does not."""
    ids = find_prompt_ids(data)
    return ids.count(b",") + 1 if ids else 0


def find_prompt_ids(data: bytes) -> bytes:
    """The token ids of the prompt in the first event of a stream, as the server writes them; empty if it has none."""
    prompt = _PROMPT.search(data)
    return prompt[1] if prompt else b""


class WaitingChunk(Struct, frozen=True):
    """A chunk whose text may begin a call."""

    text: str
    quoted: bytes  # its text in JSON, with its quotes
    end: bytes  # from the token ids on
    data: bytes
    shown: bytes  # without the token ids if they are hidden


class TextRun:
    """`hides_ids`: the client did not ask for token ids.

    `count_held`: how many characters at the end of a text may begin a call; -1 if the parser has to read the text.
    """

    def __init__(self, count_held: Callable[[str], int], *, hides_ids: bool) -> None:
        self._count_held = count_held
        self._hides_ids = hides_ids
        # A chunk is the head, its text, the middle up to the token ids, and an end with them and the usage.
        self._head = self._middle = self._hidden = b""
        self._shape = b""  # of the end: without its numbers
        self._text_start = 0
        self._is_thought = False
        self._strings: list[bytes] = []  # of what passed: the texts in JSON, with their quotes
        self._ends: list[bytes] = []  # of what passed
        self._waiting: list[WaitingChunk] = []
        self._held_text = ""  # the end of the text, if it may begin a call
        self.size = 0  # of what passed or waits, in characters

    def learn(self, data: bytes) -> None:
        """Take the form of a chunk that holds text, and no finish reason. No chunk may have passed since `take`."""
        if self._split(data):
            return
        self._middle = b""
        form = _FORM.fullmatch(data)
        if form is None or _TOKEN_IDS in form[1]:
            return
        self._head, thought, self._middle, end = form.groups(b"")
        self._text_start, self._is_thought = len(self._head), bool(thought)
        self._shape = end.translate(None, _NUMBERS)
        has_ids = self._hides_ids and self._middle.endswith(_TOKEN_IDS)
        self._hidden = self._middle[:-1] + b"null" if has_ids else b""

    def _split(self, data: bytes) -> tuple[int, bytes] | None:
        """Where the text of a chunk of the form stops, and the end behind it."""
        middle = self._middle
        if not middle or not data.startswith(self._head) or (stop := data.find(middle, self._text_start)) < 0:
            return None
        end = data[stop + len(middle) :]
        return (stop, end) if end.translate(None, _NUMBERS) == self._shape else None

    def pass_on(self, data: bytes) -> list[bytes] | None:
        """The chunks to send now that this one has come; None if it has another form, or the parser has to read it."""
        parts = self._split(data)
        if parts is None:
            return None
        stop, end = parts
        quoted = data[self._text_start - 1 : stop + 1]
        try:
            text = load_string(quoted)
        except WireError:  # a lone surrogate
            return None
        held = 0 if self._is_thought else self._count_held(self._held_text + text)
        if held < 0 or not text:
            return None
        self.size += len(text)
        hidden = self._hidden
        shown = data[:stop] + hidden + end[end.index(b"]") + 1 :] if hidden else data
        if held or self._waiting:
            return self._wait(WaitingChunk(text, quoted, end, data, shown), held)
        self._strings.append(quoted)
        self._ends.append(end)
        return [shown]

    def _wait(self, chunk: WaitingChunk, held: int) -> list[bytes]:
        """The chunks to send. `held`: the characters at the end of the text that may begin a call."""
        if held > len(chunk.text):
            self._held_text = (self._held_text + chunk.text)[-held:]
            self._waiting.append(chunk)
            return []
        if held:
            self._held_text = chunk.text[-held:]
            passed, self._waiting = self._waiting, [chunk]
        else:
            self._held_text = ""
            passed, self._waiting = [*self._waiting, chunk], []
        self._strings += [each.quoted for each in passed]
        self._ends += [each.end for each in passed]
        return [each.shown for each in passed]

    def take(self) -> tuple[list[bytes], list[bytes]]:
        """What was sent as one chunk, if anything was, and the chunks that wait."""
        strings, ends, waiting = self._strings, self._ends, [chunk.data for chunk in self._waiting]
        self._strings, self._ends, self._waiting, self._held_text, self.size = [], [], [], "", 0
        if not strings:
            return [], waiting
        text = b"".join([each[1:-1] for each in strings])
        ids = b",".join(filter(None, [each.partition(b"]")[0] for each in ends]))
        return [b"".join((self._head, text, self._middle, ids, b"]", ends[-1].partition(b"]")[2]))], waiting
