"""An index of all sessions, for listing and searching: an SQLite file made from the journals.

It is brought up to date with changed journals whenever it is used. If it is missing, broken or cannot be written, it
is rebuilt, in memory if need be. Search uses FTS5 if SQLite has it, else looks through every text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import BotError
from ..types.messages import JSON, Message, Response, ToolResults, UserMessage
from .journal import make_storable
from .replay import replay

FILE = "index.db"
TITLE = 80  # characters of the first question
LONGEST_TEXT = 20_000  # characters of one message that are indexed
SNIPPET = 12  # words around a match
LATEST = 253_402_300_800.0  # seconds from 1970 to the year 10000
SHAPE = """
create table if not exists sessions(
    id text primary key, stamp text, name text, title text, workspace text, model text,
    created real, used real, turns integer, size integer);
create table if not exists texts(session text, speaker text, text text);
create index if not exists texts_of on texts(session);
"""
FULL_TEXT = "create virtual table if not exists words using fts5(text, content='texts', content_rowid='rowid')"


class Summary(NamedTuple):
    """One session. `created` and `used` are seconds since 1970, `size` is bytes; `title` is the first question."""

    id: str
    name: str
    title: str
    workspace: str
    model: str
    created: float
    used: float
    turns: int
    size: int


class Found(NamedTuple):
    session: Summary
    speaker: str  # "you", "model" or "tool"
    snippet: str


class Index:
    """Use as a context manager. `folder` holds the journals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Index:
        try:
            self._connect(self._folder / FILE)
        except (sqlite3.Error, OSError):
            with suppress(OSError):
                (self._folder / FILE).unlink(missing_ok=True)
            try:
                self._connect(self._folder / FILE)
            except (sqlite3.Error, OSError):
                self._connect(None)
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def all(self) -> list[Summary]:
        rows = self._database.execute(f"select {', '.join(Summary._fields)} from sessions order by used desc, id desc")  # noqa: S608 - our own names
        return [Summary(*row) for row in rows]

    def search(self, words: str, limit: int) -> list[Found]:
        """Messages that contain all the words, the best match first."""
        if not words.strip():
            return []
        sessions = {each.id: each for each in self.all()}
        rows = self._ranked(words, limit) if self._full_text else self._looked_through(words, limit)
        return [Found(sessions[session], speaker, snippet) for session, speaker, snippet in rows if session in sessions]

    def _ranked(self, words: str, limit: int) -> Iterator[tuple[str, str, str]]:
        query = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        yield from self._database.execute(
            "select texts.session, texts.speaker, snippet(words, 0, '', '', ' ... ', ?) from words"
            " join texts on texts.rowid = words.rowid where words match ? order by rank limit ?",
            (SNIPPET, query, limit),
        )

    def _looked_through(self, words: str, limit: int) -> Iterator[tuple[str, str, str]]:
        wanted = [word.lower() for word in words.split()]
        for session, speaker, text in self._database.execute("select session, speaker, text from texts"):
            lower = text.lower()
            if limit > 0 and all(word in lower for word in wanted):
                limit -= 1
                place = max(lower.find(wanted[0]) - 40, 0)
                yield session, speaker, " ".join(text[place : place + 120].split())

    def _connect(self, path: Path | None) -> None:
        if path:
            if not path.parent.is_dir():
                path = None
            else:
                path.touch(0o600)
        self._database = sqlite3.connect(path or ":memory:")
        try:
            self._database.executescript(SHAPE)
            try:
                self._database.execute(FULL_TEXT)
                self._full_text = True
            except sqlite3.OperationalError:
                self._full_text = False
            self._refresh()
        except BaseException:
            self._database.close()
            raise

    def _refresh(self) -> None:
        known = dict(self._database.execute("select id, stamp from sessions"))
        there: dict[str, tuple[Path, str]] = {}
        for path in self._folder.glob("*.jsonl") if self._folder.is_dir() else ():
            with suppress(OSError):
                state = path.stat()
                there[path.stem] = path, f"{state.st_mtime_ns} {state.st_size}"
        changed = [each for each, (_, stamp) in there.items() if known.get(each) != stamp]
        gone = known.keys() - there.keys()
        if not changed and not gone:
            return
        with self._database:
            for session in [*gone, *changed]:
                self._forget(session)
            for session in changed:
                self._add(session, *there[session])

    def _forget(self, session: str) -> None:
        if self._full_text:
            self._database.execute(
                "insert into words(words, rowid, text) select 'delete', rowid, text from texts where session = ?",
                (session,),
            )
        self._database.execute("delete from texts where session = ?", (session,))
        self._database.execute("delete from sessions where id = ?", (session,))

    def _add(self, session: str, path: Path, stamp: str) -> None:
        try:
            found = replay(path, whole=True)
        except BotError:  # not a journal
            return
        texts = list(_texts(found.messages))
        asked = [text for speaker, text in texts if speaker == "you"]
        used, size = (int(part) for part in stamp.split())
        meta = found.state.meta
        row = {
            "id": session,
            "stamp": stamp,
            "name": make_storable(found.state.name),
            "title": make_storable(" ".join(asked[0][: 4 * TITLE].split())[:TITLE]) if asked else "",
            "workspace": make_storable(str(meta.get("workspace", ""))),
            "model": make_storable(str(meta.get("model", ""))),
            "created": seconds(meta.get("created"), used / 1e9),
            "used": used / 1e9,
            "turns": found.state.turns,
            "size": size,
        }
        self._database.execute(f"insert into sessions values({', '.join(f':{name}' for name in row)})", row)
        for speaker, text in texts:
            text = make_storable(text[:LONGEST_TEXT])
            row_id = self._database.execute("insert into texts values(?, ?, ?)", (session, speaker, text)).lastrowid
            if self._full_text:
                self._database.execute("insert into words(rowid, text) values(?, ?)", (row_id, text))


def _texts(messages: list[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield "you", message.text
        elif isinstance(message, Response) and message.text.strip():
            yield "model", message.text
        elif isinstance(message, ToolResults):
            yield from (("tool", result.text) for result in message.results if result.text.strip())


def seconds(value: JSON, otherwise: float) -> float:
    """A time from a journal, if it is a valid one."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < LATEST else otherwise
