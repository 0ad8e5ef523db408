"""The state of a session: a fold over the records of its journal. No I/O.

`SessionState.apply` is the only code that changes the state. A session applies each record that it has written, and
replay applies those that it reads, so a resumed session has the state that the live one had.

`entries` lists all messages by record number. A compaction hides the entries before its `first`; `cut` and `undo`
remove entries from the end, so `undo` shows again what a compaction hid. A record costs amortized constant time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..types.file_names import FileState
from ..types.messages import JSON, Response
from ..types.process import StartedProcess
from .journal import Record

TODO_WRITE = "todo_write"  # the tool whose last successful call is the list of things to do
NOT_KNOWN = FileState(0, "?")
UNDONE_ROWS = ("entries", "compactions", "points", "writes", "started", "todos", "watched")
TODO_NAMES = (TODO_WRITE, "write_todos")  # under which it is called


class MessageEntry(Struct):
    """A record that is a message, or a piece of an answer. `size` is the number of messages it stands for.

    A response with calls stands for two: the other holds the results. `records` are the record itself and those that
    belong to it (calls and results, or more pieces); only replay needs them.
    """

    kind: str
    number: int
    size: int = 1
    records: list[Record] = []


class Compaction(Struct, frozen=True):
    """A summary that hides all entries before index `first` but the system prompt."""

    number: int
    first: int
    summary: MessageEntry


class Point(Struct, frozen=True):
    """What one undo goes back to: the first record of a turn, or a manual compaction, which has no question."""

    number: int
    question: str | None


class Write(Struct, frozen=True):
    """A file written by a tool, as it was before and after; None means there was no file.

    `after` is NOT_KNOWN if the program stopped before it was known. `call` is the id of the call that wrote the file.
    """

    number: int
    path: str
    before: FileState | None
    call: str = ""
    after: FileState | None = NOT_KNOWN


class WatchedCall(Struct, frozen=True):
    """A call whose changes to files are among the writes; `is_complete`: all of them."""

    number: int
    id: str
    is_complete: bool


class UndoneTurn(Struct, frozen=True):
    """What an undo removed, by the name of its list; `number` is that of the undo's record."""

    number: int
    rows: Mapping[str, Sequence[Any]]

    @property
    def writes(self) -> Sequence[Write]:
        return self.rows["writes"]


class StartedCall(Struct, frozen=True):
    """`arguments`: those it ran with, where they are not those of the answer."""

    number: int
    id: str
    name: str
    arguments: dict[str, JSON] | None = None


class Todos(Struct, frozen=True):
    """The number of a result, and the arguments of its call."""

    number: int
    arguments: Mapping[str, JSON]


Row = TypeVar("Row", Compaction, Write, WatchedCall, StartedCall)


def list_since(rows: Sequence[Row], number: int) -> list[Row]:
    """The rows of the record with this number, and of those after it."""
    return [row for row in rows if row.number >= number]


