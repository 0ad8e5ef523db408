"""What a program printed, in bounded memory: the head and the tail of it; the whole goes to the output store."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable

from ..sdk.output_store import ToolOutput, Writer


class Output:
    """What a program printed, as text of at most `max_chars` characters: beyond that its head and its tail.

    Linear in what is fed. `store` gets every byte, `watch` all of the text as it comes.
    """

    def __init__(
        self, max_chars: int, store: Writer | None = None, watch: Callable[[str], object] | None = None
    ) -> None:
        self._store = store
        self._watch = watch
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head: list[str] = []
        self._head_room = max_chars // 2
        self._tail: deque[str] = deque()
        self._tail_max = max_chars - max_chars // 2
        self._tail_size = 0
        self._cut = 0

    def feed(self, data: bytes, *, final: bool = False) -> None:
        if self._store:
            self._store.write(data)
        text = self._decoder.decode(data, final)
        if self._watch and text:
            self._watch(text)
        if self._head_room:
            self._head.append(text[: self._head_room])
            text = text[self._head_room :]
            self._head_room -= len(self._head[-1])
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) > self._tail_max:
            self._cut += len(self._tail[0])
            self._tail_size -= len(self._tail.popleft())

    @property
    def ref(self) -> str:
        """The reference of the whole output; "" if none is stored."""
        return self._store.ref if self._store else ""

    def flush(self) -> None:
        """Let what was stored be read."""
        if self._store:
            self._store.flush()

    def text(self) -> str:
        """The text, at the end of the output."""
        self.feed(b"", final=True)
        return self.read()

    def read(self) -> str:
        """The text so far."""
        tail = "".join(self._tail)
        over = max(0, len(tail) - self._tail_max)
        cut = self._cut + over
        stored = ""
        if self._store and self._store.size:
            stored = f': tool_output_cache(ref_id="{self._store.ref}")'
            if not self._store.complete:
                stored = f"; the first {self._store.size:,} bytes of all{stored}"
        gap = ""
        if cut:
            gap = f"\n[... {cut:,} characters cut out of the middle{stored} ...]\n"
        return ("".join(self._head) + gap + tail[over:]).replace("\0", "\ufffd")

    def end(self, ending: str, exit_code: int | None) -> ToolOutput:
        """The text with `ending` in brackets on a line of its own, and the reference of the whole if it was stored."""
        last_line = f"[{ending}]"
        text = self.text()
        if text and not text.endswith("\n"):
            last_line = f"\n{last_line}"
        if self._store:
            self._store.write(last_line.encode())
        return ToolOutput(text + last_line, self.ref, ending, exit_code)
