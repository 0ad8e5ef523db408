"""The colours of the screen, on a dark background, on a light one, and none with NO_COLOR. Pure, and without rich.

All are among the terminal's own sixteen, so that its palette decides. Bold, dim and italics are no colours: they stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern

ASK_BACKGROUND = "\x1b]11;?\x1b\\"  # OSC 11 of xterm; https://invisible-island.net/xterm/ctlseqs/ctlseqs.html
BACKGROUND = LazyPattern(r"\x1b\]11;rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:\x07|\x1b\\)")
LIGHT_FROM = 0.5  # of white
DARK_INDEXES = {"0", "1", "2", "3", "4", "5", "6", "8"}  # of the sixteen colours, in COLORFGBG


class Colours(Struct, frozen=True):
    """SGR parameters of each use, empty for no colour; the names in rich of a colour and of a theme for code."""

    error: str
    notice: str
    added: str
    removed: str
    hunk: str
    accent: str
    code: str

    @property
    def are_shown(self) -> bool:
        return bool(self.error)


DARK = Colours("31", "33", "32", "31", "36", "cyan", "ansi_dark")
LIGHT = Colours("31", "35", "32", "31", "34", "blue", "ansi_light")
NONE = Colours("", "", "", "", "", "default", "ansi_dark")
THEMES = {"dark": DARK, "light": LIGHT}


def paint(text: str, sgr: str) -> str:
    if not sgr:
        return text
    return f"\x1b[{sgr}m{text}\x1b[0m"


def find_colours(theme: str, environment: Mapping[str, str]) -> Colours | None:
    """The colours for `chat.theme`; None if the terminal has to be asked for its background."""
    if environment.get("NO_COLOR"):  # https://no-color.org
        return NONE
    if theme in THEMES:
        return THEMES[theme]
    if background := environment.get("COLORFGBG", "").rpartition(";")[2]:
        return DARK if background in DARK_INDEXES else LIGHT
    if environment.get("TERM") == "linux":  # a console shows the question
        return DARK
    return None


def take_background(typed: str) -> tuple[str, Colours | None]:
    """What was typed without the terminal's answer to ASK_BACKGROUND, and the colours for it; None if it has none."""
    if not (reply := BACKGROUND.search(typed)):
        return typed, None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in reply.groups())
    is_light = 0.2126 * red + 0.7152 * green + 0.0722 * blue >= LIGHT_FROM  # the weights of sRGB's luminance
    return typed[: reply.start()] + typed[reply.end() :], LIGHT if is_light else DARK
