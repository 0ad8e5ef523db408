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
        r"gl(?:pat|rt|dt|ptt|oas|ft|soat|agent|cbt)-[A-Za-z0-9_-]{16,}",  # GitLab
        r"hf_[A-Za-z0-9]{16,}",
        r"npm_[A-Za-z0-9]{30,}",
        r"pypi-[A-Za-z0-9_-]{16,}",
        r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
        r"xapp-[0-9]-[A-Za-z0-9-]{10,}",
        r"whsec_[A-Za-z0-9+/]{20,}",  # Stripe
        r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,}",  # SendGrid
        r"(?:dop|doo|dor)_v1_[a-f0-9]{32,}",  # DigitalOcean
        r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32}",  # Shopify
        r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}",  # Square
        r"dckr_[op]at_[A-Za-z0-9_-]{20,}",
        r"hv[sbr]\.[A-Za-z0-9_-]{20,}",  # Vault
        r"gsk_[A-Za-z0-9]{40,}",  # Groq
        r"xai-[A-Za-z0-9]{60,}",
        r"nvapi-[A-Za-z0-9_-]{50,}",
        r"r8_[A-Za-z0-9]{30,}",  # Replicate
        r"tvly-[A-Za-z0-9-]{20,}",
        r"lin_api_[A-Za-z0-9]{30,}",
        r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
        r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",  # Telegram
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"AIza[A-Za-z0-9_-]{30,}",
        r"ya29\.[A-Za-z0-9_-]{20,}",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # a JSON Web Token
    )
)
_PREFIXES = (
    *("sk-", "sk_", "rk_", "pk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "npm_"),
    *("pypi-", "xox", "akia", "asia", "abia", "acca", "aiza", "ya29.", "eyj"),
    *("glrt-", "gldt-", "glptt-", "gloas-", "glft-", "glsoat-", "glagent-", "glcbt-", "xapp-", "whsec_", "sg."),
    *("_v1_", "shpat_", "shpss_", "shpca_", "shppa_", "sq0", "dckr_", "hvs.", "hvb.", "hvr.", "gsk_", "xai-"),
    *("nvapi-", "r8_", "tvly-", "lin_api_", "age-secret-key-1", ":aa"),
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
    r"|(?:account|shared_?access)_?key"
    r"|(?:access|auth|refresh|api|id|session|bot|private)_?-?token|client_?-?secret|_token)"
    r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4})"
    r"(?:(\\?[\"'])(?!<)[^\"'\\\r\n]{4,}|(?![A-Za-z_][\w.]{0,100}[(\[])"  # <|end|> is a model's, os.environ[ code
    r"(?!(?:str|string|bytes|bool|int|float|none|null|nil|true|false|optional|any)\b)"
    r"[^\s\"',;&(){}\[\]<>$\\]{6,})",
    re.IGNORECASE | re.ASCII,
)
# What is called a token and nothing more may be a word or a number: it is one if it has both letters and digits
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(token\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)"
    r"(?=[A-Za-z_./+~-]{0,200}[0-9])(?=[0-9_./+~-]{0,200}[A-Za-z])[A-Za-z0-9_./+=~-]{10,}(?![\w.(\[])",
    re.IGNORECASE | re.ASCII,
)
_OPTION = re.compile(
    r"(--(?:[a-z]{1,20}-)?(?:password|passwd|passphrase|token|secret|api-?key)[ \t]{1,4}[\"']?)"
    r"(?![-$<{(\[])[^\s\"'|&;]{6,}",
    re.IGNORECASE | re.ASCII,
)
_CURL = re.compile(r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:)(?![$<{])[^\s\"']{3,}", re.ASCII)
_NETRC = re.compile(r"(\blogin[ \t]{1,4}\S{1,100}\s{1,4}password[ \t]{1,4})[^\s\"']{4,}", re.ASCII)
_HOOK = re.compile(r"(hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{20,}", re.ASCII)
_SIGNED = re.compile(r"([?&]sig=)[A-Za-z0-9%+/=_-]{16,}", re.ASCII)


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
    _Shape(("token",), _TOKEN, rf"\1{MARK}"),
    _Shape(("--",), _OPTION, rf"\1{MARK}"),
    _Shape(("curl",), _CURL, rf"\1{MARK}"),
    _Shape(("login",), _NETRC, rf"\1{MARK}"),
    _Shape(("hooks.slack.com",), _HOOK, rf"\1{MARK}"),
    _Shape(("sig=",), _SIGNED, rf"\1{MARK}"),
)
