"""Redacts secrets in what is written down: traces, logs, sessions, exports. Pure; linear.

A secret is known by its value (the API key in use, in the forms in which it may be written), or by its shape (the
prefixes of providers' keys, PEM, JWT, headers, `password=`). A shape is a guess, which redacts too much rather than
too little. Each pattern is bounded, or cannot begin after a run of its own characters, so that no text makes it slow.
Most shapes lie within a line: their patterns search only the lines that contain a word of theirs.
Sources of the shapes: GitHub's secret scanning patterns and detect-secrets 1.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple, Union
from urllib.parse import quote

MARK = "[redacted]"
MIN_SECRET_CHARS = 4  # of a known value; a shorter one would redact words

_AT = r"(?<![A-Za-z0-9_-])"  # no character of a key before it
_KEYS = (
    r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and others
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
    r"whsec_[A-Za-z0-9+/]{20,}",  # the same
    r"gh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{16,}",
    r"gl(?:pat|rt|dt|ptt|oas|ft|imt|ffct|soat|agent|cbt)-[A-Za-z0-9_-]{16,}",  # GitLab
    r"AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}",  # Atlassian
    r"hf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{16,}",
    r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])",  # crates.io
    r"rubygems_[a-f0-9]{48}",
    r"xox[abcdeoprs]-[A-Za-z0-9%-]{10,}",  # Slack
    r"xapp-[0-9]-[A-Za-z0-9-]{10,}",
    r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,}",  # SendGrid
    r"xkeysib-[a-f0-9]{40,}",  # Brevo
    r"key-[a-f0-9]{32}(?![A-Za-z0-9])",  # Mailgun
    r"[a-f0-9]{32}-us[0-9]{1,2}(?![A-Za-z0-9])",  # Mailchimp
    r"(?:dop|doo|dor)_v1_[a-f0-9]{32,}",  # DigitalOcean
    r"tgp_v1_[A-Za-z0-9_-]{20,}",  # Together
    r"HRKU-[A-Za-z0-9_-]{30,}",  # Heroku
    r"f(?:m[12]|o1)_[A-Za-z0-9+/=_-]{20,}",  # Fly
    r"dapi[a-f0-9]{32}",  # Databricks
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{20,}",  # PlanetScale
    r"sbp_[a-f0-9]{40}",  # Supabase
    r"pul-[a-f0-9]{40}",  # Pulumi
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}",  # Doppler
    r"tskey-[a-z]{3,10}-[A-Za-z0-9-]{16,}",  # Tailscale
    r"NR(?:AK|JS|II)-[A-Za-z0-9_-]{18,}",  # New Relic
    r"gl(?:sa_[A-Za-z0-9]{32}_[a-f0-9]{8}|c_eyJ[A-Za-z0-9+/=_-]{20,})",  # Grafana
    r"sntry[su]_[A-Za-z0-9+/=_-]{20,}",  # Sentry
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",  # Postman
    r"ntn_[A-Za-z0-9]{30,}",  # Notion
    r"secret_[A-Za-z0-9]{40,}",  # Notion, once
    r"figd_[A-Za-z0-9_-]{20,}",  # Figma
    r"phx_[A-Za-z0-9]{30,}",  # PostHog
    r"lsv2_[a-z]{2}_[a-f0-9]{30,}[a-f0-9_]*",  # LangSmith
    r"CFPAT-[A-Za-z0-9_-]{40,}",  # Contentful
    r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32}",  # Shopify
    r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}",  # Square
    r"dckr_[op]at_[A-Za-z0-9_-]{20,}",  # Docker
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",  # Vault
    r"ops_eyJ[A-Za-z0-9_-]{20,}",  # 1Password
    r"gsk_[A-Za-z0-9]{40,}",  # Groq
    r"xai-[A-Za-z0-9]{60,}",
    r"nvapi-[A-Za-z0-9_-]{50,}",
    r"pplx-[A-Za-z0-9]{40,}",  # Perplexity
    r"fw_[A-Za-z0-9]{22,}",  # Fireworks
    r"r8_[A-Za-z0-9]{30,}",  # Replicate
    r"tvly-[A-Za-z0-9-]{20,}",
    r"lin_api_[A-Za-z0-9]{30,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",  # Telegram
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS
    r"LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])",  # Alibaba
    r"AIza[A-Za-z0-9_-]{30,}",  # Google
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"1//0[A-Za-z0-9_-]{30,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # a JSON Web Token
)


_KEY = re.compile(_AT + f"(?:{'|'.join(_KEYS)})", re.ASCII)
MIN_KEY_CHARS = 15  # of the shortest key of _KEYS
_RUN = re.compile(rf"[A-Za-z0-9_.:/+=%-]{{{MIN_KEY_CHARS},}}", re.ASCII)  # every key lies within one

Replacement = Union[str, Callable[[re.Match[str]], str]]


class _Shape(NamedTuple):
    """`words`, divided by blanks: every text that the pattern matches contains one of them, in any case."""

    words: str
    pattern: str
    replacement: Replacement = rf"\1{MARK}"
    flags: int = re.ASCII

    def substitute(self, text: str) -> str:
        return _compile(self.pattern, self.flags).sub(self.replacement, text)


@cache
def _compile(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def _redact_header(found: re.Match[str]) -> str:
    scheme = f"{found[3]} " if found[3] else ""
    return f"{found[1]}{found[2]}{scheme}{MARK}"


def _redact_value(found: re.Match[str]) -> str:
    return found[0] if MARK in found[0] else f"{found[1]}{found[2]}{found[3] or ''}{MARK}"


_BLOCK_SHAPES = (  # these may span lines
    _Shape("-----begin", r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)[^-]*(?:-(?!----END)[^-]*)*"),
    _Shape("private-lines", r"(Private-Lines: [0-9]{1,4}\r?\n)[A-Za-z0-9+/=\r\n]+", rf"\1{MARK}\n"),  # PuTTY
    _Shape("login", r"(\blogin[ \t]{1,4}\S{1,100}\s{1,4}password[ \t]{1,4})[^\s\"']{4,}"),  # .netrc
    _Shape(
        "auth",
        r"(\b_?auth\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
        r"(?=[A-Za-z+/]{0,40}(?:[0-9=]|[A-Z]{2}))[A-Za-z0-9+/]{10,}={0,2}",
    ),
)
_LINE_SHAPES = (
    _Shape(
        "://",
        r"(://)(?:[^\s/@:\"']{0,100}:[^\s/@\"']{1,200}|(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,200})@",
        rf"\1{MARK}@",
        re.UNICODE,
    ),
    _Shape(
        "authorization api-key cookie",
        r"(?i)\b((?:proxy-)?authorization|x-api-key|x-goog-api-key|api-key|(?:set-)?cookie)"
        r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)(?:(bearer|basic|token)[ \t]{1,4})?[^\s\"'\\][^\"'\r\n\\]*",
        _redact_header,
    ),
    _Shape(
        "bearer basic",
        r"(?i)\b((?:bearer|basic)[ \t]{1,4})(?=[A-Za-z0-9._~+/=-]*[0-9._~+/=-])[A-Za-z0-9._~+/=-]{8,}",
    ),
    _Shape(
        "pass pwd secret key token",
        r"(?i)(passw(?:or)?d|passphrase|pwd|secret(?:_?(?:access_?)?key)?|api_?-?key|access_?-?key|private_?-?key"
        r"|(?:account|shared_?access)_?key"
        r"|(?:access|auth|refresh|api|id|session|bot|private|security)_?-?token|client_?-?secret|_token|client-key-data"
        r"|(?:db|user|admin|root|ssh|become|sudo|smtp|mail|mysql|pg|redis|http|ftp|login)_?pass)"
        r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4})"
        r"(?:(\\?[\"'])(?!<)[^\"'\\\r\n]{4,}|(?![A-Za-z_][\w.]{0,100}[(\[])"  # <|end|> is a model's, os.environ[ code
        r"(?!(?:str|string|bytes|bool|int|float|none|null|nil|true|false|optional|any)\b)"
        r"[^\s\"',;&(){}\[\]<>$\\]{6,})",
        _redact_value,
    ),
    _Shape(  # after `token` alone may stand a word or a number, so a secret has both letters and digits
        "token",
        r"(?i)(?<![A-Za-z0-9])(token\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)"
        r"(?=[A-Za-z_./+~-]{0,200}[0-9])(?=[0-9_./+~-]{0,200}[A-Za-z])[A-Za-z0-9_./+=~-]{10,}(?![\w.(\[])",
    ),
    _Shape(
        "--",
        r"(?i)(--(?:[a-z]{1,20}-)?(?:password|passwd|passphrase|token|secret|api-?key)[ \t]{1,4}[\"']?)"
        r"(?![-$<{(\[])[^\s\"'|&;]{6,}",
    ),
    _Shape("curl", r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:)(?![$<{])[^\s\"']{3,}"),
    _Shape("hooks.slack.com", r"(hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{20,}"),
    _Shape(
        "sig= signature=", r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-signature)=)[A-Za-z0-9%+/=_-]{16,}"
    ),  # signed URLs
    _Shape("token= auth=", r"([?&](?:token|auth)=)[A-Za-z0-9%+/=_.~-]{6,}"),
    _Shape("key=", r"([?&]key=)(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"),
    _Shape("/webhooks/", r"(discord(?:app)?\.com/api/webhooks/[0-9]{1,25}/)[A-Za-z0-9_-]{20,}"),
    _Shape("</", r"(?i)(<(password|passwd|passphrase|secret|api_?key|token)>)[^<>\s][^<>\n]{3,200}(?=</\2>)"),
    _Shape("$", r"\$(?:apr1|[156y]|2[abxy]|argon2id?)\$[A-Za-z0-9./$=,+]{20,}", MARK),  # hashes of passwords
    _Shape(
        "sshpass login mysql",
        r"(\bsshpass[ \t]{1,4}-p[ \t]{0,4}|\blogin\b[^\n|;&]{0,100}?[ \t]-p[ \t]{1,4}"
        r"|\bmysql\w{0,10}\b[^\n|;&]{0,100}?[ \t]-p)"
        r"(?![ \t$<{-])[\"']?[^\s\"'|;&]{4,}",
    ),
)


_LINE_WORDS = tuple((word, shape) for shape in _LINE_SHAPES for word in shape.words.split())


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with known secrets, and whatever has the shape of a secret, replaced by MARK."""
    for form in _list_forms(tuple(secrets)):
        text = text.replace(form, MARK)
    if len(text) < MIN_KEY_CHARS and (text.isidentifier() or text.isalnum()):
        return text  # most names, ids and kinds in a record: every other shape holds a blank or punctuation
    lowered = text.lower()
    for shape in _BLOCK_SHAPES:
        if shape.words in lowered:
            text = shape.substitute(text)
    lowered = text.lower()
    shapes = dict.fromkeys(shape for word, shape in _LINE_WORDS if word in lowered)
    keys = [run for run in set(_RUN.findall(text)) if _KEY.search(run)]
    if not shapes and not keys:
        return text
    lines = text.split("\n")
    for number in _find_lines(keys, text):
        lines[number] = _KEY.sub(MARK, lines[number])
    for shape in shapes:
        for number in _find_lines(shape.words.split(), lowered):
            lines[number] = shape.substitute(lines[number])
    return "\n".join(lines)


def _find_lines(words: Iterable[str], text: str) -> set[int]:
    """The numbers of the lines that contain one of the words, counted from 0."""
    numbers: set[int] = set()
    for word in words:
        number = end = 0
        while (at := text.find(word, end)) >= 0:
            number += text.count("\n", end, at)
            numbers.add(number)
            if (end := text.find("\n", at)) < 0:
                break
    return numbers


@cache
def _list_forms(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Each secret as it is, inside JSON and inside a URL; the longest first, since one may contain another."""
    values = {value for value in secrets if len(value) >= MIN_SECRET_CHARS}
    forms = {form for each in values for form in (each, json.dumps(each)[1:-1], quote(each, safe=""))}
    return tuple(sorted(forms, key=len, reverse=True))
