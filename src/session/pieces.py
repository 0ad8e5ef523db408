"""Pieces of an answer on their way to the journal: each goes at once, except what may be half a secret.

A key comes in several pieces, none of which has a key's shape. So a word that begins like one, and what stands
behind a name like `password`, waits until it has ended and is redacted as a whole. What waits is lost if the
program is killed; of ordinary words nothing waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LONGEST = 8000  # characters that are looked at: no key is longer
# How keys begin, and the names that stand before one (see security/redact.py); and whatever mixes letters and digits,
# as the values do that are known to be secret. Erring costs a moment's wait.
UNENDED = re.compile(
    r"-----BEGIN(?:(?!-----END)[\s\S])*(?:-----END[A-Z -]*)?\Z"
    r"|(?:sk-|[srp]k_|gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|xox|AKIA|ASIA|ABIA|ACCA|AIza|ya29|eyJ)[!-~]*\Z"
    r"|(?i:passw|passphrase|pwd|secret|token|key|bearer|basic|authorization|cookie)"
    r"[\w-]{0,40}[\"'\\]*[ \t]{0,4}[:=]?[ \t]{0,4}[\"'\\]*[!-~]*\Z"
    r"|://[!-~]*\Z"
    r"|(?:[0-9][!-~]*[A-Za-z]|[A-Za-z][!-~]*[0-9])[!-~]*\Z"
)
WORD = re.compile(r"[!-~]*\Z")  # of a secret's alphabet


class Pieces:
    """`redact` takes secrets out of text that is whole."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._text = ""  # the word that has not ended, with all that waits
        self._written = 0  # characters of it

    def feed(self, text: str) -> str:
        """What may be written now, redacted."""
        if self._redact is str:
            return text
        self._text += text
        found = UNENDED.search(self._text) if len(self._text) < LONGEST else None
        end = max(found.start(), self._written) if found else len(self._text)
        if end == self._written:
            return ""
        ended = self._text[:end]
        safe = self._redact(ended)
        same = next((place for place in range(self._written) if safe[place : place + 1] != ended[place]), self._written)
        out = safe[same:]
        word = WORD.search(self._text) if not found else None
        start = word.start() if word else 0
        if found:
            self._written = end
        else:
            self._text, self._written = self._text[start:], len(self._text) - start
        return out

    def close(self) -> None:
        """The answer came whole, and is written as such."""
        self._text, self._written = "", 0