class SessionState(Struct):
    """`keep_records`: keep the records of messages, so that replay can read the messages from them."""

    meta: dict[str, JSON] = {}
    name: str = ""
    next: int = 0  # the number of the next record
    entries: list[MessageEntry] = []
    compactions: list[Compaction] = []
    points: list[Point] = []
    writes: list[Write] = []
    processes: list[StartedProcess] = []  # of the last answer's calls, and in the background
    open_writes: list[int] = []  # indexes of the writes of the running call
    started: list[StartedCall] = []
    running: str = ""  # the id of the call that started last
    todos: list[Todos] = []
    watched: list[WatchedCall] = []
    undone: list[UndoneTurn] = []  # that can be done again, the last one last
    keep_records: bool = False
    _response: Record | None = None  # the last one
    _todo_calls: dict[str, Mapping[str, JSON]] | None = None  # in it, by id

    @property
    def visible(self) -> Sequence[MessageEntry]:
        """The entries of the conversation as the model sees it."""
        if not self.compactions:
            return self.entries
        last = self.compactions[-1]
        return [*self.entries[: self._head], last.summary, *self.entries[last.first :]]

    @property
    def size(self) -> int:
        """The number of messages of the conversation."""
        return sum(entry.size for entry in self.visible)

    @property
    def turns(self) -> int:
        return sum(point.question is not None for point in self.points)

    @property
    def last_question(self) -> str:
        return next((point.question for point in reversed(self.points) if point.question), "")

    @property
    def last_todos(self) -> Mapping[str, JSON] | None:
        """The arguments of the last todo_write that succeeded; None if there was none."""
        return self.todos[-1].arguments if self.todos else None

    def list_writes(self, turn: int) -> Sequence[Write]:
        """Those of the last turn, if it is 1, or of the one so many before; empty if there is none."""
        points = [point.number for point in self.points if point.question is not None]
        if not 0 < turn <= len(points):
            return ()
        begin, end = [*points, self.next][-turn - 1 :][:2]
        return [write for write in self.writes if begin <= write.number < end]

    def apply(self, record: Record) -> None:
        """Change the state as the record says. Records of unknown kinds, or with impossible fields, change nothing."""
        self.next = max(self.next, record.number + 1)
        if record.kind in ("user", "compaction"):
            self.undone = []
        if change := _CHANGES.get(record.kind):
            change(self, record)

    def drop_records(self) -> None:
        """Free the memory of the messages' records."""
        self.keep_records = False
        undone = [entry for turn in self.undone for entry in turn.rows["entries"]]
        for entry in (*self.entries, *undone, *(each.summary for each in self.compactions)):
            entry.records = []

    @property
    def _head(self) -> int:
        """How many entries no compaction hides: the system prompt, if there is one."""
        return int(bool(self.entries) and self.entries[0].kind == "system")

    @property
    def _first(self) -> int:
        """The index of the first entry that a compaction may hide, or a cut remove."""
        return self.compactions[-1].first if self.compactions else self._head

    @property
    def _last_kind(self) -> str:
        return self.entries[-1].kind if len(self.entries) > self._first else ""

    def _entry(self, record: Record) -> MessageEntry:
        return MessageEntry(record.kind, record.number, records=[record] if self.keep_records else [])

    def _add_message(self, record: Record) -> None:
        if record.kind == "user" and self._last_kind != "user":
            message = record.fields.get("message")
            question = (message.get("typed") or message.get("text", "")) if isinstance(message, dict) else ""
            self.points.append(Point(record.number, str(question)))
        elif record.kind == "response":
            self._response, self._todo_calls = record, None
            self.processes = [each for each in self.processes if each.job]
            if self._last_kind == "delta":  # the pieces of this answer
                self.entries.pop()
        self.entries.append(self._entry(record))

    def _add_delta(self, record: Record) -> None:
        if self._last_kind == "delta":
            self._attach(record)
        else:
            self.entries.append(self._entry(record))

    def _start_call(self, record: Record) -> None:
        self._attach(record)
        self.running = str(record.fields.get("id"))
        changed = record.fields.get("arguments")
        arguments = changed if isinstance(changed, dict) else None
        self.started.append(StartedCall(record.number, self.running, str(record.fields.get("name")), arguments))

    def _track_process(self, record: Record) -> None:
        """Add a process that was started, or remove one that has ended."""
        pid, start, command, job = (record.fields.get(name) for name in StartedProcess.__struct_fields__)
        if not isinstance(pid, int):
            return
        process = StartedProcess(pid, str(start), str(command), job if isinstance(job, int) else 0)
        if record.kind == "process":
            self.processes.append(process)
        else:
            self.processes = [each for each in self.processes if each != process]

    def _attach(self, record: Record) -> None:
        """Add a call, a result or another piece to the last entry."""
        if not self.entries:
            return
        last = self.entries[-1]
        if last.kind == "response":
            last.size = 2
        if self.keep_records:
            last.records.append(record)

    def _end_call(self, record: Record) -> None:
        self._attach(record)
        if not any(map(record.may_name, TODO_NAMES)):
            return
        result = record.fields.get("result")
        if isinstance(result, dict) and result.get("name") in TODO_NAMES and result.get("kind") != "error":
            if self._todo_calls is None:
                self._todo_calls = _find_todo_calls(self._response)
            if arguments := self._todo_calls.get(str(result.get("tool_call_id"))):
                self.todos.append(Todos(record.number, arguments))

    def _set_meta(self, record: Record) -> None:
        self.meta = dict(record.fields)
        self.name = str(self.meta.get("name", ""))

    def _rename(self, record: Record) -> None:
        self.name = str(record.fields.get("name", ""))

    def _set_todos(self, record: Record) -> None:
        arguments = record.fields.get("arguments")
        if isinstance(arguments, dict):
            self.todos.append(Todos(record.number, arguments))

    def _begin_write(self, record: Record) -> None:
        path, call = str(record.fields.get("path")), str(record.fields.get("call", ""))
        self.open_writes.append(len(self.writes))
        self.writes.append(Write(record.number, path, _read_digest(record.fields.get("before")), call))

    def _end_write(self, record: Record) -> None:
        path = str(record.fields.get("path"))
        place = next((each for each in self.open_writes if self.writes[each].path == path), None)
        if place is not None:
            self.open_writes.remove(place)
            self.writes[place] = replace(self.writes[place], after=_read_digest(record.fields.get("after")))

    def _add_changes(self, record: Record) -> None:
        call, files = str(record.fields.get("call", "")), record.fields.get("files")
        self.watched.append(WatchedCall(record.number, call, record.fields.get("complete") is True))
        if not isinstance(files, list):
            return
        for each in files:
            if isinstance(each, list) and len(each) == 3 and isinstance(each[0], str):
                self.writes.append(Write(record.number, each[0], _read_state(each[1]), call, _read_state(each[2])))

    def _compact(self, record: Record) -> None:
        keep = record.fields.get("keep")
        if not isinstance(keep, int):
            return
        first = len(self.entries)
        while first > self._first and keep > 0:
            first -= 1
            keep -= self.entries[first].size
        if record.fields.get("by_hand"):
            self.points.append(Point(record.number, None))
        self.compactions.append(Compaction(record.number, first, self._entry(record)))

    def _cut(self, record: Record) -> None:
        """Remove the last messages, and the turns that began with them.

        Turns before the last compaction stay, as they began with hidden messages.
        """
        left = record.fields.get("drop")
        if not isinstance(left, int):
            return
        oldest = self.compactions[-1].number if self.compactions else 0
        while left > 0 and len(self.entries) > self._first:
            removed = self.entries.pop()
            left -= removed.size
            while self.points and self.points[-1].number >= max(removed.number, oldest + 1):
                self.points.pop()

    def _undo(self, record: Record) -> None:
        """Remove what came from the records with number `to` and higher."""
        to = record.fields.get("to")
        if not isinstance(to, int) or to <= 0:
            return
        undone: dict[str, Sequence[Any]] = {}
        for name in UNDONE_ROWS:
            rows: list[Any] = getattr(self, name)
            kept = next((at for at in range(len(rows), 0, -1) if rows[at - 1].number < to), 0)
            undone[name] = rows[kept:]
            del rows[kept:]
        self.undone.append(UndoneTurn(record.number, undone))
        self.open_writes = []

    def _redo(self, record: Record) -> None:
        """Bring back what the undo with the record number `undo` removed, if that was the last one."""
        if self.undone and self.undone[-1].number == record.fields.get("undo"):
            for name, rows in self.undone.pop().rows.items():
                getattr(self, name).extend(rows)

    def _end_run(self, _: Record) -> None:
        """The program stopped: what is written later is not the work of the call that ran then."""
        self.open_writes = []
        self.processes = [each for each in self.processes if not each.job]


