"""Turn keys that are typed while the model works into a line and a queue of finished lines. Pure.

The keys are those of xterm in raw mode, with bracketed paste. A line can be edited at its end only.
"""

from __future__ import annotations

import re
import unicodedata

from .multiline import is_open, start_next_line

ESCAPE = "\x1b"
PASTE_BEGIN, PASTE_END = "[200~", "[201~"
SHIFT_TAB = "[Z"
SEQUENCE = re.compile(r"[\[O][0-9;<>?]*[ -/]*[@-~]|\r|\n|[ -NP-Z\\-~]|[^\x00-\x7f]")  # what may follow ESC
SEQUENCE_BEGIN = re.compile(r"(?:[\[O][0-9;<>?]*[ -/]*)?")  # an unfinished one
MAX_SEQUENCE_CHARS = 32


class TypedInput:
    """`text` is the open line, `queue` the finished lines; `actions` are "stop", "expand", "redraw" and "mode"."""

    def __init__(self) -> None:
        self.text = ""
        self.queue: list[str] = []
        self.actions: list[str] = []
        self._sequence: str | None = None  # the characters after an ESC
        self._pasting = False
        self._pasted: list[str] = []
        self._tail = ""  # of the pasted text: its end marker may come in pieces

    def feed(self, characters: str) -> None:
        for each in characters:
            if self._pasting:
                self._take_pasted(each)
            elif self._sequence is not None:
                self._take_escaped(each)
            elif each == ESCAPE:
                self._sequence = ""
            else:
                self._take_key(each)

    def end_escape(self) -> None:
        """Take a lone ESC, which no character has followed for a while, as the Escape key."""
        if self._sequence == "":
            self._sequence = None
            self.actions.append("stop")

    def take_unsent(self) -> str:
        """Remove and return everything that was typed and not sent, as one text."""
        text = "\n".join([*self.queue, *([self.text] if self.text else [])])
        self.queue, self.text = [], ""
        return text

    def _take_pasted(self, character: str) -> None:
        self._pasted.append(character)
        self._tail = (self._tail + character)[-6:]
        if self._tail == ESCAPE + PASTE_END:
            self.text += "".join(self._pasted)[:-6].replace("\r\n", "\n").replace("\r", "\n")
            self._pasting, self._pasted, self._tail = False, [], ""

    def _take_escaped(self, character: str) -> None:
        self._sequence = (self._sequence or "") + character
        if self._sequence == PASTE_BEGIN:
            self._sequence, self._pasting = None, True
        elif SEQUENCE.fullmatch(self._sequence):
            done, self._sequence = self._sequence, None
            if done in ("\r", "\n"):
                self.text += "\n"
            elif done == SHIFT_TAB:
                self.actions.append("mode")
            elif done in ("[A", "OA") and self.queue and not self.text:
                self.text = self.queue.pop()
        elif not SEQUENCE_BEGIN.fullmatch(self._sequence) or len(self._sequence) > MAX_SEQUENCE_CHARS:
            self._sequence = None

    def _take_key(self, character: str) -> None:
        if character == "\r":
            self._press_enter()
        elif character == "\n":  # Ctrl-J
            self.text += "\n"
        elif character in "\x7f\b":
            self.text = _drop_last_character(self.text)
        elif character == "\x15":  # Ctrl-U
            self.text = ""
        elif character == "\x17":  # Ctrl-W
            self.text = re.sub(r"\S*\s*\Z", "", self.text)
        elif character == "\x04" and not self.text:  # Ctrl-D
            self.queue.append("/exit")
        elif character in _ACTIONS:
            self.actions.append(_ACTIONS[character])
        elif character == "\t" or character.isprintable():
            self.text += character

    def _press_enter(self) -> None:
        if is_open(self.text):
            self.text = start_next_line(self.text)
        elif self.text.strip():
            self.queue.append(self.text)
            self.text = ""


_ACTIONS = {"\x0f": "expand", "\x0c": "redraw"}  # Ctrl-O, Ctrl-L


def _drop_last_character(text: str) -> str:
    """Drop the last visible character and the marks combined with it."""
    while text:
        last, text = text[-1], text[:-1]
        if not unicodedata.combining(last) and last not in "\u200d\ufe0f":
            return text
    return text
