"""Redacts an answer that is written to the journal in pieces: at once, except what may be half a secret.

A key may come in several pieces that do not look like one. So a word that begins like a key, and what follows a name
like `password`, waits until it is complete and is then redacted. If the program is killed, only such a word is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_SECRET_CHARS = 8000
WORD = "".join(map(chr, range(ord("!"), ord("~") + 1)))  # characters of secrets
# How keys begin, and the names that stand before one (see security/redact.py).
NAME = r"(?i:passw|passphrase|pwd|secret|token|key|bearer|basic|authorization|cookie)"
BEGINS = re.compile(
    rf"sk-|[srp]k_|gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|xox|AKIA|ASIA|ABIA|ACCA|AIza|ya29|eyJ|://|{NAME}"
)
NAMED = re.compile(NAME + r"[\w-]{0,40}[\"'\\]{0,8}[ \t]{0,4}[:=]?[ \t]{0,4}\Z")
NAME_DISTANCE_CHARS = 80  # before a word, in which its name can be
LETTER, DIGIT = re.compile("[A-Za-z]"), re.compile("[0-9]")
PEM, PEM_END = "-----BEGIN", "-----END"
ENDING = re.compile(PEM_END + "[A-Z -]*")


def find_unfinished(text: str) -> int:
    """Where a possible unfinished secret begins, else the length of the text. Linear."""
    start = len(text.rstrip(WORD))
    before, word = text[max(start - NAME_DISTANCE_CHARS, 0) : start], text[start:]
    places = [_find_unfinished_pem(text)]
    if named := NAMED.search(before):
        places.append(start - len(before) + named.start())
    if begins := BEGINS.search(word):
        places.append(start + begins.start())
    letter, digit = LETTER.search(word), DIGIT.search(word)
    if letter and digit:  # like most keys; a mistake only costs a short wait
        places.append(start + min(letter.start(), digit.start()))
    return min(places)


def _find_unfinished_pem(text: str) -> int:
    end = text.rfind(PEM_END)
    if end >= 0 and ENDING.fullmatch(text, end):  # it may go on
        end = text.rfind(PEM_END, 0, end)
    begin = text.find(PEM, max(end, 0))
    return begin if begin >= 0 else len(text)


class StreamRedactor:
    """`redact` removes secrets from complete text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._text = ""  # the word that has not ended, with all that waits
        self._written = 0  # characters of it

    def feed(self, text: str) -> str:
        """The text that may be written now, redacted."""
        if self._redact is str:
            return text
        self._text += text
        end = max(find_unfinished(self._text), self._written) if len(self._text) < MAX_SECRET_CHARS else len(self._text)
        if end == self._written:
            return ""
        ended = self._text[:end]
        safe = self._redact(ended)
        same = self._written
        if not safe.startswith(ended[:same]):
            same = next(place for place in range(same) if safe[place : place + 1] != ended[place])
        out = safe[same:]
        if end < len(self._text):
            self._written = end
        else:
            word = self._text[len(self._text.rstrip(WORD)) :]
            self._text, self._written = word[-MAX_SECRET_CHARS:], min(len(word), MAX_SECRET_CHARS)
        return out

    def reset(self) -> None:
        """The answer is complete and is written as a whole."""
        self._text, self._written = "", 0
