"""Redacts secrets in what is written down: traces, logs, sessions, exports. Pure; linear.

A secret is known by its value (the API key in use, in the forms in which it may be written), or by its shape (the
prefixes of providers' keys, PEM, JWT, headers, `password=`). A shape is a guess, which redacts too much rather than
too little. Each pattern is bounded, or cannot begin after a run of its own characters, so that no text makes it slow.
Most shapes lie within a line: their patterns search only the lines that contain a word of theirs. A search in C stops
every other thread, so that a long text is searched in parts, and a part only if a word of the shape stands in it.
Sources of the shapes: GitHub's secret scanning patterns and detect-secrets 1.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Union
from urllib.parse import quote

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern

MARK = "[redacted]"
MIN_SECRET_CHARS = 4  # of a known value; a shorter one would redact words

# No character of a key before it, unless it ends an escape: of a line end in JSON, of a URL, or of a terminal.
_AT = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9\[][mK]))"
_PREFIXES = {  # what follows the prefix of a key -> the prefixes
    # GitHub, Stripe, Hugging Face, npm, RubyGems, DigitalOcean, Supabase, Pulumi, Notion, PostHog, Groq, xAI,
    # Perplexity, Fireworks, Replicate, Linear, Shopify, age
    r"[A-Za-z0-9]{16,}": "ghp_ gho_ ghu_ ghs_ ghr_ sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ hf_ api_org_"
    " npm_ rubygems_ dop_v1_ doo_v1_ dor_v1_ sbp_ pul- ntn_ secret_ phx_ gsk_ xai- pplx- fw_ r8_ lin_api_ shpat_ shpss_"
    " shpca_ shppa_ AGE-SECRET-KEY-1",
    # OpenAI, Anthropic and others, GitHub, GitLab, PyPI, Slack, Brevo, Together, Heroku, Tailscale, New Relic, Grafana,
    # Postman, Figma, LangSmith, Contentful, Square, Docker, Vault, 1Password, NVIDIA, Tavily, Google
    r"[A-Za-z0-9_-]{16,}": "sk- github_pat_ glpat- glrt- gldt- glptt- gloas- glft- glimt- glffct- glsoat- glagent-"
    " glcbt- pypi- xapp- xkeysib- tgp_v1_ HRKU- tskey-api- tskey-auth- tskey-client- tskey-scim- tskey-webhook- NRAK-"
    " NRJS- NRII- glsa_ PMAK- figd_ lsv2_pt_ lsv2_sk_ CFPAT- sq0atp- sq0csp- dckr_oat_ dckr_pat_ hvs. hvb. hvr. ops_eyJ"
    " nvapi- tvly- AIza GOCSPX- ya29. 1//0",
    # Stripe, Atlassian, Slack, SendGrid, Fly, PlanetScale, Doppler, Grafana, Sentry
    r"[A-Za-z0-9+/=%._-]{16,}": "whsec_ ATATT3 ATCTT3 ATBB xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- SG."
    " fm1_ fm2_ fo1_ pscale_tkn_ pscale_pw_ pscale_oauth_ dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. glc_eyJ"
    " sntrys_ sntryu_",
}
# Of each kind of key: words as in _Shape, and what it looks like.
_KEYS = (
    *((words.lower(), f"(?:{'|'.join(map(re.escape, words.split()))}){rest}") for rest, words in _PREFIXES.items()),
    ("cio", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),  # crates.io
    ("vb-", r"vb-[A-Za-z0-9_-]{32}(?![A-Za-z0-9_-])"),  # of a client of our gateway
    ("key-", r"key-[a-f0-9]{32}(?![A-Za-z0-9])"),  # Mailgun
    ("-us", r"[a-f0-9]{32}-us[0-9]{1,2}(?![A-Za-z0-9])"),  # Mailchimp
    ("dapi", r"dapi[a-f0-9]{32}"),  # Databricks
    (":aa", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}"),  # Telegram
    ("akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),  # AWS
    ("ltai", r"LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"),  # Alibaba
)
PART_CHARS = 4096  # of a text that is searched at once
REACH_CHARS = 512
JWT_REACH_CHARS = 8192  # its head may hold certificates
MAX_SHORT_CHARS = 100  # of a text whose redaction is remembered
MIN_KEY_CHARS = 15  # of the shortest of them
_RUN = LazyPattern(rf"[A-Za-z0-9_.:/+=%-]{{{MIN_KEY_CHARS},}}", re.ASCII)  # every key lies within one

Replacement = Union[str, Callable[[re.Match[str]], str]]


class _Shape(Struct, frozen=True):
    """`words`, divided by blanks: every text that the pattern matches contains one of them, in any case.

    `reach`: so many characters, from the first on, tell whether the pattern may match there, and hold a word.
    """

    words: str
    pattern: str
    replacement: Replacement = rf"\1{MARK}"
    flags: int = re.ASCII
    reach: int = REACH_CHARS

    def substitute(self, text: str) -> str:
        pattern = _compile(self.pattern, self.flags)
        if len(text) <= PART_CHARS:
            return pattern.sub(self.replacement, text)
        cleaned: list[str] = []
        clean_end = 0  # what stands before is cleaned
        for match in self._find_in_parts(pattern, text):
            written = match.expand(self.replacement) if isinstance(self.replacement, str) else self.replacement(match)
            cleaned += [text[clean_end : match.start()], written]
            clean_end = match.end()
        return "".join([*cleaned, text[clean_end:]])

    def _find_in_parts(self, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
        """What `finditer` finds. A part ends behind the reach of what begins in it."""
        words, at = self.words.split(), 0
        for start in range(0, len(text), PART_CHARS):
            end = start + PART_CHARS
            part = text[start : end + self.reach].lower()
            if not any(word in part for word in words):
                continue
            at = max(at, start)
            while (first := pattern.search(text, at, end + self.reach)) and first.start() < end:
                match = pattern.match(text, first.start())  # it may be longer than the part, or none there
                at = match.end() if match else first.start() + 1
                if match:
                    yield match


@cache
def _compile(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def _redact_value(match: re.Match[str]) -> str:
    return match[0] if MARK in match[0] else f"{match[1]}{match[2]}{match[3] or ''}{MARK}"


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
    _Shape(  # a JSON Web Token
        "eyj",
        _AT + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        MARK,
        reach=JWT_REACH_CHARS,
    ),
    _Shape(
        "://",
        r"(://)(?:[^\s/@:\"']{0,100}:[^\s/@\"']{1,200}|(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,200})@",
        rf"\1{MARK}@",
        re.UNICODE,
    ),
    _Shape(
        "authorization api-key cookie",
        r"(?i)\b((?:proxy-)?authorization|x-api-key|x-goog-api-key|api-key|(?:set-)?cookie)"
        r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)"
        r"(?:((?:bearer|basic|token)[ \t])[ \t]{0,3})?[^\s\"'\\][^\"'\r\n\\]*",
        rf"\1\2\3{MARK}",
    ),
    _Shape(
        "bearer basic",
        r"(?i)\b((?:bearer|basic)[ \t]{1,4})(?=[A-Za-z]{0,200}[0-9._~+/=-])[A-Za-z0-9._~+/=-]{8,}",
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
        r"(?i)(--(?:[a-z]{1,20}-){0,4}(?:password|passwd|passphrase|token|secret|api-?key)[ \t]{1,4}[\"']?)"
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


def _list_words(shapes: Iterable[_Shape]) -> tuple[tuple[str, _Shape], ...]:
    return tuple((word, shape) for shape in shapes for word in shape.words.split())


_LINE_WORDS = _list_words(_LINE_SHAPES)
_KEY_WORDS = _list_words(_Shape(words, _AT + pattern, MARK) for words, pattern in _KEYS)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with known secrets, and whatever has the shape of a secret, replaced by MARK."""
    if len(text) <= MAX_SHORT_CHARS:
        return _redact_short(text, tuple(secrets))
    return _redact_shapes(_redact_known(text, tuple(secrets)))


