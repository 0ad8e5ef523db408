"""Whether work grows no faster than what is given: each row is timed with a text, and with one four times as long.

    python -m tests.benchmarks.growth [NAME ...]

Times are CPU of the process, so that a busy machine changes little. Quadratic work takes 16 times as long; a row that
takes more than MAX_GROWTH times as long in every round is printed, and the exit code is 1.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import NamedTuple

from src.cli.render.blocks import BlockSplitter
from src.errors import ToolError
from src.negotiation.history.mending import mend_history
from src.negotiation.history.messages import place_late_system
from src.parsing import StreamParser
from src.security.text.redact import redact
from src.security.text.sanitize import sanitize
from src.session.replay import Replay, read_records
from src.session.state import SessionState
from src.session.streaming_redaction import StreamRedactor
from src.tools.fs.diff import make_diff
from src.tools.fs.replace import replace_text

MAX_GROWTH = 8.0  # of CPU time, where there is four times as much
FACTOR = 4
ROUNDS = 5
LEAST_S = 0.002  # less than this is not measured well: what takes so little at the larger size has passed


class Row(NamedTuple):
    """`prepare` makes the work of a size, in units that the row chooses; `size` is the smaller one."""

    name: str
    prepare: Callable[[int], Callable[[], object]]
    size: int


def feed_all(feed: Callable[[str], object], pieces: list[str]) -> None:
    for piece in pieces:
        feed(piece)


def replace_or_refuse(text: str, old: str) -> None:
    with suppress(ToolError):
        replace_text(text, old, "new")


def make_similar_line(size: int) -> tuple[str, str]:
    """So many lines, and one that is like the last of them."""
    words = random.Random(1)
    lines = ["".join(words.choices("abcdefghij ", k=160)) for _ in range(size)]
    return "\n".join(lines), lines[-1][:80] + "#####" + lines[-1][85:]


def read_journal(text: str) -> list[object]:
    return list(read_records(text.encode().splitlines(keepends=True), Replay(SessionState())))


def split_blocks(piece: str) -> Callable[[int], Callable[[], object]]:
    return lambda size: lambda: feed_all(BlockSplitter().feed, [piece] * size)


def redact_pieces(piece: str) -> Callable[[int], Callable[[], object]]:
    return lambda size: lambda: feed_all(StreamRedactor(redact).feed, [piece] * (size // len(piece)))


def repeat(work: Callable[[str], object], piece: str) -> Callable[[int], Callable[[], object]]:
    """Work on a text of `size` characters, made of pieces."""
    return lambda size: partial(work, piece * (size // len(piece)))


def diff_changed(step: int) -> Callable[[int], Callable[[], object]]:
    def prepare(size: int) -> Callable[[], object]:
        before = "".join(f"line {number}\n" for number in range(size))
        after = "".join(f"line {number}{'!' * (not number % step)}\n" for number in range(size))
        return lambda: make_diff("f", before, after)

    return prepare


def mend(kind: str) -> Callable[[int], Callable[[], object]]:
    """Of a history of so many messages: results of as many calls, or messages of one role."""

    def prepare(size: int) -> Callable[[], object]:
        if kind != "results":
            return partial(mend_history, [{"role": kind, "content": "Read it, and say what stands in it." * 8}] * size)
        function = {"name": "read", "arguments": "{}"}
        calls = [{"id": f"call-{number}", "type": "function", "function": function} for number in range(size)]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls]
        return partial(mend_history, [{"role": "assistant", "content": "", "tool_calls": calls}, *results])

    return prepare


def place_late(size: int) -> Callable[[], object]:
    late = {"role": "system", "content": "Answer in one sentence, and name the file." * 8}
    return partial(place_late_system, [{"role": "user", "content": "Hello"}, *[late] * size])


def parse_name(template: str, piece: str, piece_chars: int) -> Callable[[int], Callable[[], object]]:
    """Of a call whose name is made of pieces; each time for another tool, of which nothing is known yet."""

    def prepare(size: int) -> Callable[[], object]:
        tool = f"read{next(TOOL_NUMBERS)}"
        name = piece * (size // len(piece))
        text = template.format(name=f"{name}{tool}" if piece[-1] == "." else f"{tool}{name}")
        parser = StreamParser([{"type": "function", "function": {"name": tool}}], previews=True)
        pieces = [text[at : at + piece_chars] for at in range(0, len(text), piece_chars)]
        return lambda: (feed_all(parser.feed, pieces), parser.close())

    return prepare


TOOL_NUMBERS = count()
CALLS = (
    '<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>', '<tool_call>{{"{name}": {{}}}}</tool_call>',
    '<invoke name="{name}"></invoke>', "<function={name}></function>", "{name}()", "Action: {name}\nAction Input: {{}}\n",
)  # fmt: skip
SECRETS = (
    "eyJ", "sk-", "-----BEGIN PRIVATE KEY-----", "-", "://a:", "password=", "Bearer ", "cookie:", "a", "secret_", "ghp_",
    "token=", "token=a1", "--token ", "curl ", "login -p ", "mysql -", "<token>", "auth=", 'auth: "', "?key=", "1//0",
    "$6$", "Private-Lines: 1\n", "curl -u a:", "login a ", "hvs.", "123456789:AA",
)  # fmt: skip
CONTROLS = ("\x1b[", "\x1b]0;", "\r", "x\u202e")
JOURNAL_LINES = (
    "junk", '{"type":"response","n":2,"message":{"type":"response","content":[]}}', '{"type":"resumed","n":3}',
    '{"type":"rename","n":2}\n{"type":"undo","n":3,"to":1}', "[" * 1000,
)  # fmt: skip
STREAMED = ("x" * 8_000, "x1" * 3_900 + " ", "key" * 2_600 + " ", "-----BEGIN" * 700, "x1yz" * 20)
MARKDOWN = ("word ", "- item\n", "```\ncode\n```\n", "| a | b |\n", "> ", "x\n\n")
ROWS = [
    *(Row(f"redact {piece!r}", repeat(redact, piece), 30_000) for piece in SECRETS),
    *(Row(f"sanitize {piece!r}", repeat(sanitize, piece), 20_000) for piece in CONTROLS),
    *(Row(f"redact as it streams {piece[:12]!r}", redact_pieces(piece), 32_000) for piece in STREAMED),
    *(Row(f"blocks {piece!r}", split_blocks(piece), 4_000) for piece in MARKDOWN),
    *(
        Row(f"journal {line[:20]!r}", repeat(read_journal, f"{line}\n"), 60_000)
        for line in JOURNAL_LINES
    ),
    *(Row(f"mended history: {kind}", mend(kind), 2_000) for kind in ("results", "user", "system")),
    Row("late system messages", place_late, 4_000),
    *(
        Row(f"a name of {piece!r} in pieces of {chars}: {call[:20]!r}", parse_name(call, piece, chars), 4_000)
        for call in CALLS for piece in ("functions.", ":0", ".call") for chars in (4, 1_000_000)
    ),
    *(Row(f"diff of every {step}", diff_changed(step), 10_000) for step in (1, 3, 7)),
    Row("replace: a similar line", lambda size: partial(replace_or_refuse, *make_similar_line(size)), 500),
    Row("replace: lines", lambda size: partial(replace_or_refuse, "a\n" * size, "a\n" * (size // 10) + "b"), 50_000),
    Row("replace: anchors", lambda size: partial(replace_or_refuse, "begin\n" + "middle of it\nend\nbegin\n" * size,
                                                 "begin\n" + "xyz\n" * 300 + "end\n"), 5_000),
    Row("replace: blanks", lambda size: partial(replace_or_refuse, " \n" * size, "\n" * (size // 2) + "x"), 200_000),
]  # fmt: skip


def measure(row: Row, size: int) -> float:
    """CPU seconds."""
    work = row.prepare(size)
    began = time.process_time()
    work()
    return time.process_time() - began


def find_growth(row: Row) -> str:
    """What the row took, where that grew too fast in every round; else ""."""
    small = large = float("inf")
    for _ in range(ROUNDS):
        small, large = min(small, measure(row, row.size)), min(large, measure(row, row.size * FACTOR))
        if large <= max(LEAST_S, MAX_GROWTH * small):
            return ""
    return f"{row.name}: {small * 1e3:.1f} ms, and with {FACTOR} times as much {large * 1e3:.1f} ms"


def main(names: list[str]) -> int:
    rows = [row for row in ROWS if not names or any(name in row.name for name in names)]
    found = [growth for row in rows if (growth := find_growth(row))]
    print("\n".join([*found, f"{len(found)} of {len(rows)} rows grow faster than what they are given"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
