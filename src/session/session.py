"""A saved conversation: every step is written to its journal before the next one is taken.

`follow` passes on the agent's events and records each one first; the agent does not know about it. Each record is
written to the journal and then applied to the `SessionState`, by the function that replay uses. Without a journal, or
if it cannot be written, the conversation exists only in memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

from msgspec import Struct
from msgspec.structs import asdict

from ..errors import BotError
from ..types.events import CallFinished, CallStarted, Compacted, Completed, Event, Notice, TextDelta
from ..types.file_names import FileChange, FileState, escape_name
from ..types.messages import JSON, Message, Response, SystemMessage, ToolCall, ToolResult, ToolResults
from ..types.process import FindLiving, StartedProcess
from .journal import VERSION, Journal, NoJournal, Record, Redact
from .snapshots import ReadContent, ReadFile, RestoredFiles, RestoreFile, Snapshots
from .state import SessionState, StartedCall, Write, list_since
from .streaming_redaction import StreamRedactor

TASKS_SUFFIX = ".tasks"  # of the folder with the journals of a session's subagents
NOT_SAVED = "This conversation is no longer saved and cannot be resumed later: {why}"
MAX_PARTIAL_CHARS = 2_000_000  # of an answer that are saved before it is complete
TOO_LONG = f"This answer has more than {MAX_PARTIAL_CHARS:,} characters; the rest of it is saved only when it ends."


def ignore_processes(processes: Iterable[StartedProcess]) -> Mapping[StartedProcess, Sequence[int]]:  # noqa: ARG001
    return {}


class Undone(Struct, frozen=True):
    """What was undone. `calls` had begun, and may have had effects that are not undone.

    `watched`: ids of those whose changes to files were undone, but which may have had other effects.
    """

    question: str  # empty if a compaction was undone
    files: RestoredFiles
    calls: list[ToolCall]
    watched: frozenset[str] = frozenset()


class Session:
    """`messages` is the conversation, which the agent appends to; `root` the folder that paths are relative to.

    `state` is what its records say. `meta` goes into the first record: workspace, model, server, created (seconds since
    1970).
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
        self._root = root
        self._now = now
        self._journal = journal or NoJournal()
        self._snapshots = Snapshots(self._journal.path.parent / f"{self.id}.files", root, now)
        self._redactor = StreamRedactor(self._journal.redact)
        self._partial_chars = 0  # recorded of the answer that is being given
        self.state = SessionState(meta=dict(meta or {}))
        self._recorded_count = 0  # number of messages that are recorded
        self._results: list[ToolResult] = []  # of the last answer, recorded already
        self._lock = Lock()  # calls in threads of their own record processes
        self._in_turn = False
        self.notes: list[str] = []  # for the model, with the next question
        self._has_warned = journal is None
        self._notices: list[str] = []  # for the user, with the next event

    @classmethod
    def resume(
        cls,
        path: Path,
        system: Sequence[Message],
        root: Path,
        redact: Redact = str,
        find_living: FindLiving = ignore_processes,
    ) -> tuple[Session, list[str]]:
        """The session of a journal, with the current system prompt, and notices for the user.

        `find_living`: of the processes that ran last those that live, each with the numbers of all that it started.

        Raises BotError if it cannot be read, or is open elsewhere.
        """
        from .replay import describe_processes, replace_system, replay  # start-up is measured

        journal = Journal(path, redact, old=True)
        try:
            replayed = replay(path)
        except BaseException:
            journal.close()
            raise
        if replayed.unended:
            journal.end_line()
        session = cls(replace_system(system, replayed.messages), root, journal)
        session.state = replayed.state
        session._recorded_count = len(session.messages)
        session.notes, process_notices = describe_processes(replayed.state.processes, find_living)
        session._append("resumed", {"torn": True} if replayed.torn else {})
        if replayed.partial:
            session._append("response", {"message": replayed.partial.to_dict()})
        for lost in replayed.lost:
            session._append("result", {"result": lost.to_dict()})
        journal.sync()
        notices = [f"The journal of this session is damaged: {problem}." for problem in replayed.problems]
        if replayed.lost:
            names = ", ".join(result.name for result in replayed.lost)
            notices.append(f"The program stopped before these calls finished: {names}. They will not be run again.")
        notices += process_notices
        workspace = str(session.state.meta.get("workspace", root))
        if workspace != str(root):
            before, now = escape_name(workspace), escape_name(root)
            notices.append(f"This conversation took place in {before}; the tools now work in {now}.")
        return session, notices

    @classmethod
    def copy(cls, path: Path, system: Sequence[Message], root: Path, journal: Journal) -> Session:
        """A copy of the session of a journal, which stays as it is. Raises BotError."""
        from .replay import replace_system, replay

        replayed = replay(path)
        source = cls(replace_system(system, replayed.messages), root)
        source.state = replayed.state
        return source._copy_to(journal, path.stem)

    def start_task(self, messages: Sequence[Message], meta: Mapping[str, JSON]) -> Session:
        """The conversation of a subagent. Its journal is in a folder beside this one's, and is deleted with it."""
        if not self.id:
            return Session(messages, self._root)
        name = f"{self.state.next}-{os.urandom(2).hex()}"
        self._append("task", {"journal": name, **meta})
        journal = Journal(self._journal.path.with_suffix(TASKS_SUFFIX) / f"{name}.jsonl", self._journal.redact)
        theirs: dict[str, JSON] = {"workspace": str(self._root), "task_of": self.id, "created": int(self._now())}
        return Session(messages, self._root, journal, {**theirs, **meta}, self._now)

    def fork(self, journal: Journal) -> Session:
        """A copy with its own journal. Earlier writes can be undone only in the original."""
        return self._copy_to(journal, self.id)

    def _copy_to(self, journal: Journal, source: str) -> Session:
        first = next((each.question for each in self.state.points if each.question), "")  # a summary may hide it
        copy = Session(self.messages, self._root, journal, {"title": first, **self.state.meta, "forked_from": source})
        copy._record_messages()
        if (
            self.state.last_todos is not None and copy.state.last_todos != self.state.last_todos
        ):  # a summary replaced the call
            copy._append("todos", {"arguments": dict(self.state.last_todos)})
        return copy

    @property
    def id(self) -> str:
        """Empty if nothing is saved."""
        return self._journal.path.stem

    @property
    def path(self) -> Path | None:
        """The journal's path; None if nothing is saved."""
        return None if self._journal.broken else self._journal.path

    def read_content(self, state: FileState | None) -> bytes | None:
        """The content of a file before or after a write; None if there was none, or it was not saved."""
        return self._snapshots.read(state.digest) if state else None

    def follow(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Pass events on, recording each one first. Closes `events` at the end."""
        self._in_turn = False
        self._record_messages()
        self._in_turn = True
        try:
            yield from self._warn()
            for event in events:
                if isinstance(event, TextDelta):
                    self._record_text(self._redactor.feed(event.text))
                else:
                    self._record_event(event)
                yield from self._warn()
                yield event
        finally:
            events.close()
            self._end_writes()  # of an interrupted call, which did not make later changes
            self._record_messages()
            self._in_turn = False
            self._journal.sync()

    def save_waiting(self) -> None:
        """Write what waits of the answer, but for what may be the beginning of a secret."""
        self._record_text(self._redactor.flush())

    def forget_last(self, message: Message) -> bool:
        """Remove the message if it is the last one, as it got no answer. Returns whether it is removed."""
        if is_last := bool(self.messages) and self.messages[-1] is message:
            self.messages.pop()
            self._record_messages()
        return is_last

    def record_write(self, path: str, content: bytes | None) -> None:
        """Save the content of a file that a tool is about to write; None if there is no file yet."""
        if self._journal.broken:
            return
        try:
            before = None if content is None else self._snapshots.save(content)
        except OSError as error:
            self._journal.broken = f"the content of {path} cannot be saved: {error.strerror or error}"
            return
        self._append("write", {"path": str(self._root / path), "before": before, "call": self.state.running})

    def record_changes(self, files: Sequence[FileChange], read: ReadContent, *, is_complete: bool) -> None:
        """Record what a call has changed in files. `read` gives contents by their digests."""
        if self._journal.broken:
            return
        try:
            rows = self._snapshots.save_changes(files, self._root, read)
        except OSError as error:
            self._journal.broken = f"the contents of files cannot be saved: {error.strerror or error}"
            return
        self._append("changes", {"call": self.state.running, "files": rows, "complete": is_complete})

    def record_process(self, process: StartedProcess, *, has_ended: bool = False) -> None:
        """Record a process that a call has started, or the end of one in the background; any thread may call it."""
        self._append("process_end" if has_ended else "process", asdict(process))

    def read_files_with(self, read_file: ReadFile) -> None:
        """From now on, what files hold before an undo and after a write is read by this function."""
        self._snapshots.read_file = read_file

    def rename(self, name: str) -> None:
        self._append("rename", {"name": name})

    def close(self) -> None:
        self._journal.close()

    def undo(self, restore_file: RestoreFile) -> Undone | None:
        """Undo the last turn, or the compaction after it, including files; None if there is nothing to undo.

        Raises BotError if the messages that a compaction replaced cannot be restored.
        """
        state = self.state
        if not state.points:
            return None
        point = state.points[-1]
        to = point.number
        earlier = None
        if list_since(state.compactions, to):
            earlier = self._load_messages(to)
        writes = list_since(state.writes, to)
        calls, watched = self._list_unrestored(to, writes)
        size = state.size
        files = self._snapshots.restore(writes, restore_file)
        self._append("undo", {"to": to})
        if earlier is None:
            earlier = self.messages[: len(self.messages) - (size - state.size)]
        self.messages[:] = earlier
        self._recorded_count = len(self.messages)
        self._journal.sync()
        return Undone(point.question or "", files, calls, watched)

    def _list_unrestored(self, to: int, writes: Iterable[Write]) -> tuple[list[ToolCall], frozenset[str]]:
        """The calls from a record on that did more than these writes, and the ids of all that were watched."""
        rows = list_since(self.state.watched, to)
        watched = frozenset(each.id for each in rows)
        restored = {each.id for each in rows if each.is_complete}  # all its changes are among the writes
        restored |= {write.call for write in writes if write.call not in watched}
        started = list_since(self.state.started, to)
        return [self._find_call(each) for each in started if each.id not in restored], watched

    def _find_call(self, started: StartedCall) -> ToolCall:
        """The call as it ran: that of the answer, unless its arguments were changed."""
        answers = (each for each in reversed(self.messages) if isinstance(each, Response))
        calls = (call for each in answers for call in reversed(each.calls) if call.id == started.id)
        call = ToolCall(started.id, started.name, started.arguments or {})
        return next(calls, call) if started.arguments is None else call

    def redo(self, restore_file: RestoreFile) -> Undone | None:
        """Do again what the last undo has undone; None if there is nothing to redo.

        Raises BotError if the messages cannot be restored.
        """
        if not self.state.undone:
            return None
        undone = self.state.undone[-1]
        messages = self._load_messages(undone.number)
        writes = undone.writes
        files = self._snapshots.restore(writes, restore_file, forward=True)
        self._append("redo", {"undo": undone.number})
        self.messages[:] = messages
        self._recorded_count = len(self.messages)
        self._journal.sync()
        question = next((point.question for point in undone.rows["points"] if point.question), "")
        return Undone(question, files, [])

    def _load_messages(self, until: int) -> list[Message]:
        """The messages before a record, from the journal."""
        if not self.path:
            raise BotError("The summarized messages cannot be restored, because this conversation is not saved.")
        from .replay import replace_system, replay

        system = [message for message in self.messages[:1] if isinstance(message, SystemMessage)]
        return replace_system(system, replay(self.path, until).messages)

    def _describe_start(self, call: ToolCall) -> dict[str, JSON]:
        """What is recorded of a call that starts: its arguments only where they are no longer those of the answer."""
        answer = next((each for each in reversed(self.messages) if isinstance(each, Response)), Response(()))
        described: dict[str, JSON] = {"id": call.id, "name": call.name}
        asked = [each.arguments for each in answer.calls if each.id == call.id]
        if asked and call.arguments not in asked:
            described["arguments"] = dict(call.arguments)
        return described

    def _record_event(self, event: Event) -> None:
        if isinstance(event, Compacted):
            self._recorded_count = len(self.messages)  # first, so that an interrupt in between is not recorded as a cut
            summary = event.summary.to_dict()
            self._append("compaction", {"keep": event.kept, "message": summary, "by_hand": event.by_hand})
            return
        self._record_messages()
        if isinstance(event, CallStarted):
            self._append("call", self._describe_start(event.call))
            self._journal.sync()
        elif isinstance(event, CallFinished):
            self._results.append(event.result)
            self._append("result", {"result": event.result.to_dict()})
            self._end_writes()
        elif isinstance(event, Completed) and not event.response.calls:  # else the call that starts next syncs it
            self._journal.sync()

    def _record_text(self, text: str) -> None:
        """Record a piece of an answer that is not complete; not if it already has MAX_PARTIAL_CHARS characters."""
        left = MAX_PARTIAL_CHARS - self._partial_chars
        self._partial_chars += len(text)
        if text and left > 0:
            self._append("delta", {"text": text[:left]}, clean=True)
        if 0 <= left < len(text):
            self._notices.append(TOO_LONG)

    def _end_writes(self) -> None:
        """Record the new content of the files that were about to be written."""
        for place in list(self.state.open_writes):
            path = self.state.writes[place].path
            self._append("wrote", {"path": path, "after": self._snapshots.save_file(Path(path))})

    def _record_messages(self) -> None:
        """Record what the agent has appended to the conversation, or removed from its end."""
        if len(self.messages) < self._recorded_count:
            self._append("cut", {"drop": self._recorded_count - len(self.messages)})
            self._recorded_count = len(self.messages)
        for message in self.messages[self._recorded_count :]:
            self._record_message(message)
            self._recorded_count += 1

    def _record_message(self, message: Message) -> None:
        if isinstance(message, ToolResults):
            recorded = {id(result) for result in self._results}
            for result in message.results:
                if id(result) not in recorded:
                    self._append("result", {"result": result.to_dict()})
            self._results = []
            return
        kind = message.TYPE
        self._redactor.reset()
        self._partial_chars = 0
        fields: dict[str, JSON] = {"message": message.to_dict()}
        if kind == "user" and self._in_turn:
            kind = "order"  # from the agent itself, in the middle of a turn
        elif kind == "user":
            fields = {"time": int(self._now()), **fields}
        self._append(kind, fields)

    def _append(self, kind: str, fields: Mapping[str, JSON], *, clean: bool = False) -> None:
        """Write a record and apply it. `clean`: its secrets have been removed already."""
        if not self.state.next and kind != "meta":
            self._append("meta", {"version": VERSION, **self.state.meta})
        with self._lock:
            record = Record(kind, self.state.next, fields)
            self.state.next += 1  # first, so that no number is used twice after an interrupt
            self._journal.write(record, clean=clean)
            self.state.apply(record)

    def _warn(self) -> Iterator[Notice]:
        """What the user must know; once, when the journal breaks."""
        if self._journal.broken and not self._has_warned:
            self._has_warned = True
            self._notices.append(NOT_SAVED.format(why=self._journal.broken))
        while self._notices:
            yield Notice(self._notices.pop(0))
