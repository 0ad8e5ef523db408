"""Redacts an answer that is written to the journal in pieces, which are never cut inside a possible secret.

A key may come in several pieces that do not look like one. So text is collected to PIECE_CHARS, and its last word waits
for its end, with a name like `password` before it, and a private key of several lines waits for its last one. Less than
PIECE_CHARS characters are written too when the server is silent. If the program is killed, what waits is lost. The end
of the text that was written is redacted again with what follows it, because a pattern may begin there.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types.lazy_pattern import LazyPattern

PIECE_CHARS = 256
MAX_SECRET_CHARS = 8000
MIN_CONTEXT_CHARS, MAX_CONTEXT_CHARS = 200, 1000  # of written text, in which a pattern may begin: its line, if possible
WORD = "".join(map(chr, range(ord("!"), ord("~") + 1)))  # characters of secrets
# The names that stand before a secret (see security/text/redact.py).
NAMED = LazyPattern(
    r"(?i:passw|passphrase|pwd|secret|token|key|bearer|basic|authorization|cookie)"
    r"[\w-]{0,40}[\"'\\]{0,8}[ \t]{0,4}[:=]?[ \t]{0,4}\Z"
)
NAME_DISTANCE_CHARS = 80  # before a word, in which its name can be
PEM, PEM_END = "-----BEGIN", "-----END"
PUTTY = "Private-Lines:"
UNFINISHED_END = LazyPattern(PEM_END + "[A-Z -]*")
UNFINISHED_PUTTY = LazyPattern(PUTTY + r" ?[0-9]{0,4}[A-Za-z0-9+/=\r\n]*")


def find_unfinished(text: str) -> int:
    """Where a possible unfinished secret begins, else the length of the text. Linear."""
    start = len(text.rstrip(WORD))
    before = text[max(start - NAME_DISTANCE_CHARS, 0) : start]
    named = NAMED.search(before)
    if named:
        start += named.start() - len(before)
    putty = text.rfind(PUTTY)
    if putty >= 0 and UNFINISHED_PUTTY.fullmatch(text, putty):
        start = min(start, putty)
    pem_end = text.rfind(PEM_END)
    if pem_end >= 0 and UNFINISHED_END.fullmatch(text, pem_end):
        pem_end = text.rfind(PEM_END, 0, pem_end)
    pem = text.find(PEM, max(pem_end, 0))
    if pem >= 0:
        start = min(start, pem)
    return start


class StreamRedactor:
    """`redact` removes secrets from complete text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._text = ""  # the end of what was written, and what waits
        self._written = 0  # characters of it
        self._pieces: list[str] = []  # not looked at yet
        self._size = 0  # characters of them

    def feed(self, text: str) -> str:
        """The text that is to be written now, redacted; mostly none."""
        self._pieces.append(text)
        self._size += len(text)
        return self.flush() if self._size >= PIECE_CHARS else ""

    def flush(self) -> str:
        """All text that may be written, redacted."""
        if not self._pieces:
            return ""
        text = self._text + "".join(self._pieces)
        written = self._written
        self.reset()
        if self._redact is str:
            return text
        is_too_long = len(text) - written >= MAX_SECRET_CHARS
        end = len(text) if is_too_long else max(find_unfinished(text), written)
        line = text.rfind("\n", 0, end) + 1
        start = max(min(line, end - MIN_CONTEXT_CHARS), end - MAX_CONTEXT_CHARS, 0)
        self._text, self._written = text[start:], end - start
        if end == written:
            return ""
        before, safe = self._redact(text[:written]), self._redact(text[:end])
        while not safe.startswith(before):  # a secret began in what was written
            before = before[:-1]
        return safe[len(before) :]

    def reset(self) -> None:
        """The answer is complete and is written as a whole."""
        self._text, self._written = "", 0
        self._pieces, self._size = [], 0
