"""An index of all sessions, for listing and searching: an SQLite file made from the journals.

It is brought up to date with changed journals whenever it is used. If it is missing, broken or cannot be written, it
is rebuilt, in memory if necessary. Search uses FTS5 if SQLite has it, and otherwise looks through every text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from ..types.messages import JSON, Message, Response, ToolResults, UserMessage
from .journal import make_storable
from .replay import JournalError, Replay, replay
from .state import SessionState

FILE_NAME = "index.db"
MAX_JOURNAL_BYTES = 32_000_000  # that are indexed, from its beginning
MAX_TITLE_CHARS = 80  # of the first question
MAX_TEXT_CHARS = 20_000  # of one message that are indexed
SNIPPET_WORDS = 12  # around a match
MAX_TIME_S = 253_402_300_800.0  # from 1970 to the year 10000
SCHEMA_VERSION = 3  # of the tables; a file of another one is made anew
DROP = "drop table if exists words; drop table if exists texts; drop table if exists sessions;"
SCHEMA = """
create table if not exists sessions(
    id text primary key, stamp text, name text, title text, workspace text, model text,
    created real, used real, turns integer, size integer, one_shot integer, problem text);
create table if not exists texts(session text, speaker text, text text);
create index if not exists texts_of on texts(session);
"""
FULL_TEXT_SCHEMA = "create virtual table if not exists words using fts5(text, content='texts', content_rowid='rowid')"


class Summary(NamedTuple):
    """One session. `created` and `used` are seconds since 1970, `size` is bytes; `title` is the first question.

    `one_shot`: it is one question of -p, which nobody went on with. `problem`: why it cannot be resumed, or "".
    """

    id: str
    name: str
    title: str
    workspace: str
    model: str
    created: float
    used: float
    turns: int
    size: int
    one_shot: bool = False
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no answer."""
        return not (self.turns or self.problem)


class Match(Struct, frozen=True):
    session: Summary
    speaker: str  # "you", "model" or "tool"
    snippet: str


class Index:
    """Use as a context manager. `folder` holds the journals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Index:
        path = self._folder / FILE_NAME
        attempts = 2
        while attempts and self._folder.is_dir():
            attempts -= 1
            try:
                path.touch(0o600)
                self._connect(str(path))
                return self
            except (sqlite3.Error, OSError):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._connect(":memory:")
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def list_sessions(self) -> list[Summary]:
        """The last used first."""
        rows = self._database.execute(f"select {', '.join(Summary._fields)} from sessions order by used desc, id desc")  # noqa: S608 - our own names
        return [each._replace(one_shot=bool(each.one_shot)) for each in map(Summary._make, rows)]

    def search(self, words: str, limit: int) -> list[Match]:
        """Messages that contain all the words, the best match first."""
        if not words.strip():
            return []
        sessions = {each.id: each for each in self.list_sessions()}
        rows = self._rank(words, limit) if self._has_full_text else self._scan(words, limit)
        return [Match(sessions[session], speaker, snippet) for session, speaker, snippet in rows if session in sessions]

    def _rank(self, words: str, limit: int) -> Iterator[tuple[str, str, str]]:
        query = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        yield from self._database.execute(
            "select texts.session, texts.speaker, snippet(words, 0, '', '', ' ... ', ?) from words"
            " join texts on texts.rowid = words.rowid where words match ? order by rank limit ?",
            (SNIPPET_WORDS, query, limit),
        )

    def _scan(self, words: str, limit: int) -> Iterator[tuple[str, str, str]]:
        wanted = [word.lower() for word in words.split()]
        for session, speaker, text in self._database.execute("select session, speaker, text from texts"):
            lower = text.lower()
            if limit > 0 and all(word in lower for word in wanted):
                limit -= 1
                place = max(lower.find(wanted[0]) - 40, 0)
                yield session, speaker, " ".join(text[place : place + 120].split())

    def _connect(self, path: str) -> None:
        self._database = sqlite3.connect(path)
        try:
            (version,) = self._database.execute("pragma user_version").fetchone()
            if version != SCHEMA_VERSION:
                self._database.executescript(DROP)
            self._database.executescript(SCHEMA)
            self._database.execute(f"pragma user_version = {SCHEMA_VERSION}")
            try:
                self._database.execute(FULL_TEXT_SCHEMA)
                self._has_full_text = True
            except sqlite3.OperationalError:
                self._has_full_text = False
            self._refresh()
        except BaseException:
            self._database.close()
            raise

    def _refresh(self) -> None:
        indexed = dict(self._database.execute("select id, stamp from sessions"))
        journals: dict[str, tuple[Path, str]] = {}
        for path in self._folder.glob("*.jsonl"):
            with suppress(OSError):
                status = path.stat()
                journals[path.stem] = path, f"{status.st_mtime_ns} {status.st_size}"
        changed = [each for each, (_, stamp) in journals.items() if indexed.get(each) != stamp]
        removed = indexed.keys() - journals.keys()
        if not changed and not removed:
            return
        with self._database:
            for session in [*removed, *changed]:
                self._remove(session)
            for session in changed:
                self._add(session, *journals[session])

    def _remove(self, session: str) -> None:
        if self._has_full_text:
            self._database.execute(
                "insert into words(words, rowid, text) select 'delete', rowid, text from texts where session = ?",
                (session,),
            )
        self._database.execute("delete from texts where session = ?", (session,))
        self._database.execute("delete from sessions where id = ?", (session,))

    def _add(self, session: str, path: Path, stamp: str) -> None:
        problem = ""
        try:
            replayed = replay(path, whole=True, max_bytes=MAX_JOURNAL_BYTES)
        except JournalError as error:
            replayed, problem = Replay(SessionState(meta=dict(error.meta))), error.problem
        texts = list(_list_texts(replayed.messages))
        used, size = (int(part) for part in stamp.split())
        meta = replayed.state.meta
        first = next((each.title for each in replayed.messages if isinstance(each, UserMessage)), "")
        question = str(meta.get("title") or first)
        row = Summary(
            session,
            make_storable(replayed.state.name),
            make_storable(" ".join(question[: 4 * MAX_TITLE_CHARS].split())[:MAX_TITLE_CHARS]),
            make_storable(str(meta.get("workspace", ""))),
            make_storable(str(meta.get("model", ""))),
            read_time(meta.get("created"), used / 1e9),
            used / 1e9,
            replayed.state.turns,
            size,
            meta.get("one_shot") is True and replayed.state.turns <= 1,
            problem,
        )
        if problem:  # it is read again each time: its file need not change for that
            stamp = ""
        values = (session, stamp, *row[1:])
        self._database.execute(f"insert into sessions values({', '.join('?' * len(values))})", values)
        for speaker, text in texts:
            text = make_storable(text[:MAX_TEXT_CHARS])
            row_id = self._database.execute("insert into texts values(?, ?, ?)", (session, speaker, text)).lastrowid
            if self._has_full_text:
                self._database.execute("insert into words(rowid, text) values(?, ?)", (row_id, text))


def _list_texts(messages: list[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield "you", message.text
        elif isinstance(message, Response) and message.text.strip():
            yield "model", message.text
        elif isinstance(message, ToolResults):
            yield from (("tool", result.text) for result in message.results if result.text.strip())


def read_time(value: JSON, default: float) -> float:
    """A time from a journal, in seconds since 1970; the default if it is not a valid one."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < MAX_TIME_S else default
