"""Find the lines of a file that match a pattern, and the lines around them. It streams, in bounded time.

A file is read in blocks of whole lines. A block is skipped if the pattern is plain and one search does not find it
there: a gigabyte without a match takes three seconds. A line is decoded as UTF-8, or else as Latin-1; of a line longer
than a block only the start is searched.
"""

from __future__ import annotations

import codecs
import io
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from ...errors import ToolError
from ...types.lazy_pattern import LazyPattern

if TYPE_CHECKING:
    import regex

BLOCK_BYTES = 1 << 20
MAX_PATTERN_CHARS = 2_000
MAX_PATTERN_STEPS = 100_000  # of an expression; compiled, each takes 270 bytes
BLOCK_TIMEOUT_S = 0.2  # for a pattern on one block
PATTERN_TIMEOUT_S = 10.0  # for a pattern on all lines, without reading them
MAX_LINE_CHARS = 500  # shown
UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class FoundLine(Struct, frozen=True):
    """A line to show: its number from 1, and whether it matches or only stands near a line that does."""

    number: int
    text: str
    matches: bool


class LineMatcher:
    """A pattern, and the time left for it. Raises ToolError for what is not a regular expression."""

    def __init__(
        self,
        pattern: str,
        monotonic: Callable[[], float],
        *,
        literal: bool,
        ignore_case: bool,
        timeout_s: float = PATTERN_TIMEOUT_S,
    ) -> None:
        import regex  # start-up is measured

        if not pattern or len(pattern) > MAX_PATTERN_CHARS:
            raise ToolError(f"a pattern has 1 to {MAX_PATTERN_CHARS:,} characters, and this one {len(pattern):,}")
        source, flags = pattern, 0
        if literal:
            source = regex.escape(pattern)
        if ignore_case:
            flags = regex.IGNORECASE
        if count_steps(source) > MAX_PATTERN_STEPS:
            raise ToolError(f"{pattern[:80]!a} repeats too much", "Write it with smaller numbers in braces.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about syntax that a later version may change
                self._compiled: regex.Pattern[str] = regex.compile(source, flags)
        except (regex.error, OverflowError, RecursionError) as error:
            raise ToolError(f"{pattern[:80]!a} is no regular expression: {error}") from error
        self._multiline: regex.Pattern[str] | None = None
        if is_plain(source):
            self._multiline = regex.compile(source, regex.MULTILINE | flags)
        self._monotonic = monotonic
        self._timeout_s = self._left_s = timeout_s

    def may_match(self, block: bytes) -> bool:
        """False if no line of the block matches; one search decides that if the pattern is plain."""
        if not self._multiline:
            return True
        try:
            text = block.decode("utf-8").replace("\r\n", "\n").removesuffix("\r")
            return self._multiline.search(text, timeout=BLOCK_TIMEOUT_S) is not None
        except UnicodeDecodeError:
            return True
        except TimeoutError:  # a pattern that is fast on one line may be slow on many
            self._multiline = None
            return True

    def find(self, line: str) -> int:
        """The index of the first match, or -1. Raises ToolError once the time is over."""
        start = self._monotonic()
        try:
            match = self._compiled.search(line, timeout=max(self._left_s, 0.001))
        except TimeoutError as error:
            raise ToolError(
                f"the pattern takes more than {self._timeout_s:g} s",
                "Write it without repetition of what repeats itself.",
            ) from error
        self._left_s -= self._monotonic() - start
        return match.start() if match else -1


def read_blocks(file: BinaryIO, *, binary: bool = False) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines, UTF-16 as UTF-8; a line longer than a block is cut.

    A file with a NUL in its first block yields nothing, unless `binary`.
    """
    head = file.read(BLOCK_BYTES)
    if head.startswith(UTF16_BOMS):
        codec = "utf-16-be"
        if head.startswith(codecs.BOM_UTF16_LE):
            codec = "utf-16-le"
        file.seek(len(codecs.BOM_UTF16_LE))
        text = io.TextIOWrapper(file, codec, errors="replace", newline="")
        try:
            yield from _split_blocks(lambda: text.read(BLOCK_BYTES).encode("utf-8", "replace"), b"")
        finally:
            text.detach()
    elif binary or b"\0" not in head:
        yield from _split_blocks(lambda: file.read(BLOCK_BYTES), head.removeprefix(codecs.BOM_UTF8))


def _split_blocks(read: Callable[[], bytes], rest: bytes) -> Iterator[bytes]:
    more = True
    while more:
        data = read()
        more = bool(data)
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end]
            rest = data[end:]
        elif len(data) < BLOCK_BYTES:
            rest = data
        else:
            yield data[:BLOCK_BYTES] + b"\n"
            while data and b"\n" not in data:  # the rest of the line is skipped
                data = read()
            rest = data.partition(b"\n")[2]
    if rest:
        yield rest


def find_lines(blocks: Iterable[bytes], matcher: LineMatcher, before: int, after: int) -> Iterator[FoundLine]:
    """Yield the lines that match, and `before` and `after` lines around them, each once and in order."""
    number = 1  # of the block's first line
    shown_until = 0  # lines up to this number follow a match and are shown
    last_shown = 0
    kept: deque[bytes] = deque(maxlen=before)  # lines before the block
    for block in blocks:
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if shown_until < number and not matcher.may_match(block):
            if before:
                kept.extend(block.removesuffix(b"\n").rsplit(b"\n", before)[-before:])
            number += count
            continue
        lines = block.removesuffix(b"\n").split(b"\n")
        lines_seen = [*kept, *lines]
        for here, raw in enumerate(lines, number):
            text = decode_line(raw)
            start = matcher.find(text)
            if start >= 0:
                for back in range(max(here - before, last_shown + 1), here):
                    earlier = lines_seen[back - number + len(kept)]
                    yield FoundLine(back, shorten_line(decode_line(earlier)), False)
                yield FoundLine(here, shorten_line(text, start), True)
                last_shown, shown_until = here, here + after
            elif here <= shown_until:
                yield FoundLine(here, shorten_line(text), False)
                last_shown = here
        if before:
            kept.extend(lines[-before:])
        number += count


def decode_line(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.removesuffix("\r")


def shorten_line(line: str, at: int = 0) -> str:
    """The line, or of a long one the part around index `at`."""
    if len(line) > MAX_LINE_CHARS:
        start = max(0, at - MAX_LINE_CHARS // 4)
        end = start + MAX_LINE_CHARS
        line = f"{'[...] ' * bool(start)}{line[start:end]}{' [...]' * (end < len(line))}"
    return line.replace("\0", "\ufffd")


def count_steps(pattern: str) -> int:
    """The size of the compiled expression, in which a part stands as often as it occurs at least."""
    sizes = [0]  # of the pattern, and of each group that is open
    for token in TOKEN.finditer(pattern):
        if token["text"][0] == "(":
            sizes.append(0)
            continue
        size = sizes.pop() if token["text"] == ")" and len(sizes) > 1 else 1
        least = re.match(r"\{(\d+)", token["quantifier"])
        if least:
            size *= max(1, int(least[1]))
        sizes[-1] += size
    return sum(sizes)


TOKEN = LazyPattern(
    r"(?P<text>\\.|\[\^?\]?(?:\\.|[^\]\\\[])*\]|\(\?:|.)(?P<quantifier>(?:[?*+]|\{[^}]*\})*)",
    re.DOTALL,
)


def is_plain(pattern: str) -> bool:
    """Whether a text has a match, in multiline mode, if one of its lines has one.

    Such a pattern has no lookaround, no backreference, and nothing atomic or possessive.
    """
    return PLAIN.fullmatch(pattern) is not None


PLAIN = LazyPattern(
    r"""(?:(?:[^\\\[\](){}?*+|]|\(\?:|\((?!\?)|[)|]|\\[wWsSdDbt]|\\[^a-zA-Z0-9<>]   # characters, groups, escapes
        |\[\^?(?:\\[wWsSdDt]|\\[^a-zA-Z0-9]|[^\]\[\\])+\])                 # classes
        (?:(?:[?*+]|\{[0-9]+(?:,[0-9]*)?\})\??(?![?*+{]))?)*                   # how often, not possessively
    """,
    re.VERBOSE,
)
