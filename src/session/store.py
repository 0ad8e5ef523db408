"""The folder of sessions: creating, finding, listing, searching and deleting them.

20261121-084150-k3x9.jsonl    the journal
20261121-084150-k3x9.files/   earlier contents of files
20261121-084150-k3x9.tasks/   the journals of its subagents
index.db                      rebuilt from the journals if it is missing or broken
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BotError
from ..types.messages import JSON, Message
from ..types.process import FindLiving
from .journal import Journal, Locked, Redact, make_storable
from .session import TASKS_SUFFIX, Session, ignore_processes

if TYPE_CHECKING:  # sqlite3 is loaded only to look for a session
    from .index import Index, Match, Summary

FOLDER_NAME = "sessions"
SUFFIX = ".jsonl"
ID_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # no l, o, 0, 1: ids are read aloud and typed
MAX_IDS_SHOWN = 5  # in an error message


class Store:
    """`state` is the program's state folder, which is made when there is something to save.

    `find_living`: of processes those that live.
    """

    def __init__(
        self,
        state: Path,
        redact: Redact = str,
        now: Callable[[], float] = time.time,
        find_living: FindLiving = ignore_processes,
    ) -> None:
        self.folder = state / FOLDER_NAME
        self._redact = redact
        self._now = now
        self._find_living = find_living

    def create(self, messages: Sequence[Message], root: Path, meta: Mapping[str, JSON]) -> Session:
        """A session that begins with these messages; its file is made with the first question."""
        return Session(messages, root, self.create_journal(), {**meta, "created": int(self._now())}, self._now)

    def create_journal(self) -> Journal:
        """A new journal, not written yet."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._now()))
        while True:
            tail = "".join(ID_ALPHABET[byte % len(ID_ALPHABET)] for byte in os.urandom(4))
            path = self.journal_path(f"{stamp}-{tail}")
            if not path.exists():  # another session of the same second
                return Journal(path, self._redact)

    def resume(self, name_or_id: str, system: Sequence[Message], root: Path) -> tuple[Session, list[str]]:
        """The session that `find` finds, or a copy if it is open elsewhere; and notices. Raises BotError."""
        session = self.find(name_or_id, root)
        try:
            return self.reopen(session, system, root)
        except Locked:
            copy = Session.copy(self.journal_path(session), system, root, self.create_journal())
            return copy, [f"The session {session} is open elsewhere: this is a copy."]

    def reopen(self, session: str, system: Sequence[Message], root: Path) -> tuple[Session, list[str]]:
        """The session with this id, and notices. Raises BotError, and Locked if it is open elsewhere."""
        return Session.resume(self.journal_path(session), system, root, self._redact, self._find_living)

    def journal_path(self, session: str) -> Path:
        return self.folder / f"{session}{SUFFIX}"

    def find(self, name_or_id: str, root: Path | None = None, *, whole: bool = False) -> str:
        """The id of the session with this id or name, or the beginning of one; for "", the last one in `root`.

        `whole`: the beginning of one is not enough. Raises BotError if there is none, or more than one.
        """
        sessions = self.list_sessions(empty=True)
        if not sessions:
            raise BotError("There is no session yet.", f"Sessions are kept in {self.folder}.")
        if not name_or_id:
            return _find_last(sessions, root)
        meant = [each for each in sessions if name_or_id in (each.id, each.name)]
        if not (meant or whole):
            meant = _list_begun(sessions, name_or_id)
        if not meant:
            raise BotError(f"There is no session {name_or_id!r}.", "`vllm-bot sessions` lists them.")
        if len(meant) > 1:
            names = ", ".join(each.id for each in meant[:MAX_IDS_SHOWN])
            raise BotError(f"{name_or_id!r} may be {len(meant)} sessions, the last {names}.", "Name one by its id.")
        return meant[0].id

    def list_sessions(self, *, empty: bool = False) -> list[Summary]:
        """All sessions, the last used first. `empty`: including those without an answer."""
        with self._index() as index:
            return [each for each in index.list_sessions() if empty or not each.is_empty]

    def search(self, words: str, limit: int = 20) -> list[Match]:
        with self._index() as index:
            return index.search(words, limit)

    def _index(self) -> Index:
        from .index import Index

        return Index(self.folder)

    def delete(self, session: str) -> None:
        """Raises BotError if the session is open elsewhere or cannot be deleted."""
        import shutil  # start-up is measured

        journal = Journal(self.journal_path(session), old=True)  # locked if it is open elsewhere
        journal.close()
        try:
            self.journal_path(session).unlink()
            for suffix in (".files", TASKS_SUFFIX):
                shutil.rmtree(self.journal_path(session).with_suffix(suffix), ignore_errors=True)
        except OSError as error:
            raise BotError(f"The session {session} cannot be deleted: {error.strerror or error}") from error

    def clean(self, days: float) -> list[str]:
        """Delete sessions without a name that were not used for so many days; returns their ids.

        One that cannot be resumed stays: it may have a name, or not be a session.
        """
        oldest = self._now() - days * 24 * 3600
        sessions = self.list_sessions(empty=True)
        old = [each.id for each in sessions if each.used < oldest and not (each.name or each.problem)]
        deleted: list[str] = []
        for session in old:
            try:
                self.delete(session)
            except BotError:  # open elsewhere, or not deletable
                continue
            deleted.append(session)
        return deleted


def _list_begun(sessions: Sequence[Summary], beginning: str) -> list[Summary]:
    """Those whose id begins so; else those whose name does."""
    by_id = [each for each in sessions if each.id.startswith(beginning)]
    return by_id or [each for each in sessions if each.name.lower().startswith(beginning.lower())]


def _find_last(sessions: Iterable[Summary], root: Path | None) -> str:
    """The last session in a folder, if there is one with an answer. Raises BotError."""
    if root is None:
        raise BotError("No session was named.")
    here = [each for each in sessions if each.workspace == make_storable(str(root))]
    if not here:
        raise BotError(f"There is no session of {root} yet.", "`vllm-bot sessions` lists the sessions of all folders.")
    return next((each.id for each in here if not each.is_empty), here[0].id)
