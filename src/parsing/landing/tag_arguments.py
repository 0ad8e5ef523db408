"""The arguments of a call in tags while the model still writes them. Pure.

A string is given up to where a tag begins, or may begin: with the tag, several readings are left, and the end of the
text decides. It ends where its closing tag and the tag of another parameter follow, as a string in JSON does. A value
of another type is passed over and comes with the whole call. What is cut off from a value or read as JSON in some
readings (newlines around it, indentation, quotes, CDATA) is not begun. The work is linear in the text.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ..decode.scalars import unescape_entities
from ..decode.tag_style import Tag, TagStyle, skip_space
from ..decode.xml import NULLS
from ..formats.tag_syntax import MAX_TAG_CHARS, declares_string
from .arguments import MAX_PENDING_CHARS, ArgumentReader, encode_text

_SECTION = "<![CDATA["


class TagArgumentReader(ArgumentReader):
    """`parameters`: all that the tool has, with those of `types`. The text begins with the line of the first tag."""

    def __init__(self, types: Mapping[str, type], parameters: Container[str], style: TagStyle) -> None:
        super().__init__(types)
        self._style = style
        self._parameters = parameters
        self._keys: set[str] = set()
        self._text = ""  # that is read from `_at` on
        self._at = 0
        self._word = ""  # of the tag of the argument that is read
        self._is_indented = False  # that tag
        self._step = self._begin

    def feed(self, text: str) -> str:
        if self._step is None:
            return ""
        if self._step == self._go_on and self._at == len(self._text) and not self._style.marks_value.search(text):
            return self._add(encode_text(text))
        self._text = self._text[self._at :] + text
        self._at = 0
        piece = self._take_steps()
        if len(self._text) - self._at > MAX_PENDING_CHARS:
            self._step = None
        return piece

    # A step gives the text that is certain; None if it needs more text, or if the stream stops.

    def _begin(self) -> str | None:
        """The first argument."""
        tag = self._find_next()
        return self._begin_argument(tag) if tag else None

    def _find_next(self) -> Tag | None:
        """The tag of an argument behind blanks; None if that needs more text, or if something else follows."""
        start = skip_space(self._text, self._at)
        match = self._style.tags.match(self._text, start)
        if match is None:
            if start < len(self._text) and not self._style.starts.match(self._text, start):
                self._step = None
            return None
        tag = self._style.classify(match)
        key = _read_key(tag)
        if tag.kind == "P" and key in self._parameters and key not in self._keys:
            return tag
        self._step = None
        return None

    def _begin_argument(self, tag: Tag) -> str:
        """Moves behind the opening tag of an argument."""
        _, newline, line = self._text[self._at : tag.start].rpartition("\n")
        self._is_indented = bool(line) and (bool(newline) or not self._keys)
        self._key, self._word, self._at = _read_key(tag), tag.word, tag.end
        self._keys.add(self._key)
        is_string = self._types.get(self._key) is str
        self._step = self._go_on
        if is_string and declares_string(tag.attributes) is not False:
            self._step = self._begin_string
        return ""

    def _begin_string(self) -> str | None:
        """Decides whether the value is its text."""
        text, style = self._text, self._style
        start = skip_space(text, self._at)
        is_wrapped = text[self._at : self._at + 1] == "\n"
        rest = text[start : start + len(_SECTION)]
        is_cut = is_wrapped and (self._is_indented or style.wraps_loosely)
        if is_cut or rest == _SECTION or (rest[:1] == '"' and not style.is_element):
            self._step = None
            return None
        if _SECTION.startswith(rest):
            return None
        if is_wrapped and style.cuts_first:
            self._at += 1
        self._step = self._go_on
        return self._open_string(self._key)

    def _go_on(self) -> str | None:
        """What is certainly in the string; "" of a value that is not a string, or whose tag says so."""
        start, tag = self._at, self._find_tag()
        end = self._at
        if self._style.cuts_last and tag and self._text[start:end][-1:] == "\n":
            end -= 1
        text = self._add(encode_text(self._text[start:end]))
        if tag is None:
            return text or None
        self._at = tag.end
        self._step = None
        if tag.kind == "p" and not tag.is_loose:  # the value's own
            self._step = self._close
        return text

    def _find_tag(self) -> Tag | None:
        """Moves to the next tag that is no text of the value, or as far as the text is certainly in it."""
        style, text = self._style, self._text
        for match in style.tags.finditer(text, self._at):
            tag = style.classify(match)
            is_text = tag.kind in "se" or (style.is_element and tag.kind in "pP" and tag.word != self._word)
            if not is_text:
                self._at = tag.start
                return tag
            self._at = tag.end
        may_end = style.value_may_end.search(text, max(self._at, len(text) - MAX_TAG_CHARS))
        self._at = len(text)
        if may_end:
            self._at = may_end.start()
        return None

    def _close(self) -> str | None:
        """The value ends if the tag of an argument follows."""
        tag = self._find_next()
        if tag is None:
            return None
        piece = ""
        if self._value is not None:
            string = self.read_open_string()
            if string in NULLS:
                self._step = None
                return None
            piece = self._end_string()
        return piece + self._begin_argument(tag)


def _read_key(tag: Tag) -> str:
    return unescape_entities(tag.word.strip())
