"""Redacts secrets in what is written down: traces, logs, sessions, exports. Pure; linear.

A secret is known by its value (the API key in use, in the forms in which it may be written), or by its shape (the
prefixes of providers' keys, PEM, JWT, headers, `password=`). A shape is a guess, which redacts too much rather than too
little. Each pattern is bounded, or cannot begin after a run of its own characters, so that no text makes it slow.
Sources of the shapes: GitHub's secret scanning patterns and detect-secrets 1.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Union
from urllib.parse import quote

MARK = "[redacted]"
MIN_SECRET_CHARS = 4  # of a known value; a shorter one would redact words

_AT = r"(?<![A-Za-z0-9_-])"  # no character of a key before it
_KEYS = (  # the shape, and words in lower case of which every such key contains one
    (r"sk-[A-Za-z0-9_-]{16,}", "sk-"),  # OpenAI, Anthropic and others
    (r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}", "sk_ rk_ pk_"),  # Stripe
    (r"whsec_[A-Za-z0-9+/]{20,}", "whsec_"),  # the same
    (r"gh[pousr]_[A-Za-z0-9]{16,}", "ghp_ gho_ ghu_ ghs_ ghr_"),  # GitHub
    (r"github_pat_[A-Za-z0-9_]{16,}", "github_pat_"),
    (
        r"gl(?:pat|rt|dt|ptt|oas|ft|imt|ffct|soat|agent|cbt)-[A-Za-z0-9_-]{16,}",
        "glpat- glrt- gldt- glptt- gloas- glft- glimt- glffct- glsoat- glagent- glcbt-",
    ),  # GitLab
    (r"AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}", "atatt3 atctt3 atbb"),  # Atlassian
    (r"hf_[A-Za-z0-9]{16,}", "hf_"),  # Hugging Face
    (r"api_org_[A-Za-z0-9]{30,}", "api_org_"),
    (r"npm_[A-Za-z0-9]{30,}", "npm_"),
    (r"pypi-[A-Za-z0-9_-]{16,}", "pypi-"),
    (r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", "cio"),  # crates.io
    (r"rubygems_[a-f0-9]{48}", "rubygems_"),
    (r"xox[abcdeoprs]-[A-Za-z0-9%-]{10,}", "xox"),  # Slack
    (r"xapp-[0-9]-[A-Za-z0-9-]{10,}", "xapp-"),
    (r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,}", "sg."),  # SendGrid
    (r"xkeysib-[a-f0-9]{40,}", "xkeysib-"),  # Brevo
    (r"key-[a-f0-9]{32}(?![A-Za-z0-9])", "key-"),  # Mailgun
    (r"[a-f0-9]{32}-us[0-9]{1,2}(?![A-Za-z0-9])", "-us"),  # Mailchimp
    (r"(?:dop|doo|dor)_v1_[a-f0-9]{32,}", "_v1_"),  # DigitalOcean
    (r"tgp_v1_[A-Za-z0-9_-]{20,}", "tgp_v1_"),  # Together
    (r"HRKU-[A-Za-z0-9_-]{30,}", "hrku-"),  # Heroku
    (r"f(?:m[12]|o1)_[A-Za-z0-9+/=_-]{20,}", "fm1_ fm2_ fo1_"),  # Fly
    (r"dapi[a-f0-9]{32}", "dapi"),  # Databricks
    (r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{20,}", "pscale_"),  # PlanetScale
    (r"sbp_[a-f0-9]{40}", "sbp_"),  # Supabase
    (r"pul-[a-f0-9]{40}", "pul-"),  # Pulumi
    (r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}", "dp."),  # Doppler
    (r"tskey-[a-z]{3,10}-[A-Za-z0-9-]{16,}", "tskey-"),  # Tailscale
    (r"NR(?:AK|JS|II)-[A-Za-z0-9_-]{18,}", "nrak- nrjs- nrii-"),  # New Relic
    (r"gl(?:sa_[A-Za-z0-9]{32}_[a-f0-9]{8}|c_eyJ[A-Za-z0-9+/=_-]{20,})", "glsa_ glc_eyj"),  # Grafana
    (r"sntry[su]_[A-Za-z0-9+/=_-]{20,}", "sntrys_ sntryu_"),  # Sentry
    (r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", "pmak-"),  # Postman
    (r"ntn_[A-Za-z0-9]{30,}", "ntn_"),  # Notion
    (r"secret_[A-Za-z0-9]{40,}", "secret_"),  # Notion, once
    (r"figd_[A-Za-z0-9_-]{20,}", "figd_"),  # Figma
    (r"phx_[A-Za-z0-9]{30,}", "phx_"),  # PostHog
    (r"lsv2_[a-z]{2}_[a-f0-9]{30,}[a-f0-9_]*", "lsv2_"),  # LangSmith
    (r"CFPAT-[A-Za-z0-9_-]{40,}", "cfpat-"),  # Contentful
    (r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32}", "shpat_ shpss_ shpca_ shppa_"),  # Shopify
    (r"sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}", "sq0"),  # Square
    (r"dckr_[op]at_[A-Za-z0-9_-]{20,}", "dckr_"),  # Docker
    (r"hv[sbr]\.[A-Za-z0-9_-]{20,}", "hvs. hvb. hvr."),  # Vault
    (r"ops_eyJ[A-Za-z0-9_-]{20,}", "ops_eyj"),  # 1Password
    (r"gsk_[A-Za-z0-9]{40,}", "gsk_"),  # Groq
    (r"xai-[A-Za-z0-9]{60,}", "xai-"),
    (r"nvapi-[A-Za-z0-9_-]{50,}", "nvapi-"),
    (r"pplx-[A-Za-z0-9]{40,}", "pplx-"),  # Perplexity
    (r"fw_[A-Za-z0-9]{22,}", "fw_"),  # Fireworks
    (r"r8_[A-Za-z0-9]{30,}", "r8_"),  # Replicate
    (r"tvly-[A-Za-z0-9-]{20,}", "tvly-"),
    (r"lin_api_[A-Za-z0-9]{30,}", "lin_api_"),
    (r"AGE-SECRET-KEY-1[A-Z0-9]{50,}", "age-secret-key-1"),
    (r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}", ":aa"),  # Telegram
    (r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])", "akia asia abia acca"),  # AWS
    (r"LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])", "ltai"),  # Alibaba
    (r"AIza[A-Za-z0-9_-]{30,}", "aiza"),  # Google
    (r"GOCSPX-[A-Za-z0-9_-]{20,}", "gocspx-"),
    (r"ya29\.[A-Za-z0-9_-]{20,}", "ya29."),
    (r"1//0[A-Za-z0-9_-]{30,}", "1//0"),
    (r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", "eyj"),  # a JSON Web Token
)


Replacement = Union[str, Callable[[re.Match[str]], str]]


class _Shape(NamedTuple):
    """`words`: every text that the pattern matches contains one of them; they are quick to look for."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: Replacement


