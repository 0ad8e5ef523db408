"""A saved conversation: everything said and done is written to its journal before the next step.

`follow` passes on the agent's events and records each one first; the agent does not know about it. Without a
journal, or if it cannot be written, the conversation exists only in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import BotError
from ..types.events import CallFinished, CallStarted, Compacted, Completed, Event, Notice, TextDelta
from ..types.messages import JSON, Message, Response, SystemMessage, ToolCall, ToolResult, ToolResults, UserMessage
from .journal import VERSION, Journal, Redact
from .replay import Point, Started, Write, drop_points, replay
from .snapshots import Blobs, Put, Restored, digest_of
from .streaming_redaction import Pieces
from .todos import TODO_WRITE, Todos

UNKEPT = "This conversation is no longer saved and cannot be resumed later: {why}"


class Undone(NamedTuple):
    """What was undone. `calls` had begun and wrote no file; their effects are not undone."""

    question: str  # empty if a compaction was undone
    restored: Restored
    calls: list[ToolCall]


class Session:
    """`messages` is the conversation, which the agent appends to; `root` the folder that paths are relative to.

    `meta` goes into the first record: workspace, model, server, created (seconds since 1970).
    """

    def __init__(
        self,
        messages: Sequence[Message],
        root: Path,
        journal: Journal | None = None,
        meta: Mapping[str, JSON] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.messages = list(messages)
        self.name = ""
        self.meta = dict(meta or {})
        self._root = root
        self._now = now
        self._journal = journal
        self._blobs = Blobs(journal.path.with_suffix(".files"), now) if journal else None
        self._pieces = Pieces(journal.redact if journal else str)
        self._kept = 0  # number of messages in the journal
        self._results: list[ToolResult] = []  # of the last answer, already in the journal
        self._points: list[Point] = []
        self._writes: list[Write] = []
        self._unfinished: list[int] = []  # indexes of writes whose call has not ended
        self._started: list[Started] = []
        self._compactions: list[int] = []  # record numbers
        self._todos: list[Todos] = []
        self._last_kind = ""
        self._running = ""  # id of the call that began last
        self._in_turn = False
        self._told = False
        self._number = 0  # of the last record, without a journal

    @classmethod
    def resumed(
        cls, path: Path, system: Sequence[Message], root: Path, redact: Redact = str
    ) -> tuple[Session, list[str]]:
        """The session of a journal, with the current system prompt, and notices for the user.

        Raises BotError if it cannot be read, or is open elsewhere.
        """
        journal = Journal(path, redact, old=True)
        try:
            found = replay(path)
        except BaseException:
            journal.close()
            raise
        journal.go_on(found.next, unended=found.unended)
        session = cls(_with_system(system, found.messages), root, journal, found.meta)
        shift = len(session.messages) - len(found.messages)
        session.name = found.name
        session._kept = len(session.messages)
        session._points = [point._replace(messages=point.messages + shift) for point in found.points]
        session._writes, session._started, session._compactions = found.writes, found.started, found.compactions
        session._todos = found.todos
        journal.write("resumed", {"torn": True} if found.torn else {})
        if found.partial:
            session._record("response", {"message": found.partial.to_dict()})
        for lost in found.lost:
            session._record("result", {"result": lost.to_dict()})
        journal.sync()
        notices = [f"The journal of this session is damaged: {problem}." for problem in found.problems]
        if found.lost:
            names = ", ".join(result.name for result in found.lost)
            notices.append(f"The program stopped before these calls finished: {names}. They will not be run again.")
        there = str(found.meta.get("workspace", root))
        if there != str(root):
            notices.append(f"This conversation took place in {there}; the tools now work in {root}.")
        return session, notices

    @classmethod
    def copied(cls, path: Path, system: Sequence[Message], root: Path, journal: Journal) -> Session:
        """A copy of the session of a journal, which stays as it is. Raises BotError."""
        found = replay(path)
        copy = cls(_with_system(system, found.messages), root, journal, {**found.meta, "forked_from": path.stem})
        copy._keep_messages()
        copy._todos = found.todos[-1:]
        return copy

    @property
    def id(self) -> str:
        return self._journal.path.stem if self._journal else ""

    @property
    def path(self) -> Path | None:
        """The journal's path; None if nothing is saved."""
        return self._journal.path if self._journal and not self._journal.broken else None

    @property
    def turns(self) -> int:
        """How many turns can be undone."""
        return sum(bool(point.question) for point in self._points)

    @property
    def last_question(self) -> str:
        return next((point.question for point in reversed(self._points) if point.question), "")

    @property
    def writes(self) -> Sequence[Write]:
        """The files written by tools, oldest first."""
        return self._writes

    @property
    def todos(self) -> Mapping[str, JSON] | None:
        """The arguments of the last todo_write that went well; None where there was none."""
        return self._todos[-1].arguments if self._todos else None

    def before(self, write: Write) -> bytes | None:
        """The earlier content of the file; None if there was none, or it was not saved."""
        return self._blobs.content(write.before) if self._blobs and write.before else None

    def follow(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Pass events on, recording each one first. Closes `events` at the end."""
        self._in_turn = False
        self._keep_messages()
        self._in_turn = True
        try:
            yield from self._warning()
            for event in events:
                self._take(event)
                yield from self._warning()
                yield event
        finally:
            events.close()
            self._settle()  # of an interrupted call: later changes are not its own
            self._keep_messages()
            self._in_turn = False
            self._sync()

    def forget_last(self, message: Message) -> None:
        """Remove the message if it is the last one, as it got no answer."""
        if self.messages and self.messages[-1] is message:
            self.messages.pop()
            self._keep_messages()

    def before_write(self, path: str, content: bytes | None) -> None:
        """Save the content of a file that a tool is about to write; None if there is no file yet."""
        if not self._blobs or not self._journal or self._journal.broken:
            return
        try:
            before = None if content is None else self._blobs.keep(content)
        except OSError as error:
            self._journal.broken = f"what {path} held cannot be kept: {error.strerror or error}"
            return
        where = str(self._root / path)
        number = self._record("write", {"path": where, "before": before, "call": self._running})
        self._unfinished.append(len(self._writes))
        self._writes.append(Write(number, where, before, self._running))

    def rename(self, name: str) -> None:
        self.name = name
        self._record("rename", {"name": name})

    def fork(self, journal: Journal) -> Session:
        """A copy with its own journal. Earlier writes can be undone only in the original."""
        fork = Session(self.messages, self._root, journal, {**self.meta, "forked_from": self.id})
        fork._keep_messages()
        fork._todos = self._todos[-1:]
        return fork

    def close(self) -> None:
        if self._journal:
            self._journal.close()

    def undo(self, put: Put) -> Undone | None:
        """Undo the last turn, or the compaction after it, including files; None if there is nothing to undo.

        Raises BotError if the messages that a compaction replaced cannot be restored.
        """
        if not self._points:
            return None
        point = self._points[-1]
        before = self._as_before(point)
        gone = {call.id: call for each in self.messages if isinstance(each, Response) for call in each.calls}
        started = [each for each in self._started if each.number >= point.number]
        writes = [each for each in self._writes if each.number >= point.number]
        restored = self._blobs.restore(writes, put) if self._blobs else Restored([], [], [])
        self.messages[:] = before
        self._points.pop()
        self._compactions = [each for each in self._compactions if each < point.number]
        self._unfinished = []
        self._writes = [each for each in self._writes if each.number < point.number]
        self._started = [each for each in self._started if each.number < point.number]
        self._todos = [each for each in self._todos if each.number < point.number]
        self._kept = len(before)
        self._last_kind = "undo"
        self._record("undo", {"to": point.number})
        self._sync()
        wrote = {each.call for each in writes}
        calls = [gone.get(each.id, ToolCall(each.id, each.name, {})) for each in started if each.id not in wrote]
        return Undone(point.question, restored, calls)

    def _as_before(self, point: Point) -> list[Message]:
        if not any(each >= point.number for each in self._compactions):
            return self.messages[: point.messages]
        if not self.path:
            raise BotError("The summarized messages cannot be restored, because this conversation is not saved.")
        return _with_system(self.messages[:1], replay(self.path, point.number).messages)

    def _take(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            if text := self._pieces.feed(event.text):
                self._record("delta", {"text": text}, clean=True)
        elif isinstance(event, CallStarted):
            number = self._record("call", {"id": event.call.id, "name": event.call.name})
            self._running = event.call.id
            self._started.append(Started(number, event.call.id, event.call.name))
            self._sync()
        elif isinstance(event, CallFinished):
            number = self._finish(event.result)
            if isinstance(event.call, ToolCall) and event.call.name == TODO_WRITE and event.result.kind != "error":
                self._todos.append(Todos(number, event.call.arguments))
        elif isinstance(event, Compacted):
            self._compact(event)
        else:
            self._keep_messages()
            if isinstance(event, Completed):
                self._sync()

    def _finish(self, result: ToolResult) -> int:
        self._results.append(result)
        number = self._record("result", {"result": result.to_dict()})
        self._settle()
        return number

    def _settle(self) -> None:
        """Record the new content of the files that were about to be written."""
        for place in self._unfinished:
            write = self._writes[place]
            after = _left(Path(write.path))
            self._writes[place] = write._replace(after=after)
            self._record("wrote", {"path": write.path, "after": after})
        self._unfinished = []

    def _compact(self, event: Compacted) -> None:
        fields: dict[str, JSON] = {"keep": event.kept, "message": event.summary.to_dict(), "by_hand": event.by_hand}
        self._kept = len(self.messages)  # set first, so that an interrupt in between is not taken for a cut
        number = self._record("compaction", fields)
        if event.by_hand:
            self._points.append(Point(number, event.before))
        self._compactions.append(number)
        self._last_kind = "compaction"

    def _keep_messages(self) -> None:
        """Bring the journal up to date with the conversation."""
        if len(self.messages) < self._kept:
            self._record("cut", {"drop": self._kept - len(self.messages)})
            self._kept = len(self.messages)
            self._last_kind = "cut"
            drop_points(self._points, self._compactions, self._kept)
        for message in self.messages[self._kept :]:
            self._keep(message)
            self._kept += 1

    def _keep(self, message: Message) -> None:
        if isinstance(message, ToolResults):
            recorded = {id(result) for result in self._results}
            for result in message.results:
                if id(result) not in recorded:
                    self._record("result", {"result": result.to_dict()})
            self._results = []
            return
        kind = message.TYPE
        self._pieces.close()
        if kind == "user" and self._in_turn:
            kind = "order"  # from the agent itself, in the middle of a turn
        stamp: dict[str, JSON] = {"time": int(self._now())} if kind == "user" else {}
        number = self._record(kind, {**stamp, "message": message.to_dict()})
        if kind == "user" and self._last_kind != "user":
            question = message.text if isinstance(message, UserMessage) else ""
            self._points.append(Point(number, self._kept, question))
        self._last_kind = kind

    def _record(self, kind: str, fields: Mapping[str, JSON], *, clean: bool = False) -> int:
        if not self._journal:
            self._number += 1
            return self._number
        if not self._journal.next:
            self._journal.write("meta", {"version": VERSION, **self.meta})
        return self._journal.write(kind, fields, clean=clean)

    def _sync(self) -> None:
        if self._journal:
            self._journal.sync()

    def _warning(self) -> Iterator[Notice]:
        """Once, when the journal breaks."""
        if self._journal and self._journal.broken and not self._told:
            self._told = True
            yield Notice(UNKEPT.format(why=self._journal.broken))


def _with_system(system: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    """The messages with this system prompt instead of their own."""
    return [*system, *(messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages)]


def _left(path: Path) -> str | None:
    """The hash of the file; "" if it cannot be read."""
    try:
        return digest_of(path)
    except OSError:
        return ""
