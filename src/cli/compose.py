"""A message of several lines, as it is typed: when it is finished, and what it is then. Pure."""

from __future__ import annotations

PROMPT = "> "
QUOTES = '"""'


def is_open(text: str) -> bool:
    """Whether Enter begins a new line: after a backslash, or inside of three quotes."""
    if text.lstrip().startswith(QUOTES):
        inside = text.strip()[len(QUOTES) :]
        return not inside.endswith(QUOTES)
    return text.endswith("\\")


def finished(text: str) -> str:
    """What was meant: less the quotes around it, and the backslashes at the ends of lines but the last."""
    stripped = text.strip()
    if stripped.startswith(QUOTES) and stripped.endswith(QUOTES) and len(stripped) >= 2 * len(QUOTES):
        return stripped[len(QUOTES) : -len(QUOTES)].strip("\n")
    return stripped


def with_more(text: str) -> str:
    """An open text with the line break that Enter gives it."""
    return f"{text[:-1]}\n" if text.endswith("\\") and not text.lstrip().startswith(QUOTES) else f"{text}\n"