def _make_shape(words: str, pattern: str, replacement: Replacement = rf"\1{MARK}", flags: int = re.ASCII) -> _Shape:
    return _Shape(tuple(words.split()), re.compile(pattern, flags), replacement)


def _redact_header(found: re.Match[str]) -> str:
    scheme = f"{found[3]} " if found[3] else ""
    return f"{found[1]}{found[2]}{scheme}{MARK}"


def _redact_value(found: re.Match[str]) -> str:
    return found[0] if MARK in found[0] else f"{found[1]}{found[2]}{found[3] or ''}{MARK}"


_SHAPES = (
    _make_shape("-----begin", r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)[^-]*(?:-(?!----END)[^-]*)*"),
    _make_shape("private-lines", r"(Private-Lines: [0-9]{1,4}\r?\n)[A-Za-z0-9+/=\r\n]+", rf"\1{MARK}\n"),  # PuTTY
    _make_shape(
        "://",
        r"(://)(?:[^\s/@:\"']{0,100}:[^\s/@\"']{1,200}|(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,200})@",
        rf"\1{MARK}@",
        re.UNICODE,
    ),
    _make_shape(
        "authorization api-key cookie",
        r"(?i)\b((?:proxy-)?authorization|x-api-key|x-goog-api-key|api-key|(?:set-)?cookie)"
        r"(\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)(?:(bearer|basic|token)[ \t]{1,4})?[^\s\"'\\][^\"'\r\n\\]*",
        _redact_header,
    ),
    _make_shape(
        "bearer basic",
        r"(?i)\b((?:bearer|basic)[ \t]{1,4})(?=[A-Za-z0-9._~+/=-]*[0-9._~+/=-])[A-Za-z0-9._~+/=-]{8,}",
    ),
    _make_shape(" ".join(words for _, words in _KEYS), _AT + f"(?:{'|'.join(shape for shape, _ in _KEYS)})", MARK),
    _make_shape(
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
    _make_shape(  # after `token` alone may stand a word or a number, so a secret has both letters and digits
        "token",
        r"(?i)(?<![A-Za-z0-9])(token\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?)"
        r"(?=[A-Za-z_./+~-]{0,200}[0-9])(?=[0-9_./+~-]{0,200}[A-Za-z])[A-Za-z0-9_./+=~-]{10,}(?![\w.(\[])",
    ),
    _make_shape(
        "--",
        r"(?i)(--(?:[a-z]{1,20}-)?(?:password|passwd|passphrase|token|secret|api-?key)[ \t]{1,4}[\"']?)"
        r"(?![-$<{(\[])[^\s\"'|&;]{6,}",
    ),
    _make_shape("curl", r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:)(?![$<{])[^\s\"']{3,}"),
    _make_shape("login", r"(\blogin[ \t]{1,4}\S{1,100}\s{1,4}password[ \t]{1,4})[^\s\"']{4,}"),  # .netrc
    _make_shape("hooks.slack.com", r"(hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{20,}"),
    _make_shape(
        "sig= signature=", r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-signature)=)[A-Za-z0-9%+/=_-]{16,}"
    ),  # signed URLs
    _make_shape("token= auth=", r"([?&](?:token|auth)=)[A-Za-z0-9%+/=_.~-]{6,}"),
    _make_shape("key=", r"([?&]key=)(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"),
    _make_shape("/webhooks/", r"(discord(?:app)?\.com/api/webhooks/[0-9]{1,25}/)[A-Za-z0-9_-]{20,}"),
    _make_shape("</", r"(?i)(<(password|passwd|passphrase|secret|api_?key|token)>)[^<>\s][^<>\n]{3,200}(?=</\2>)"),
    _make_shape(
        "auth",
        r"(\b_?auth\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
        r"(?=[A-Za-z+/]{0,40}(?:[0-9=]|[A-Z]{2}))[A-Za-z0-9+/]{10,}={0,2}",
    ),
    _make_shape("$", r"\$(?:apr1|[156y]|2[abxy]|argon2id?)\$[A-Za-z0-9./$=,+]{20,}", MARK),  # hashes of passwords
    _make_shape(
        "sshpass login mysql",
        r"(\bsshpass[ \t]{1,4}-p[ \t]{0,4}|\blogin\b[^\n|;&]{0,100}?[ \t]-p[ \t]{1,4}"
        r"|\bmysql\w{0,10}\b[^\n|;&]{0,100}?[ \t]-p)"
        r"(?![ \t$<{-])[\"']?[^\s\"'|;&]{4,}",
    ),
)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """The text with known secrets, and whatever has the shape of a secret, replaced by MARK."""
    for form in _list_forms(known):
        text = text.replace(form, MARK)
    lowered = text.lower()
    for shape in _SHAPES:
        if any(word in lowered for word in shape.words):
            text = shape.pattern.sub(shape.replacement, text)
    return text


def _list_forms(known: Iterable[str]) -> list[str]:
    """Each secret as it is, inside JSON and inside a URL; the longest first, since one may contain another."""
    secrets = {value for value in known if len(value) >= MIN_SECRET_CHARS}
    forms = {form for each in secrets for form in (each, json.dumps(each)[1:-1], quote(each, safe=""))}
    return sorted(forms, key=len, reverse=True)
