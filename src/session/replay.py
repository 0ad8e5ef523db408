"""Reads a journal: the state of the session, its messages, and the steps that were not finished.

The records are folded in the order of the file; most of them are not parsed. Pieces of answers that were completed
later, which are most of a journal, are skipped many at a time; of the other records those are parsed that the state
needs, and at the end those of the messages. So the cost depends on the conversation more than on the file's size.

No content stops it: a torn last line is ignored, and other lines that cannot be read are skipped and listed in
`problems`.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import BotError
from ..types.messages import Message, Response, Text, ToolResult, ToolResults, UserMessage, read_message
from .journal import MAX_PROBLEMS, VERSION, Record, add_problem
from .state import MessageEntry, SessionState

UNKNOWN = (
    "The program was stopped while this call ran, and its result was lost: it may or may not have been carried out. "
    "Look before you call it again."
)
NOT_RUN = "The program was stopped before this call began: it was not run."

_HEAD = re.compile(rb'\{"type":"([a-z_]+)","n":(\d{1,15})[,}]')
_RESPONSE, _RESUMED, _TORN = b'{"type":"response",', b'{"type":"resumed",', b'"torn":true'
_LINE_END = re.compile(rb'\n(?!\{"type":"delta",)')  # where the next line is not a piece of an answer


@dataclass
class Replay:
    """`partial` is the last message if its end is missing; `lost` the results made up for the last calls."""

    state: SessionState
    messages: list[Message] = field(default_factory=list)
    partial: Response | None = None
    lost: list[ToolResult] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unended: bool = False  # the last line has no line end
    torn: bool = False  # and is not complete


def replay(path: Path, until: int | None = None, *, whole: bool = False) -> Replay:
    """Read the journal at `path`; with `until`, only the records before that number.

    `whole`: with all messages instead of summaries, for people.

    Raises BotError if the file is not a journal or cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BotError(f"The session {path.stem} cannot be read: {error.strerror or error}") from error
    last = data[data.rfind(b"\n") + 1 :]
    torn = bool(last) and not _is_object(last)
    found = Replay(SessionState(keep_records=True), unended=bool(last), torn=torn)
    with _without_collection():
        for record in read_records(data, len(data) - len(last) * torn, found.problems):
            if until is not None and record.number >= until:
                continue
            if not found.state.next and record.kind != "meta":
                break
            found.state.apply(record)
        if not found.state.next:
            raise BotError(f"{path} is not the journal of a session.")
        version = found.state.meta.get("version")
        if isinstance(version, int) and version > VERSION:
            raise BotError(
                "The session was written by a newer version of the program.", "Install that version to resume it."
            )
        entries = found.state.entries if whole else found.state.visible
        for entry in entries:
            found.messages += _build_messages(entry, found, last=entry is entries[-1])
        found.state.drop_records()
    return found


def read_records(data: bytes, end: int, problems: list[str]) -> Iterator[Record]:
    """The records in the first `end` bytes, without torn lines and the pieces of answers that a response follows."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(data, 0, end))]
    torn = {data.rfind(b"\n", 0, start - 1) + 1 for start in starts if _follows_torn(data, start, end)}
    read = 0
    for start in [*(start for start in starts if start < end and start not in torn), end]:
        pieces_end = read if data.startswith(_RESPONSE, start, end) else start
        while read < pieces_end:
            line_end = _find_line_end(data, read, end)
            if read not in torn:
                yield from _read_line(data, read, line_end, problems)
            read = line_end + 1
        line_end = _find_line_end(data, start, end)
        yield from _read_line(data, start, line_end, problems)
        read = line_end + 1


def _follows_torn(data: bytes, start: int, end: int) -> bool:
    """Whether the session was resumed here, and the line before was torn then."""
    return data.startswith(_RESUMED, start, end) and data.find(_TORN, start, _find_line_end(data, start, end)) >= 0


def _find_line_end(data: bytes, start: int, end: int) -> int:
    found = data.find(b"\n", start, end)
    return found if found >= 0 else end


def _read_line(data: bytes, start: int, end: int, problems: list[str]) -> Iterator[Record]:
    head = _HEAD.match(data, start, end)
    if head:
        yield Record(head[1].decode(), int(head[2]), line=data[start:end], problems=problems)
    elif start < end and len(problems) < MAX_PROBLEMS:  # counting takes time
        place = data.count(b"\n", 0, start) + 1
        add_problem(problems, f"line {place} could not be read and was skipped")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


@contextmanager
def _without_collection() -> Iterator[None]:
    """Without garbage collection, which would take a third of the time and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _build_messages(entry: MessageEntry, found: Replay, *, last: bool) -> Iterator[Message]:
    """The messages that an entry stands for: none, one, or a response and its results."""
    if entry.kind == "delta":
        partial = Response((Text("".join(str(each.fields.get("text", "")) for each in entry.records)),), "other")
        found.partial = partial if last else None
        yield partial
        return
    value = entry.records[0].fields.get("message")
    try:
        message = read_message(value)
    except ValueError as error:
        if value is not None:
            add_problem(found.problems, f"record {entry.number} is not a message and was skipped: {error}")
        if not last:  # so that roles still alternate
            yield UserMessage("[a message of the journal could not be read]")
        return
    yield message
    if isinstance(message, Response) and message.requested_calls:
        yield ToolResults(tuple(_build_results(message, entry.records[1:], found, last=last)))


def _build_results(response: Response, records: list[Record], found: Replay, *, last: bool) -> Iterator[ToolResult]:
    """The result of each call, in the order of the calls; made up for calls without one."""
    started: set[str] = set()
    known: dict[str, list[ToolResult]] = {}
    for record in reversed(records):
        if record.kind == "call":
            started.add(str(record.fields.get("id")))
        elif record.kind == "result":
            with suppress(ValueError):
                result = ToolResult.from_dict(record.fields.get("result"))
                known.setdefault(result.tool_call_id, []).append(result)
    for call in response.requested_calls:
        if known.get(call.id):
            yield known[call.id].pop()
            continue
        lost = ToolResult(call.id, call.name or "unreadable call", "error", UNKNOWN if call.id in started else NOT_RUN)
        if last:
            found.lost.append(lost)
        yield lost
