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
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ..errors import BotError
from ..types.call_results import NOT_RUN, UNKNOWN, make_error, pair_results
from ..types.file_names import escape_name
from ..types.messages import (
    ENVIRONMENT_PREFIX,
    JSON,
    Message,
    Response,
    SystemMessage,
    Text,
    ToolResult,
    ToolResults,
    UserMessage,
    read_message,
)
from ..types.process import FindLiving, StartedProcess
from .journal import VERSION, Record, add_problem, open_regular
from .state import MessageEntry, SessionState

_HEAD = re.compile(rb'\{"type":"([a-z_]+)","n":(\d{1,15})[,}]')
_DELTA, _RESPONSE, _RESUMED, _TORN = b'{"type":"delta",', b'{"type":"response",', b'{"type":"resumed",', b'"torn":true'
MAX_PARTIAL_BYTES = 8_000_000  # lines with pieces of one answer


class JournalError(BotError):
    """A journal that cannot be resumed: why in a few words, and what it says of itself, if that can be read."""

    def __init__(self, path: Path, problem: str, hint: str = "", meta: Mapping[str, JSON] | None = None) -> None:
        super().__init__(f"{path} {problem}.", hint)
        self.problem = problem
        self.meta = meta or {}


class Replay(Struct):
    """`partial` is the last message if its end is missing; `lost` the results made up for the last calls."""

    state: SessionState
    messages: list[Message] = []
    partial: Response | None = None
    lost: list[ToolResult] = []
    problems: list[str] = []
    unended: bool = False  # the last line has no line end
    torn: bool = False  # and is not complete


def replay(path: Path, until: int | None = None, *, whole: bool = False, max_bytes: int | None = None) -> Replay:
    """Read the journal at `path`; with `until`, only the records before that number.

    `whole`: with all messages instead of summaries, for people. `max_bytes`: only the lines in so many first bytes.

    Raises JournalError if the file is not a journal or cannot be read.
    """
    replayed = Replay(SessionState(keep_records=True))
    with _without_collection():
        try:
            _apply_records(path, replayed, until, max_bytes)
        except OSError as error:
            raise JournalError(path, f"cannot be read: {error.strerror or error}") from error
        if not replayed.state.next:
            raise JournalError(path, "is not the journal of a session")
        meta = replayed.state.meta
        version = meta.get("version")
        if isinstance(version, int) and version > VERSION:
            problem = "was written by a newer version of the program"
            raise JournalError(path, problem, "Install that version to resume it.", meta)
        entries = replayed.state.entries if whole else replayed.state.visible
        for entry in entries:
            replayed.messages += _build_messages(entry, replayed, last=entry is entries[-1])
        replayed.state.drop_records()
    return replayed