@lru_cache(maxsize=512)
def _redact_short(text: str, secrets: tuple[str, ...]) -> str:
    """Remembered: the names of a record's fields stand in every record, a call's id in four."""
    text = _redact_known(text, secrets)
    if len(text) < MIN_KEY_CHARS and (text.isidentifier() or text.isalnum()):
        return text  # most names, ids and kinds in a record: every other shape holds a blank or punctuation
    return _redact_shapes(text)


def _redact_known(text: str, secrets: tuple[str, ...]) -> str:
    for form in _list_forms(secrets):
        text = text.replace(form, MARK)
    return text


def _redact_shapes(text: str) -> str:
    lowered = text.lower()
    for shape in _BLOCK_SHAPES:
        if shape.words in lowered:
            text = shape.substitute(text)
    lowered = text.lower()
    runs = "\n".join(_find_runs(text)).lower()
    keys = dict.fromkeys(shape for word, shape in _KEY_WORDS if word in runs)
    shapes = keys | dict.fromkeys(shape for word, shape in _LINE_WORDS if word in lowered)
    if not shapes:
        return text
    lines = text.split("\n")
    for shape in shapes:
        for number in _find_lines(shape.words.split(), lowered):
            lines[number] = shape.substitute(lines[number])
    return "\n".join(lines)


def _find_runs(text: str) -> set[str]:
    """The runs of characters in which keys lie; a long one in parts, each key in one of them."""
    parts = range(0, len(text), PART_CHARS)
    return {run for start in parts for run in _RUN.findall(text, start, start + PART_CHARS + REACH_CHARS)}


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
