"""Reading a journal back: the conversation, what can be undone, and what was not finished.

There are two passes. The first, in lines.py, drops what no longer counts: pieces of answers that were completed later,
and what `undo` removed. The second parses the rest, except messages that a `compaction` replaced. So the cost of
resuming depends on the conversation, not on the size of the file.

No content can stop it: a torn last line is ignored, and other lines that cannot be read are skipped and listed in
`problems`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..errors import BotError
from ..types.messages import (
    JSON,
    Message,
    RequestedCall,
    Response,
    Text,
    ToolResult,
    ToolResults,
    UserMessage,
    read_message,
)
from .journal import VERSION
from .journal_reader import Line, Lines, parsed, problem
from .todos import Todos, todos_of

MESSAGES = ("system", "user", "order", "response")

UNKNOWN = (
    "The program was stopped while this call ran, and its result was lost: it may or may not have been carried out. "
    "Look before you call it again."
)
NOT_RUN = "The program was stopped before this call began: it was not run."


class Point(NamedTuple):
    """The start of a turn or a manual compaction: its first record, and the number of messages before it."""

    number: int
    messages: int
    question: str = ""  # empty for a compaction


class Write(NamedTuple):
    """A file written by a tool: hashes of its content before and after. None means there was no file.

    `after` is "" if the program stopped before it was known.
    """

    number: int
    path: str
    before: str | None
    call: str = ""  # the id of the call that wrote it
    after: str | None = ""


class Started(NamedTuple):
    """A call that was begun."""

    number: int
    id: str
    name: str


@dataclass
class Replayed:
    meta: dict[str, JSON] = field(default_factory=dict)
    name: str = ""
    messages: list[Message] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)  # record numbers
    todos: list[Todos] = field(default_factory=list)
    partial: Response | None = None  # the last of `messages`, if its end is missing
    lost: list[ToolResult] = field(default_factory=list)  # made up for the last calls without a result
    problems: list[str] = field(default_factory=list)
    next: int = 0  # the number of the record to come
    unended: bool = False  # the last line has no line end
    torn: bool = False  # and is not whole without it


def replay(path: Path, until: int | None = None, *, whole: bool = False) -> Replayed:
    """Read the journal at `path`; with `until`, only the records before that number.

    `whole`: with all messages instead of summaries, for people.

    Raises BotError if the file is not a journal or cannot be read.
    """
    with _uncollected():
        return _replay(path, until, whole)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection, which would take a third of the time and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _replay(path: Path, until: int | None, whole: bool) -> Replayed:
    try:
        lines = Lines(path.read_bytes(), until)
    except OSError as error:
        raise BotError(f"The session {path.stem} cannot be read: {error.strerror or error}") from error
    kept = lines.kept
    if not kept or kept[0].kind != "meta":
        raise BotError(f"{path} is not the journal of a session.")
    found = Replayed(problems=lines.problems, next=lines.next, unended=lines.unended, torn=lines.torn)
    found.todos = [*todos_of(kept)]
    _build(kept if not whole else [line for line in kept if line.kind != "compaction"], found)
    return found


class _Entry:
    """A line with the lines that belong to it: becomes no message, one, or a response and its results."""

    __slots__ = ("calls", "line", "results", "value")

    def __init__(self, line: Line, value: Mapping[str, JSON] | None = None) -> None:
        self.line = line
        self.value = value  # what it holds, where it is known already
        self.results: list[Line] = []  # or the other pieces of a partial answer
        self.calls: list[Line] = []

    @property
    def size(self) -> int:
        return 2 if self.line.kind == "response" and (self.results or self.calls) else 1


class _Entries:
    """The conversation as lines. `size` counts messages, and is kept up to date because every turn needs it."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.size = 0

    @property
    def last_kind(self) -> str:
        return self.entries[-1].line.kind if self.entries else ""

    def add(self, line: Line, value: Mapping[str, JSON] | None = None) -> None:
        self.entries.append(_Entry(line, value))
        self.size += 1

    def attach(self, line: Line) -> None:
        """Add a call, a result or another piece to the last entry."""
        last = self.entries[-1]
        before = last.size
        (last.calls if line.kind == "call" else last.results).append(line)
        self.size += last.size - before

    def cut(self, messages: int) -> None:
        while self.entries and messages > 0:
            size = self.entries.pop().size
            messages -= size
            self.size -= size

    def compact(self, line: Line, keep: int) -> None:
        """Replace all but the system prompt and the last `keep` messages by the summary in `line`."""
        split = len(self.entries)
        while split and keep > 0:
            split -= 1
            keep -= self.entries[split].size
        head = [entry for entry in self.entries[:1] if entry.line.kind == "system"]
        self.entries = [*head, _Entry(line), *self.entries[max(split, len(head)) :]]
        self.size = sum(entry.size for entry in self.entries)


