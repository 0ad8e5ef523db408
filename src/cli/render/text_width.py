"""The width of text on a terminal, and cutting it to fit. Colours (SGR sequences) have no width."""

from __future__ import annotations

import re

from rich.cells import cell_len

from .wrap import ELLIPSIS, TAB_COLUMNS

SGR = re.compile(r"(\x1b\[[0-9;]*m)")


def measure_width(text: str) -> int:
    return cell_len(SGR.sub("", text)) if "\x1b" in text else cell_len(text)


def truncate(text: str, columns: int) -> str:
    """The text, shortened at its end with an ellipsis if it does not fit."""
    text = text.replace("\t", " " * TAB_COLUMNS)
    if measure_width(text) <= columns:
        return text
    left = columns - len(ELLIPSIS)
    out: list[str] = []
    for piece in SGR.split(text):
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
    return "".join(out) + ELLIPSIS[: max(columns, 0)] + colour


def truncate_start(text: str, columns: int) -> str:
    """The text, shortened at its beginning with an ellipsis if it does not fit."""
    if measure_width(text) <= columns:
        return text
    left = columns - len(ELLIPSIS)
    start = len(text)
    while start and (left := left - cell_len(text[start - 1])) >= 0:
        start -= 1
    return ELLIPSIS + text[start:]
