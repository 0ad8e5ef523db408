"""Messages of several lines: after a backslash or between triple quotes. Pure."""

from __future__ import annotations

PROMPT = "> "
QUOTES = '"""'


def is_open(text: str) -> bool:
    """Whether Enter starts a new line: after a backslash, or between triple quotes."""
    if text.lstrip().startswith(QUOTES):
        inside = text.strip()[len(QUOTES) :]
        return not inside.endswith(QUOTES)
    return text.endswith("\\")


def strip_quotes(text: str) -> str:
    """The message without the triple quotes around it."""
    stripped = text.strip()
    if stripped.startswith(QUOTES) and stripped.endswith(QUOTES) and len(stripped) >= 2 * len(QUOTES):
        return stripped[len(QUOTES) : -len(QUOTES)].strip("\n")
    return stripped


def start_next_line(text: str) -> str:
    """The open text after Enter."""
    return f"{text[:-1]}\n" if text.endswith("\\") and not text.lstrip().startswith(QUOTES) else f"{text}\n"
