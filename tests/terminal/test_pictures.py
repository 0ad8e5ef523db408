"""The README's pictures show what the program shows."""

from __future__ import annotations

import html
import re

from tests.thorough import only_thorough

from .pictures import FOLDER, draw_pictures


def read_words(svg: str) -> str:
    """The text on a picture."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")


@only_thorough
def test_the_pictures_show_what_the_demo_shows():
    for name, svg in draw_pictures().items():
        drawn = (FOLDER / name).read_text(encoding="utf-8")
        assert read_words(drawn) == read_words(svg), f"{name}: draw it anew with `python -m tests.terminal.pictures`"