_CHANGES: Mapping[str, Callable[[SessionState, Record], None]] = {
    **dict.fromkeys(("system", "user", "order", "response"), SessionState._add_message),
    "delta": SessionState._add_delta,
    "call": SessionState._start_call,
    **dict.fromkeys(("process", "process_end"), SessionState._track_process),
    "result": SessionState._end_call,
    "meta": SessionState._set_meta,
    "rename": SessionState._rename,
    "todos": SessionState._set_todos,
    "write": SessionState._begin_write,
    "wrote": SessionState._end_write,
    "compaction": SessionState._compact,
    "cut": SessionState._cut,
    "undo": SessionState._undo,
    "redo": SessionState._redo,
    "changes": SessionState._add_changes,
    "resumed": SessionState._end_run,
}


def _find_todo_calls(response: Record | None) -> dict[str, Mapping[str, JSON]]:
    """The arguments of the response's calls of the tool, by id; of calls that share an id, the first."""
    if response is None:
        return {}
    try:
        calls = Response.from_dict(response.fields.get("message")).calls
    except ValueError:
        return {}
    return {call.id: call.arguments for call in reversed(calls) if call.name in TODO_NAMES}


def _read_digest(value: JSON) -> FileState | None:
    return FileState(0, value or "?") if isinstance(value, str) else None


def _read_state(value: JSON) -> FileState | None:
    """Of a mode and a digest."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    mode, digest = value
    return FileState(mode, digest) if isinstance(mode, int) and isinstance(digest, str) else NOT_KNOWN
