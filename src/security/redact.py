"""Secrets, blotted out of what is written down: traces, logs, sessions, exports. Pure; linear.

Two ways to know one: by value (the API key in use, in the forms in which it may be written), and by
shape (the prefixes that providers give their keys, PEM, JWT, headers, `password=`). A shape is a guess:
it errs towards blotting out. Every pattern is bounded or begins where no run of its own characters can
be before it, so that no text makes the search slow.
Shapes: GitHub's secret scanning patterns and detect-secrets 1.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote

MARK = "[redacted]"
SHORTEST = 4  # characters of a known value: less would blot out words

_AT = r"(?<![A-Za-z0-9_-])"  # where a word of a key's alphabet begins
_KEYS = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, and whoever copies them
        r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
        r"gh[pousr]_[A-Za-z0-9]{16,}",
        r"github_pat_[A-Za-z0-9_]{16,}",
        r"glpat-[A-Za-z0-9_-]{16,}",
        r"hf_[A-Za-z0-9]{16,}",
        r"npm_[A-Za-z0-9]{30,}",
        r"pypi-[A-Za-z0-9_-]{16,}",
        r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"AIza[A-Za-z0-9_-]{30,}",
        r"ya29\.[A-Za-z0-9_-]{20,}",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # a JSON Web Token
    )
)
_PREFIXES = (
    *("sk-", "sk_", "rk_", "pk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "npm_"),
    *("pypi-", "xox", "akia", "asia", "abia", "acca", "aiza", "ya29.", "eyj"),
)  # of these, in small letters
_BARE = re.compile(_AT + f"(?:{_KEYS})", re.ASCII)
_PEM = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)[^-]*(?:-(?!----END)[^-]*)*")
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|x-api-key|x-goog-api-key|api-key|(?:set-)?cookie)"
    r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)(?:(bearer|basic|token)[ \t]{1,4})?[^\s\"'\\][^\"'\r\n\\]*",
    re.IGNORECASE | re.ASCII,
)
_SCHEME = re.compile(
    r"\b(bearer|basic)([ \t]{1,4})(?=[A-Za-z0-9._~+/=-]*[0-9._~+/=-])[A-Za-z0-9._~+/=-]{8,}", re.I | re.A
)
_USERINFO = re.compile(r"(://)[^\s/@:\"']{0,100}:[^\s/@\"']{1,200}@")
_NAMED = re.compile(
    r"(passw(?:or)?d|passphrase|pwd|secret(?:_?(?:access_?)?key)?|api_?-?key|access_?-?key|private_?-?key"
    r"|(?:access|auth|refresh|api|id|session|bot)_?-?token|client_?-?secret|_token)"
    r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4})"
    r"(?:(\\?[\"'])[^\"'\\\r\n]{4,}|(?!(?:str|string|bytes|bool|int|float|none|null|nil|true|false|optional|any)\b)"
    r"[^\s\"',;&(){}\[\]<>$\\]{6,})",
    re.IGNORECASE | re.ASCII,
)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """The text with known secrets, and whatever has a secret's shape, replaced by MARK."""
    for form in _forms(known):
        text = text.replace(form, MARK)
    lowered = text.lower()
    for shape in _SHAPES:
        if any(word in lowered for word in shape.words):
            text = shape.pattern.sub(shape.replacement, text)
    return text


def _forms(known: Iterable[str]) -> list[str]:
    """Each secret as it is, inside JSON and inside a URL; the longest first, as one may hold another."""
    secrets = {value for value in known if len(value) >= SHORTEST}
    forms = {form for each in secrets for form in (each, json.dumps(each)[1:-1], quote(each, safe=""))}
    return sorted(forms, key=len, reverse=True)


def _header(found: re.Match[str]) -> str:
    scheme = f"{found[3]} " if found[3] else ""
    return f"{found[1]}{found[2]}{scheme}{MARK}"


def _named(found: re.Match[str]) -> str:
    if MARK in found[0]:
        return found[0]
    return f"{found[1]}{found[2]}{found[3] or ''}{MARK}"


class _Shape(NamedTuple):
    """`words`: one of them is in every text that the pattern matches; to look for them costs next to nothing."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]


_SHAPES = (
    _Shape(("-----begin ",), _PEM, rf"\1{MARK}"),
    _Shape(("://",), _USERINFO, rf"\1{MARK}@"),
    _Shape(("authorization", "api-key", "cookie"), _HEADER, _header),
    _Shape(("bearer", "basic"), _SCHEME, rf"\1\2{MARK}"),
    _Shape(_PREFIXES, _BARE, MARK),
    _Shape(("pass", "pwd", "secret", "key", "token"), _NAMED, _named),
)
