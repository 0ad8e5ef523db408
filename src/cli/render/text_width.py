"""The width of text on a terminal, and cutting it to fit. Colours (SGR sequences) have no width."""

from __future__ import annotations

import re

from rich.cells import cell_len

COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
DOTS = "..."


def width_of(text: str) -> int:
    return cell_len(COLOUR.sub("", text)) if "\x1b" in text else cell_len(text)


def cut(text: str, columns: int) -> str:
    """The text, cut at the end with dots if it does not fit."""
    text = text.replace("\t", "    ")
    if width_of(text) <= columns:
        return text
    left = columns - len(DOTS)
    out: list[str] = []
    for piece in COLOUR.split(text):
        if piece.startswith("\x1b"):
            out.append(piece)
            continue
        for character in piece:
            left -= cell_len(character)
            if left < 0:
                break
            out.append(character)
        if left < 0:
            break
    colour = "\x1b[0m" if "\x1b" in text else ""
    return "".join(out) + DOTS[: max(columns, 0)] + colour


def last_part(text: str, columns: int) -> str:
    """The text, cut at the beginning with dots if it does not fit."""
    if width_of(text) <= columns:
        return text
    left = columns - len(DOTS)
    start = len(text)
    while start and (left := left - cell_len(text[start - 1])) >= 0:
        start -= 1
    return DOTS + text[start:]
