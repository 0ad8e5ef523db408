"""Which lines of a file match a pattern, with those around them. It streams, and its time is bounded.

A file is gone through in blocks of whole lines. A block that holds none of the words that a match must hold
is passed over whole, so that a gigabyte without any takes a second; so is one in which the pattern, if it is
plain enough for that, is not found in one search. A line is taken for UTF-8 and, where it
is none, for Latin-1; of one that is longer than a block only the begin is looked at.
"""

from __future__ import annotations

import codecs
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ...errors import ToolError
from .globs import is_plain, words

if TYPE_CHECKING:
    import regex

BLOCK = 1 << 20  # bytes
LONGEST_PATTERN = 2_000  # characters
BLOCK_SECONDS = 0.2  # that a pattern may take on a block
SECONDS = 10.0  # that a pattern may take in all, beyond reading
WIDTH = 500  # characters shown of a line
MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Line(NamedTuple):
    """A line to show: its number, and whether it matches or only stands near one that does."""

    number: int
    text: str
    matches: bool


class Matcher:
    """A pattern, and the time that may still be spent on it. Raises ToolError for what is no pattern."""

    def __init__(
        self,
        pattern: str,
        monotonic: Callable[[], float],
        *,
        literal: bool,
        ignore_case: bool,
        seconds: float = SECONDS,
    ) -> None:
        import warnings

        import regex  # start-up is measured

        if not pattern or len(pattern) > LONGEST_PATTERN:
            raise ToolError(f"a pattern has 1 to {LONGEST_PATTERN:,} characters, and this one {len(pattern):,}")
        source = regex.escape(pattern) if literal else pattern
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what may change in a later version
                self._compiled: regex.Pattern[str] = regex.compile(source, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, OverflowError, RecursionError) as error:
            raise ToolError(f"{pattern[:80]!a} is no regular expression: {error}") from error
        self._many = self._compiled if is_plain(source) else None
        if self._many:
            self._many = regex.compile(source, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
        self.ignore_case = ignore_case
        self.words = words(source, ignore_case=ignore_case)
        self._needles = [word.lower().encode() if ignore_case else word.encode() for word in self.words]
        self._monotonic = monotonic
        self._seconds = self._left = seconds

    def may_be_in(self, block: bytes) -> bool:
        """False where no line of the block can match."""
        if not self._needles:
            return True
        folded = block.lower() if self.ignore_case else block
        return any(needle in folded for needle in self._needles)

    def may_match(self, block: bytes) -> bool:
        """False where no line of the block matches: told by one search where the pattern is plain enough for that."""
        if not self.may_be_in(block):
            return False
        if not self._many:
            return True
        try:
            text = block.decode("utf-8").replace("\r\n", "\n").removesuffix("\r")
            return self._many.search(text, timeout=BLOCK_SECONDS) is not None
        except UnicodeDecodeError:
            return True
        except TimeoutError:  # what is quick on a line need not be so on many
            self._many = None
            return True

    def find(self, line: str) -> int:
        """Where the first match begins, or -1. Raises ToolError once the time is over."""
        begun = self._monotonic()
        try:
            found = self._compiled.search(line, timeout=max(self._left, 0.001))
        except TimeoutError as error:
            raise ToolError(
                f"the pattern takes more than {self._seconds:g} s",
                "Write it without repetition of what repeats itself.",
            ) from error
        self._left -= self._monotonic() - begun
        return found.start() if found else -1


def blocks(file: BinaryIO, *, binary: bool = False) -> Iterator[bytes]:
    """A file's lines, many at a time, as UTF-8 or as they are; a line longer than a block is cut to it.

    None of a file that has a NUL in its first block, unless `binary`.
    """
    head = file.read(BLOCK)
    if head.startswith(MARKS):
        codec = "utf-16-le" if head.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
        file.seek(len(codecs.BOM_UTF16_LE))
        text = io.TextIOWrapper(file, codec, errors="replace", newline="")
        try:
            yield from _blocks(lambda: text.read(BLOCK).encode("utf-8", "replace"), b"")
        finally:
            text.detach()
    elif binary or b"\0" not in head:
        yield from _blocks(lambda: file.read(BLOCK), head.removeprefix(codecs.BOM_UTF8))


def _blocks(read: Callable[[], bytes], rest: bytes) -> Iterator[bytes]:
    more = True
    while more:
        data = read()
        more = bool(data)
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end]
            rest = data[end:]
        elif len(data) < BLOCK:
            rest = data
        else:
            yield data[:BLOCK] + b"\n"
            rest = _after_newline(read)
    if rest:
        yield rest


def _after_newline(read: Callable[[], bytes]) -> bytes:
    while data := read():
        if (at := data.find(b"\n")) >= 0:
            return data[at + 1 :]
    return b""


def matches(file_blocks: Iterable[bytes], matcher: Matcher, before: int, after: int) -> Iterator[Line]:
    """The lines that match and those around them, each once, in order."""
    number = 1  # of the block's first line
    shown_until = 0  # lines up to this number are shown, as they follow a match
    last_shown = 0
    kept: deque[bytes] = deque(maxlen=before)  # lines before the block
    for block in file_blocks:
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if shown_until < number and not matcher.may_match(block):
            if before:
                kept.extend(block.removesuffix(b"\n").rsplit(b"\n", before)[-before:])
            number += count
            continue
        lines = block.removesuffix(b"\n").split(b"\n")
        for at, raw in enumerate(lines):
            here = number + at
            start = -1
            if matcher.may_be_in(raw):
                text = decoded(raw)
                start = matcher.find(text)
            if start >= 0:
                for back in range(max(here - before, last_shown + 1), here):
                    offset = back - here + at
                    earlier = lines[offset] if offset >= 0 else kept[len(kept) + offset]
                    yield Line(back, shortened(decoded(earlier)), False)
                yield Line(here, shortened(text, start), True)
                last_shown, shown_until = here, here + after
            elif here <= shown_until:
                yield Line(here, shortened(decoded(raw)), False)
                last_shown = here
        if before:
            kept.extend(lines[-before:])
        number += count


def decoded(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.removesuffix("\r")


def shortened(line: str, at: int = 0) -> str:
    """A line as it is shown: all of it, or the part where the match begins."""
    if len(line) > WIDTH:
        start = max(0, at - WIDTH // 4)
        line = f"{'[...] ' * bool(start)}{line[start : start + WIDTH]}{' [...]' * (start + WIDTH < len(line))}"
    return line.replace("\0", "\ufffd")
