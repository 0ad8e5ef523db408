"""Which lines of a file match a pattern, with those around them. It streams, and its time is bounded.

A file is gone through in blocks of whole lines. A block that holds none of the words that a match must hold
is passed over whole, so that a gigabyte without any takes a second; so is one in which the pattern, if it is
plain enough for that, is not found in one search. A line is taken for UTF-8 and, where it
is none, for Latin-1; of one that is longer than a block only the begin is looked at.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ...errors import ToolError
from ..sdk.context import ToolContext

if TYPE_CHECKING:
    import regex

BLOCK = 1 << 20  # bytes
LONGEST_PATTERN = 2_000  # characters
BLOCK_SECONDS = 0.2  # that a pattern may take on a block
SECONDS = 10.0  # that a pattern may take in all, beyond reading
LEAST = 2  # characters of a word worth looking for
FOLDED = re.compile("[iksIKS]")  # have a third case outside ASCII: İ, K (Kelvin), ſ
WIDTH = 500  # characters shown of a line
RG_TIMEOUT_S = 20.0
RG_FLAGS = ("--no-config", "--no-messages", "--files-with-matches", "--null", "--text", "--fixed-strings")
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


def find_rg(ctx: ToolContext) -> str:
    """Its path, or "". One that lies in the workspace is not the user's, and is not run."""
    from shutil import which

    found = os.path.realpath(which("rg", path=ctx.environment.get("PATH", "")) or "/")
    return "" if found == "/" or Path(found).is_relative_to(os.path.realpath(ctx.workspace)) else found


def holding(
    rg: str, literals: Sequence[str], files: Sequence[str], workspace: Path, *, ignore_case: bool
) -> set[str] | None:
    """Those of the files that hold one of the words; None where it cannot be told."""
    import subprocess

    patterns = [argument for word in literals for argument in ("-e", word)]
    case = ["--ignore-case"] if ignore_case else ["--case-sensitive"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own rg, with words and paths as they are
            [rg, *RG_FLAGS, *case, *patterns, "--", *(f"./{file}" for file in files)],
            cwd=workspace,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=RG_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in (0, 1):
        return None
    return {os.fsdecode(name).removeprefix("./") for name in done.stdout.split(b"\0") if name}


def words(pattern: str, *, ignore_case: bool) -> tuple[str, ...]:
    """ASCII words, one of which is in every line that the expression matches; none where it cannot be told.

    Looks at the alternatives of the outermost level, and in each at what stands outside groups and classes.
    """
    if DOUBTFUL.search(pattern):
        return ()
    found: list[str] = []
    for runs in _alternatives(pattern):
        pieces = [piece for run in runs for piece in (FOLDED.split(run) if ignore_case else [run])]
        longest = max(pieces, key=len, default="")
        if len(longest) < LEAST:
            return ()
        found.append(longest)
    return tuple(dict.fromkeys(found))


def _alternatives(pattern: str) -> Iterator[list[str]]:
    """Of each alternative the runs of characters that stand for themselves."""
    runs, depth = [""], 0
    for token in TOKEN.finditer(pattern):
        text, required = token["text"], not token["quantifier"]
        depth += (text[0] == "(") - (text == ")")
        plain = text[-1] if text[0] == "\\" and not text[-1].isalnum() else text
        if depth == 0 and text == "|":
            yield runs
            runs = [""]
        elif depth == 0 and required and len(plain) == 1 and (plain != text or plain not in META) and plain in ASCII:
            runs[-1] += plain
        else:
            runs.append("")
    yield runs


META = frozenset("^$.|()[]?*+{}\\")
ASCII = frozenset(map(chr, range(0x20, 0x7F)))
TOKEN = re.compile(
    r"(?P<text>\\.|\[\^?\]?(?:\\.|[^\]\\\[])*\]|\(\?:|.)(?P<quantifier>(?:[?*+]|\{[^}]*\})*)",
    re.DOTALL,
)
# Groups with flags, names or a look around, nested classes, and escapes that go on: not followed here.
DOUBTFUL = re.compile(r"\(\?(?!:)|\[[^\]]*\[|\[\^?\]|\\[xuUNpPLgkGQ0-9<>]")


def is_plain(pattern: str) -> bool:
    """Whether a line that matches makes any text match that it is a line of, `^` and `$` being those of lines.

    So it is without what looks beyond a match, or keeps what it took.
    """
    return PLAIN.fullmatch(pattern) is not None


PLAIN = re.compile(
    r"""(?:(?:[^\\\[\](){}?*+|]|\(\?:|\((?!\?)|[)|]|\\[wWsSdDbt]|\\[^a-zA-Z0-9<>]   # characters, groups, escapes
        |\[\^?(?:\\[wWsSdDt]|\\[^a-zA-Z0-9]|[^\]\[\\])+\])                 # classes
        (?:(?:[?*+]|\{[0-9]+(?:,[0-9]*)?\})\??(?![?*+{]))?)*                   # how often, not possessively
    """,
    re.VERBOSE,
)
