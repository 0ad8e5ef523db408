"""Anchors, the characters at which a block can begin, found fast: most of an answer needs no other work.

One compiled alternation decides. In long text `str.find` runs ahead for each character and is many times as fast;
where it finds many characters that are no anchors, the alternation takes over for a window. Both find the same.
"""

from __future__ import annotations

import re

_MIDLINE = r"[^\s\"'>*+\-#$`\d.)(\[\]=:]"  # no line that a block begins has it before the block, but in these words
_ANCHOR_SOURCE = (
    r"<(?=[|｜]|/[a-zA-Z]|/?\Z|<(?:[fF]|\Z)|\](?:m|\Z)|\s(?:[|｜]|\Z)"  # a marker, or an end of reasoning
    r"|(?i:tool(?:_call)?:)|[a-zA-Z][\w.:/\\$-]{0,80}"  # or a tag: its name and what may follow that
    r"(?:[>|]|\Z|=(?:[\"'\w>\s]|\Z)|[ \t](?:(?i:name|tool)=(?:[\"'\w>]|\Z)|\w{0,4}\Z)))"
    r"|\{(?=\{?\s{0,64}(?:[\"'\w“‘}]|\Z))"  # an object with a key
    r"|\[(?!\[\[)"
    r"|\((?<=[\w)*`]\()"  # after a name
    r"|:(?:(?<=(?i:call):)|(?<=(?i:alls):)|(?<=TOOL_NAME:)|(?<=[*`]:)"  # after a label, or after one that a name
    r"|(?:(?<=(?i:tion):)|(?<=(?i:tool):)|(?<=(?i:name):))"  # or an object follows
    r"(?=[*\"'`\s]{0,22}(?:[\[{`]|\Z|(?=([^\W\d][\w.:/\\$-]{0,80}))\1[*\"'`,() \t\r]{0,8}(?:[\n\[]|\Z))))"
    r"|`(?!`{4})(?:(?=`)"  # the end of a run of backticks, or one that may begin a line
    rf"|(?<!{_MIDLINE}`)(?<!{_MIDLINE}[ \t]`)|(?<=call`)|(?<=call[ \t]`)|(?<=await`)|(?<=await[ \t]`)"
    r"|(?<=return`)|(?<=return[ \t]`))"
    r"|>(?=>>(?!>)|>?\Z)"
)
_ANCHOR = re.compile(_ANCHOR_SOURCE)
_CHARACTERS = "<{[(`:>"
_SHORT_CHARS = 512  # text that the alternation searches at once
_WINDOW_CHARS = 4096
_MAX_MISSES = 4  # characters in a row that are no anchors, before the alternation takes over


class Prefilter:
    """Finds the anchors of growing text; remembers for each character where it stands next."""

    def __init__(self, unusual: str = "", characters: str = "") -> None:
        """`unusual` is the source of a pattern of further anchors, which begin with one of `characters`."""
        self._anchor = re.compile(f"{unusual}|{_ANCHOR_SOURCE}") if unusual else _ANCHOR
        self.search = self._anchor.search
        self._characters = _CHARACTERS + characters
        self._text = ""
        self._next: dict[str, int] = {}

    def find(self, text: str, position: int) -> int:
        """The first anchor from `position` on, or -1."""
        if len(text) - position < _SHORT_CHARS:
            found = self._anchor.search(text, position)
            return found.start() if found else -1
        if text is not self._text:
            self._text = text
            self._next = dict.fromkeys(self._characters, -1)
        return self._find_far(text, position)

    def _find_far(self, text: str, position: int) -> int:
        upcoming, end, misses = self._next, len(text), 0
        while position < end:
            for character, at in upcoming.items():
                if at < position:
                    found = text.find(character, position)
                    upcoming[character] = found if found >= 0 else end
            at = min(upcoming.values())
            if at == end or self._anchor.match(text, at):
                return at if at < end else -1
            position, misses = at + 1, misses + 1
            if misses >= _MAX_MISSES:
                near = self._anchor.search(text, position, min(end, position + _WINDOW_CHARS))
                if near and near.end() < position + _WINDOW_CHARS:
                    return near.start()
                position, misses = min(end, position + _WINDOW_CHARS - 2), 0
        return -1