def _build(kept: list[Line], found: Replayed) -> None:
    so_far = _Entries()
    for line in kept:
        if line.kind in MESSAGES:
            value = None
            if line.kind == "user" and so_far.last_kind != "user":
                value = parsed(line, found.problems)
                found.points.append(Point(line.number, so_far.size, _question(value)))
            so_far.add(line, value)
        elif line.kind == "delta" and so_far.last_kind != "delta":
            so_far.add(line)
        elif line.kind in ("delta", "result", "call") and so_far.entries:
            so_far.attach(line)
            if line.kind == "call":
                _started(line, found)
        elif line.kind == "cut":
            _cut(so_far, line, found)
        elif line.kind == "compaction":
            _compact(so_far, line, found)
        else:
            _fact(line, found)
    for entry in so_far.entries:
        found.messages += _messages(entry, found, last=entry is so_far.entries[-1])


def _question(value: Mapping[str, JSON]) -> str:
    message = value.get("message")
    return str(message.get("text", "")) if isinstance(message, dict) else ""


def _cut(so_far: _Entries, line: Line, found: Replayed) -> None:
    """Remove the last messages, and the turns that began with them."""
    drop = parsed(line, found.problems).get("drop")
    so_far.cut(drop if isinstance(drop, int) else 0)
    drop_points(found.points, found.compactions, so_far.size)


def drop_points(points: list[Point], compactions: list[int], messages: int) -> None:
    """Remove the turns that began after the `messages` that are left.

    Turns before the last compaction stay, as they count messages from before it.
    """
    last = compactions[-1] if compactions else -1
    while points and points[-1].number > last and points[-1].messages >= messages:
        points.pop()


def _compact(so_far: _Entries, line: Line, found: Replayed) -> None:
    value = parsed(line, found.problems)
    keep = value.get("keep")
    if not isinstance(keep, int):
        return
    found.compactions.append(line.number)
    if value.get("by_hand"):
        found.points.append(Point(line.number, so_far.size))
    so_far.compact(line, keep)


def _fact(line: Line, found: Replayed) -> None:
    """Take in a record that is not a message."""
    value = parsed(line, found.problems)
    if line.kind == "meta":
        version = value.get("version")
        if isinstance(version, int) and version > VERSION:
            raise BotError(
                "The session was written by a newer version of the program.", "Install that version to resume it."
            )
        found.meta = value
        found.name = str(value.get("name", ""))
    elif line.kind == "rename":
        found.name = str(value.get("name", ""))
    elif line.kind == "write":
        found.writes.append(
            Write(line.number, str(value.get("path")), _hash(value.get("before")), str(value.get("call", "")))
        )
    elif line.kind == "wrote":
        path, after = str(value.get("path")), _hash(value.get("after"))
        for place in range(len(found.writes) - 1, -1, -1):  # of the last few
            if found.writes[place].after != "":
                break
            if found.writes[place].path == path:
                found.writes[place] = found.writes[place]._replace(after=after)


def _hash(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _started(line: Line, found: Replayed) -> None:
    value = parsed(line, found.problems)
    found.started.append(Started(line.number, str(value.get("id")), str(value.get("name"))))


def _messages(entry: _Entry, found: Replayed, *, last: bool) -> Iterator[Message]:
    if entry.line.kind == "delta":
        pieces = (parsed(line, found.problems).get("text", "") for line in (entry.line, *entry.results))
        text = "".join(map(str, pieces))
        partial = Response((Text(text),), "other")
        found.partial = partial if last else None
        yield partial
        return
    value = (parsed(entry.line, found.problems) if entry.value is None else entry.value).get("message")
    try:
        message = read_message(value)
    except ValueError as error:
        if value is not None:
            problem(found.problems, f"record {entry.line.number} is not a message and was skipped: {error}")
        if not last:  # so that roles still alternate
            yield UserMessage("[a message of the journal could not be read]")
        return
    yield message
    if isinstance(message, Response) and message.requested_calls:
        yield ToolResults(tuple(_results(message.requested_calls, entry, found, last=last)))


def _results(asked: Sequence[RequestedCall], entry: _Entry, found: Replayed, *, last: bool) -> Iterator[ToolResult]:
    """The result of each call, in the order of the calls; made up for calls without one."""
    known: dict[str, list[ToolResult]] = {}
    for line in entry.results:
        try:
            result = ToolResult.from_dict(parsed(line, found.problems).get("result"))
        except ValueError:
            continue
        known.setdefault(result.tool_call_id, []).append(result)
    for call in asked:
        if known.get(call.id):
            yield known[call.id].pop(0)
            continue
        started = [str(parsed(line, found.problems).get("id")) for line in entry.calls]
        lost = ToolResult(call.id, call.name or "unreadable call", "error", UNKNOWN if call.id in started else NOT_RUN)
        if last:
            found.lost.append(lost)
        yield lost
