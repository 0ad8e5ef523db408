"""Split streamed Markdown into finished blocks and the one that is still open. Pure; linear.

A block can be drawn by itself: a paragraph, a heading, a table, a list item, a line of code. A finished block never
changes, whatever follows, so it is drawn once. The rules are CommonMark's as far as a stream allows: each line is
read once, and its meaning depends only on the line and the open block.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

BlockKind = Literal["text", "item", "opener", "code", "closer"]

FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$")
HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
ITEM = re.compile(r"( {0,3})(?:[-*+]|(\d{1,9})([.)]))([ \t]+|$)")
ROW = re.compile(r" {0,3}\|")
MIN_TABLE_ROWS = 3  # an open table is shown from this size: head, delimiter row, one row
INDENT = re.compile(r"[ \t]*")


class Block(Struct, frozen=True):
    """`text` is Markdown or a line of code; `gap`: an empty line precedes it; `language`: of the code."""

    kind: BlockKind
    text: str
    gap: bool = False
    language: str = ""


class BlockSplitter:
    """`feed` returns finished blocks; `open` is the unfinished one."""

    def __init__(self) -> None:
        self._line: list[str] = []  # pieces of the unfinished line
        self._lines: list[str] = []  # finished lines of the open block
        self._kind: BlockKind = "text"
        self._gap = False  # before the open block
        self._blank = False  # the last line was empty
        self._fence = ""  # closes the open code block
        self._language = ""
        self._inner = ""  # closes the code block inside the open item
        self._indent = 0  # columns by which lines of the open item are indented
        self._number = 0  # of the last numbered item; -1 in a list without numbers

    @property
    def open(self) -> Block | None:
        line = "".join(self._line)
        if self._fence:
            return Block("code", line, language=self._language) if line else None
        shown = [*self._lines]
        # These are shown once complete: more text may change the kind of the line, and a row the width of all others.
        if line and not FENCE.match(line) and not ROW.match(line):
            shown.append(line)
        if len(shown) < MIN_TABLE_ROWS and all(map(ROW.match, shown)):
            return None  # the first rows of a table are no table yet
        text = "\n".join(shown)
        if not text.strip():
            return None
        return Block(self._kind, text, self._gap if self._lines else self._blank)

    def feed(self, text: str) -> list[Block]:
        """Returns the blocks that this text finishes."""
        if "\n" not in text:
            self._line.append(text)
            return []
        first, *more = text.split("\n")
        self._line.append(first)
        finished: list[Block] = []
        for piece in more:
            line, self._line = "".join(self._line), [piece]
            self._take_line(line, finished)
        return finished

    def close(self) -> list[Block]:
        """End the text. Returns the remaining blocks, and starts anew."""
        finished: list[Block] = []
        if line := "".join(self._line):
            self._take_line(line, finished)
        self._finish_block(finished)
        if self._fence:
            finished.append(Block("closer", ""))
        self.__init__()  # type: ignore[misc]  # start anew
        return finished

    def _take_line(self, line: str, finished: list[Block]) -> None:
        if self._fence:
            if _closes_fence(line, self._fence):
                self._fence = ""
                finished.append(Block("closer", ""))
            else:
                finished.append(Block("code", line, language=self._language))
        elif self._kind == "item" and self._lines and self._belongs_to_item(line):
            self._lines.append(line)
        elif not line.strip():
            if self._kind == "text":
                self._finish_block(finished)
        else:
            self._begin_block(line, finished)
        self._blank = not line.strip()

    def _belongs_to_item(self, line: str) -> bool:
        """Whether a line continues the open item. Keeps track of code inside the item."""
        if self._inner:
            if _closes_fence(line.lstrip(), self._inner):
                self._inner = ""
            return True
        if not line.strip():
            return True
        inside = len(INDENT.match(line)[0].expandtabs(4)) >= min(self._indent, 2)  # type: ignore[index]
        if inside:
            if fence := FENCE.match(line.strip()):
                self._inner = fence[2]
            return True
        return not self._blank and not any(each.match(line) for each in (ITEM, FENCE, HEADING, RULE))

    def _begin_block(self, line: str, finished: list[Block]) -> None:
        """Take a line that is not empty, not code, and not part of an item."""
        in_paragraph = self._kind == "text" and bool(self._lines)
        if in_paragraph and UNDERLINE.match(line):
            self._lines.append(line)
            self._finish_block(finished)
            return
        if item := _match_item(line, in_paragraph=in_paragraph):
            self._finish_block(finished)
            self._open_item(line, item)
            return
        self._number = 0
        if fence := FENCE.match(line):
            self._finish_block(finished)
            self._fence, self._language = fence[2], fence[3].strip().partition(" ")[0]
            finished.append(Block("opener", line.strip(), self._blank, self._language))
        elif HEADING.match(line) or RULE.match(line):
            self._finish_block(finished)
            finished.append(Block("text", line, gap=True))
        else:
            if self._kind == "item" or not self._lines:
                self._finish_block(finished)
                self._gap = self._blank
            self._lines.append(line)

    def _open_item(self, line: str, item: re.Match[str]) -> None:
        changed = (self._number > 0) != bool(item[2])
        self._gap = self._blank and (not self._number or changed)
        if item[2]:
            if self._number > 0:
                self._number += 1
            else:
                self._number = int(item[2])
            line = f"{item[1]}{self._number}{item[3]}{line[item.end(3) :]}"
        else:
            self._number = -1
        self._kind, self._lines, self._indent = "item", [line], len(item[0])

    def _finish_block(self, finished: list[Block]) -> None:
        if self._lines:
            finished.append(Block(self._kind, "\n".join(self._lines), self._gap))
        self._kind, self._lines, self._inner = "text", [], ""


def _closes_fence(line: str, fence: str) -> bool:
    stripped = line.strip()
    return len(line) - len(line.lstrip()) < 4 and stripped.startswith(fence) and not stripped.strip(fence[0])


def _match_item(line: str, *, in_paragraph: bool) -> re.Match[str] | None:
    """The beginning of a list's item; in a paragraph, a line that begins with a number other than 1 is none."""
    item = ITEM.match(line)
    if item is None or RULE.match(line):
        return None
    if in_paragraph and item[2] not in (None, "1"):
        return None
    return item
