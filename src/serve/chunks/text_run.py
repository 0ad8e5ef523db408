"""Chunks that differ from the one before only in their text, without reading their JSON. Pure.

Most chunks of an answer are such. Their text is looked at, their token ids are cut out, and they leave. What is kept of
them is joined to one chunk that says the same, which is decoded when a chunk of another form comes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...errors import WireError
from ...providers.wire_json import load_string

# In a JSON string a quote is escaped, so that these match fields alone. The ids are the last list of the chunk.
_FORM = re.compile(
    rb'(.*"delta":\{"(?:content|(reasoning|reasoning_content))":")[^"\\]*(?:\\.[^"\\]*)*("[^\[\]]*(?:"token_ids":\[)?)'
    rb"([0-9,]*\][^\[]*)",
    re.DOTALL,
)
_TOKEN_IDS = b'token_ids":['  # and prompt_token_ids
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


class PlainChunk(NamedTuple):
    """A chunk of the form: `text` is its content, or a thought, and `quoted` is that in JSON, with its quotes."""

    text: str
    quoted: bytes
    ids: bytes
    tail: bytes  # what follows the token ids
    data: bytes
    shown: bytes  # without the token ids if they are hidden


class TextRun:
    """`hides_ids`: the client did not ask for token ids. `held_text`: the end of the text, if it may begin a call."""

    def __init__(self, *, hides_ids: bool) -> None:
        self._hides_ids = hides_ids
        # A chunk is the head, its text, the middle up to the token ids, and an end with them and the usage.
        self._head = self._middle = self._hidden = b""
        self._shape = b""  # of the end: without its numbers
        self._text_start = 0
        self._passed: list[PlainChunk] = []
        self._held: list[PlainChunk] = []
        self.is_thought = False
        self.held_text = ""
        self.size = 0  # of what passed, in characters

    def learn(self, data: bytes) -> None:
        """Take the form of a chunk that holds text, and no finish reason. Nothing may be added."""
        form = _FORM.fullmatch(data)
        self._middle = b""
        if form is None or _TOKEN_IDS in form[1]:
            return
        self._head, thought, self._middle, end = form.groups(b"")
        self._text_start, self.is_thought = len(self._head), bool(thought)
        self._shape = end.translate(None, _NUMBERS)
        has_ids = self._hides_ids and self._middle.endswith(_TOKEN_IDS)
        self._hidden = self._middle[:-1] + b"null" if has_ids else b""

    def read(self, data: bytes) -> PlainChunk | None:
        """The chunk, if it has the form."""
        middle, start = self._middle, self._text_start
        if not middle or not data.startswith(self._head) or (stop := data.find(middle, start)) < 0:
            return None
        end = data[stop + len(middle) :]
        if end.translate(None, _NUMBERS) != self._shape:
            return None
        quoted = data[start - 1 : stop + 1]
        try:
            text = load_string(quoted)
        except WireError:  # a lone surrogate
            return None
        ids, _, tail = end.partition(b"]")
        hidden = self._hidden
        return PlainChunk(text, quoted, ids, tail, data, data[:stop] + hidden + tail if hidden else data)

    def add(self, chunk: PlainChunk, held_chars: int) -> list[bytes]:
        """Add a chunk; returns those to send. `held_chars`: at the end of the text, which may begin a call."""
        waiting = self._held
        text = chunk.text
        if not (held_chars or waiting):
            self._passed.append(chunk)
            self.size += len(text)
            return [chunk.shown]
        self.held_text = (self.held_text + text)[-held_chars:] if held_chars else ""
        if held_chars > len(text):
            waiting.append(chunk)
            return []
        passed = waiting if held_chars else [*waiting, chunk]
        self._held = [chunk] if held_chars else []
        self._passed += passed
        self.size += sum([len(each.text) for each in passed])
        return [each.shown for each in passed]

    def take(self) -> tuple[list[bytes], list[bytes]]:
        """What was sent as one chunk, if anything was, and the chunks that were held."""
        passed, held = self._passed, [chunk.data for chunk in self._held]
        self._passed, self._held, self.held_text, self.size = [], [], "", 0
        if not passed:
            return [], held
        strings = b"".join([each.quoted[1:-1] for each in passed])
        ids = b",".join([each.ids for each in passed if each.ids])
        return [b"".join((self._head, strings, self._middle, ids, b"]", passed[-1].tail))], held
