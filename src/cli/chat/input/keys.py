"""What is typed while the model works: keys become a line, finished lines a queue. Pure.

The keys are those of a terminal in raw mode (xterm's; bracketed paste on). A line is edited at its end only.
"""

from __future__ import annotations

import re
import unicodedata

from .multiline import is_open, with_more

ESCAPE = "\x1b"
PASTE, PASTED = "[200~", "[201~"
SEQUENCE = re.compile(r"[\[O][0-9;<>?]*[ -/]*[@-~]|\r|\n|[ -NP-Z\\-~]|[^\x00-\x7f]")  # what may follow ESC
UNENDED = re.compile(r"(?:[\[O][0-9;<>?]*[ -/]*)?")  # so far
LONGEST_SEQUENCE = 32


class Typed:
    """`text` is the line so far, `queue` the finished lines; `wishes` are keys that are not text:
    "stop", "expand", "redraw"."""

    def __init__(self) -> None:
        self.text = ""
        self.queue: list[str] = []
        self.wishes: list[str] = []
        self._sequence: str | None = None  # what came after an ESC
        self._pasting = False
        self._pasted: list[str] = []
        self._tail = ""  # of what is pasted: its end may come in pieces

    def feed(self, characters: str) -> None:
        for each in characters:
            if self._pasting:
                self._paste(each)
            elif self._sequence is not None:
                self._escape(each)
            elif each == ESCAPE:
                self._sequence = ""
            else:
                self._key(each)

    def lone_escape(self) -> None:
        """No key followed an ESC for a while: it was the Escape key."""
        if self._sequence == "":
            self._sequence = None
            self.wishes.append("stop")

    def take_back(self) -> str:
        """Take everything typed and not sent, as one text."""
        text = "\n".join([*self.queue, *([self.text] if self.text else [])])
        self.queue, self.text = [], ""
        return text

    def _paste(self, character: str) -> None:
        self._pasted.append(character)
        self._tail = (self._tail + character)[-6:]
        if self._tail == ESCAPE + PASTED:
            self.text += "".join(self._pasted)[:-6].replace("\r\n", "\n").replace("\r", "\n")
            self._pasting, self._pasted, self._tail = False, [], ""

    def _escape(self, character: str) -> None:
        self._sequence = (self._sequence or "") + character
        if self._sequence == PASTE:
            self._sequence, self._pasting = None, True
        elif SEQUENCE.fullmatch(self._sequence):
            done, self._sequence = self._sequence, None
            if done in ("\r", "\n"):
                self.text += "\n"
            elif done in ("[A", "OA") and self.queue and not self.text:
                self.text = self.queue.pop()
        elif not UNENDED.fullmatch(self._sequence) or len(self._sequence) > LONGEST_SEQUENCE:
            self._sequence = None

    def _key(self, character: str) -> None:
        if character == "\r":
            self._enter()
        elif character == "\n":  # Ctrl-J
            self.text += "\n"
        elif character in "\x7f\b":
            self.text = _without_last(self.text)
        elif character == "\x15":  # Ctrl-U
            self.text = ""
        elif character == "\x17":  # Ctrl-W
            self.text = re.sub(r"\S*\s*\Z", "", self.text)
        elif character == "\x04" and not self.text:  # Ctrl-D
            self.queue.append("/exit")
        elif character in _WISHES:
            self.wishes.append(_WISHES[character])
        elif character == "\t" or character.isprintable():
            self.text += character

    def _enter(self) -> None:
        if is_open(self.text):
            self.text = with_more(self.text)
        elif self.text.strip():
            self.queue.append(self.text)
            self.text = ""


_WISHES = {"\x0f": "expand", "\x0c": "redraw"}  # Ctrl-O, Ctrl-L


def _without_last(text: str) -> str:
    """Without the last visible character and what is combined with it."""
    while text:
        last, text = text[-1], text[:-1]
        if not unicodedata.combining(last) and last not in "\u200d\ufe0f":
            return text
    return text
