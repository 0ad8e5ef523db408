"""Backslashes in a string that JSON refused: what each was meant as.

A path of Windows written with single backslashes keeps them all. Markdown's escapes lose theirs. Legal escapes
mean what JSON says, Python's what Python says, and any other backslash is itself: regular expressions live of it.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|\r?\n|.)", re.DOTALL)
_WINDOWS_PATH = re.compile(r"[A-Za-z]:\\[^\\\"'/]|\\\\\\\\?[\w.-]+\\\w")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_PLAIN = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    '"': '"',
    "\\": "\\",
    "/": "/",
    "'": "'",
    "\n": "",
    "\r\n": "",
}
_MARKDOWN = frozenset("_#~!`>&“”")  # never meant as a regular expression's
_MARKDOWN_MAYBE = frozenset("*[]()-.+{}|$")  # only in a text that escapes its underscores, too


def unescape(raw: str, repairs: dict[str, None]) -> str:
    """The string that `raw`, the text between the quotes, was meant as; liberties are noted in `repairs`."""
    if "\\" not in raw:
        if "\n" in raw or "\t" in raw:
            repairs["raw newlines"] = None
        return raw
    if _WINDOWS_PATH.match(raw):
        repairs["backslashes"] = None
        return raw.replace("\\\\", "\\")
    markdown = _MARKDOWN | _MARKDOWN_MAYBE if "\\_" in raw else _MARKDOWN

    def meant(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape in _PLAIN:
            return _PLAIN[escape]
        if len(escape) > 1:
            return _character(escape)
        repairs["backslashes"] = None
        return escape if escape in markdown else "\\" + escape

    return _SURROGATES.sub(_joined, _ESCAPE.sub(meant, raw))


def _character(escape: str) -> str:
    code = int(escape[1:], 16)
    return chr(code) if code <= 0x10FFFF else "\\" + escape


def _joined(pair: re.Match[str]) -> str:
    high, low = ord(pair.group()[0]), ord(pair.group()[1])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
