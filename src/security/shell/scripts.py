"""Scripts of sed, awk and jq, and formats of printf, that only show something. Pure.

Each expression matches whole scripts that are known to be harmless, and matches each in one way only, so that it is
linear. It leaves out what writes, runs or reads a file (`w`, `e` and `r` of sed, `>`, `|`, `getline` and `system` of
awk, `env` of jq), and what is seldom used. Source: the manuals of GNU sed 4.9, gawk 5.2, mawk 1.3, jq 1.7 and
bash 5.2. Those of languages take 60 ms to compile, so they are compiled when a script is first seen.
"""

from __future__ import annotations

import re
from functools import cache

# No %n, which stores, and no numbered escapes, of which one might become a %.
FORMAT = re.compile(r"(?:[^%\\]|\\[abefnrtv\\\"']|%%|%[-+ #0]*[0-9]*(?:\.[0-9]+)?[sdiouxXeEfgGcbq])*")


def _build_sed() -> str:
    def till(sign: str) -> str:
        return rf"(?:[^{sign}\\\n]|\\[^cdox0\n])*"

    searched = rf"/{till('/')}/"
    place = rf"(?:[0-9]+|\$|{searched})"
    address = rf"{place}(?: ?, ?(?:\+?[0-9]+|\$|{searched}))?(?: ?!)? ?"
    replace = "|".join(rf"s{sign}{till(sign)}{sign}{till(sign)}{sign}[gpI0-9]*" for sign in ("/", r"\|", *"#,:@_"))
    step = rf" ?(?:{address})?(?:[pdq=]|{replace}) ?"
    return rf"{step}(?:[;\n]{step})*;?"


def _build_awk() -> str:
    text = r'"(?:[^"\\\n]|\\[tn"\\])*"'
    searched = r"/(?:[^/\\\n\[\]]|\\[^\n0-9x]|\[\^?(?:\[:[a-z]+:\]|[\w .,:;=+@%$-])+\])+/"
    name = r"(?!(?:getline|system|printf?|close|length|next|exit|func|delete)\b)[a-z]{1,10}\b"
    number = r"[0-9]+(?:\.[0-9]+)?(?![0-9.])"
    column = r"\$(?:[0-9]+(?![0-9])|NF\b|\(NF-[0-9]+\))"
    value = rf"(?:{column}|F?NR\b(?:%{number})?|NF\b|{number}|{text}|length\b(?:\({column}\))?|{name})"
    term = rf"!?(?:{searched}|{value}(?: ?(?:==|!=|<=|>=|<|>) ?{value}| ?!?~ ?{searched})?)"
    test = rf"(?:!?{name}\[{column}\]\+\+|{term}(?: ?(?:&&|\|\|) ?{term})*)"
    pattern = rf"(?:BEGIN|END|{test}(?: ?, ?{test})?)"
    show = rf"print\b(?: ?{value}(?:(?: ?, ?| )?{value})*)?"
    count = rf"{name}(?:\[{column}\])?(?:\+\+| ?\+?= ?{value})"
    step = rf"(?:{show}|{count}|next|exit)"
    action = rf"\{{ ?{step}(?: ?; ?{step})*(?: ?;)? ?\}}"
    rule = rf"(?:{pattern} ?{action}|{action}|{pattern}(?= ?[;\n]|$))"
    return rf" ?(?:{rule}(?: ?[;\n] ?| )?)+"


def _build_jq() -> str:
    text = r'"[^"\\\n]*"'
    key = rf"(?:[A-Za-z_]\w*|{text})"
    inside = rf"\[(?:-?[0-9]*(?::-?[0-9]*)?|{text})\]"
    end = r"[ |,)\]}?]|$"
    path = rf"\.(?:{key}|(?={end}|\[))(?:\.{key}|\.?{inside}|\?)*"
    plain = (
        "keys|length|type|values|add|sort|unique|reverse|not|to_entries|from_entries|flatten|min|max|first|last|tostring"
        "|tonumber|ascii_downcase|ascii_upcase|any|all|empty|keys_unsorted|true|false|null"
    )
    value = rf"(?:{path}|(?:{plain})\b|-?[0-9]+(?:\.[0-9]+)?|{text})"
    test = rf"{value}(?: ?(?:==|!=|<=|>=|<|>|and\b|or\b) ?{value})?"
    taking = (
        "map|select|has|any|all|sort_by|group_by|unique_by|max_by|min_by|startswith|endswith|contains|join|split|test"
    )
    inner = rf"(?:(?:{taking})\( ?{test} ?\)|{test})"
    call = rf"(?:(?:{taking})\( ?{inner}(?: ?\| ?{inner})* ?\)|{test})"
    line = rf"{call}(?: ?[|,] ?{call})*"
    pair = rf"{key}(?: ?: ?{value})?"
    made = rf"(?:{call}|\[ ?{line} ?\]|\{{ ?{pair}(?: ?, ?{pair})* ?\}})"
    return rf" ?{made}(?: ?[|,] ?{made})* ?"


_SCRIPTS = {"sed": _build_sed, "awk": _build_awk, "jq": _build_jq}


@cache
def compile_language(language: str) -> re.Pattern[str]:
    """The expression that matches harmless scripts of sed, awk or jq."""
    return re.compile(_SCRIPTS[language]())
