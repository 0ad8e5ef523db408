"""The width of text on a terminal, and cutting it to fit. Colours (SGR sequences) have no width."""

from __future__ import annotations

import re

from rich.cells import cell_len

from .wrap import ELLIPSIS, TAB_COLUMNS

SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_PIECE = re.compile(f"{SGR.pattern}|.", re.DOTALL)  # a colour or a character


def measure_width(text: str) -> int:
    if "\x1b" in text:
        text = SGR.sub("", text)
    return cell_len(text)


def truncate(text: str, columns: int) -> str:
    """The text, shortened at its end with an ellipsis if it does not fit."""
    text = text.replace("\t", " " * TAB_COLUMNS)
    if measure_width(text) <= columns:
        return text
    columns_left = columns - len(ELLIPSIS)
    end = 0
    for piece in _PIECE.finditer(text):
        if not piece[1]:
            columns_left -= cell_len(piece[0])
        if columns_left < 0:
            break
        end = piece.end()
    shown = text[:end] + ELLIPSIS[: max(columns, 0)]
    if "\x1b" in text:
        shown += "\x1b[0m"
    return shown