def _apply_records(path: Path, replayed: Replay, until: int | None, max_bytes: int | None) -> None:
    """Raises OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        for record in read_records(file if max_bytes is None else _limit_size(file, max_bytes), replayed):
            if until is not None and record.number >= until:
                continue
            if not replayed.state.next and record.kind != "meta":
                break
            replayed.state.apply(record)


def read_records(lines: Iterable[bytes], replayed: Replay) -> Iterator[Record]:
    """The records of the lines, without torn lines and the pieces of answers that a response follows.

    Of the pieces of one answer, at most MAX_PARTIAL_BYTES are read. Sets `unended` and `torn`, and adds to `problems`.
    """
    pieces: list[tuple[int, bytes]] = []  # of an answer, each with the number of its line
    size = 0  # bytes of its pieces
    cut_at = 0  # the line of its first piece that is not read
    last: tuple[int, bytes] | None = None  # the line before, and after the pieces
    line = b"\n"
    for place, line in enumerate(lines, 1):
        is_piece = line.startswith(_DELTA)
        torn = not is_piece and line.startswith(_RESUMED) and _TORN in line
        if last or torn:
            yield from _settle(pieces, cut_at, last, replayed, torn=torn)
            pieces, size, cut_at, last = [], 0, 0, None
        if not is_piece:
            last = place, line
            continue
        size += len(line)
        if size <= MAX_PARTIAL_BYTES:
            pieces.append((place, line))
        else:
            cut_at = cut_at or place
    replayed.unended = not line.endswith(b"\n")
    replayed.torn = replayed.unended and not _is_object(line)
    yield from _settle(pieces, cut_at, last, replayed, torn=replayed.torn)


def _settle(
    pieces: list[tuple[int, bytes]], cut_at: int, last: tuple[int, bytes] | None, replayed: Replay, *, torn: bool
) -> Iterator[Record]:
    """The records of pieces and the line after them. `torn`: the last of these lines is torn."""
    lines = [*pieces, last] if last else pieces
    if torn and (last or not cut_at):  # else the torn piece is among those that are not read
        lines = lines[:-1]
    elif last and last[1].startswith(_RESPONSE):  # it holds all of the pieces
        lines, cut_at = [last], 0
    for place, line in lines:
        line = line.removesuffix(b"\n")
        if head := _HEAD.match(line):
            yield Record(head[1].decode(), int(head[2]), line=line, problems=replayed.problems)
        elif line:
            add_problem(replayed.problems, f"line {place} could not be read and was skipped")
    if cut_at:
        reason = f"an answer that did not end has more than {MAX_PARTIAL_BYTES:,} bytes"
        add_problem(replayed.problems, f"{reason} and was cut at line {cut_at}")


def _limit_size(lines: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    for line in lines:
        max_bytes -= len(line)
        if max_bytes < 0:
            return
        yield line


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


def _build_messages(entry: MessageEntry, replayed: Replay, *, last: bool) -> Iterator[Message]:
    """The messages that an entry stands for: none, one, or a response and its results."""
    if entry.kind == "delta":
        partial = Response((Text("".join(str(each.fields.get("text", "")) for each in entry.records)),), "other")
        if last:
            replayed.partial = partial
        yield partial
        return
    value = entry.records[0].fields.get("message")
    try:
        message = read_message(value)
    except ValueError as error:
        if value is not None:
            add_problem(replayed.problems, f"record {entry.number} is not a message and was skipped: {error}")
        if not last:  # so that roles still alternate
            yield UserMessage("[a message of the journal could not be read]")
        return
    yield message
    if isinstance(message, Response) and message.requested_calls:
        yield ToolResults(tuple(_build_results(message, entry.records[1:], replayed, last=last)))


def _build_results(response: Response, records: list[Record], replayed: Replay, *, last: bool) -> Iterator[ToolResult]:
    """The result of each call, in the order of the calls; made up for calls without one."""
    started: set[str] = set()
    results: list[ToolResult] = []
    for record in records:
        if record.kind == "call":
            started.add(str(record.fields.get("id")))
        elif record.kind == "result":
            with suppress(ValueError):
                results.append(ToolResult.from_dict(record.fields.get("result")))
    calls = response.requested_calls
    for call, result in zip(calls, pair_results(calls, results), strict=True):
        if result:
            yield result
            continue
        lost = make_error(call, UNKNOWN if call.id in started else NOT_RUN)
        if last:
            replayed.lost.append(lost)
        yield lost


def replace_system(system: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    """The messages with this system prompt instead of their own, unless the two differ only in the environment.

    A server's cache of the prompt holds for the same bytes only, so a date of yesterday stays.
    """
    if not messages or not isinstance(messages[0], SystemMessage):
        return [*system, *messages]
    saved, *rest = messages
    if [_drop_environment(each) for each in system] == [_drop_environment(saved)]:
        system = [saved]
    return [*system, *rest]


def _drop_environment(message: Message) -> list[str]:
    """The paragraphs of a system prompt but the one about the environment."""
    if not isinstance(message, SystemMessage):
        return []
    return [each for each in message.text.split("\n\n") if not each.startswith(ENVIRONMENT_PREFIX)]


def describe_processes(processes: Iterable[StartedProcess], find_living: FindLiving) -> tuple[list[str], list[str]]:
    """Of the processes that ran when the program stopped: notes for the model, and notices for the user."""
    processes = list(processes)
    notes, notices = list[str](), list[str]()
    if jobs := ", ".join(each.command for each in processes if each.job):
        notes.append(f"[these background commands ended with the program: {jobs}]")
        notices.append(f"Commands in the background ended with the program: {escape_name(jobs)}.")
    for process, pids in find_living(processes).items():
        numbers = " ".join(map(str, pids))
        notices.append(f"Still running from before: {escape_name(process.command)} (`kill {numbers}` ends it).")
    return notes, notices
