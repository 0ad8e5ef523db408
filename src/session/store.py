"""The folder of sessions: a journal each, what is asked of all of them, and which one is meant.

20261121-084150-k3x9.jsonl    the journal
20261121-084150-k3x9.files/   what files held before they were written
index.db                      made from the journals, and made again where it is missing or broken
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BotError
from ..messages import JSON, Message
from .journal import Journal, Locked, Redact, storable
from .session import Session

if TYPE_CHECKING:  # sqlite3 is loaded by who looks for a session
    from .index import Found, Index, Summary

SUFFIX = ".jsonl"
ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # no l, o, 0, 1: ids are read aloud and typed
FOLDER = "sessions"
SHOWN = 5  # of several that may be meant


class Store:
    """`state` is the program's state folder; it is made when the first session has something to keep."""

    def __init__(self, state: Path, redact: Redact = str, now: Callable[[], float] = time.time) -> None:
        self.folder = state / FOLDER
        self._redact = redact
        self._now = now

    def new(self, messages: Sequence[Message], root: Path, meta: Mapping[str, JSON]) -> Session:
        """A session that begins with these messages; its journal is made with its first question."""
        return Session(messages, root, self.journal(), {**meta, "created": int(self._now())}, self._now)

    def journal(self) -> Journal:
        """A new one, not written yet."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._now()))
        tail = "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(4))
        return Journal(self.folder / f"{stamp}-{tail}{SUFFIX}", self._redact)

    def resume(self, wanted: str, system: Sequence[Message], root: Path) -> tuple[Session, list[str]]:
        """The session `wanted`, as in `find`, or a copy where it is open elsewhere; and what should be told of it.

        Raises BotError.
        """
        session = self.find(wanted, root)
        try:
            return Session.resumed(self.path(session), system, root, self._redact)
        except Locked:
            copy = Session.copied(self.path(session), system, root, self.journal())
            return copy, [f"The session {session} is open elsewhere: this is a copy."]

    def path(self, session: str) -> Path:
        return self.folder / f"{session}{SUFFIX}"

    def find(self, wanted: str, root: Path | None = None) -> str:
        """The id of the session meant by an id, its beginning, or a name; by nothing, the last of the folder `root`.

        Raises BotError, also where several are meant: nobody wants to delete one of them, or to go on with any.
        """
        known = self.all(empty=True)
        if not known:
            raise BotError("There is no session yet.", f"Sessions are kept in {self.folder}.")
        if not wanted and root is None:
            raise BotError("No session was named.")
        if not wanted:
            here = [each for each in known if each.workspace == storable(str(root))]
            if not here:
                raise BotError(
                    f"There is no session of {root} yet.", "`vllm-bot sessions` lists the sessions of all folders."
                )
            return next((each.id for each in here if each.turns), here[0].id)
        for meant in (
            [each for each in known if wanted in (each.id, each.name)],
            [each for each in known if each.id.startswith(wanted)],
            [each for each in known if each.name.lower().startswith(wanted.lower())],
        ):
            if len(meant) > 1:
                names = ", ".join(each.id for each in meant[:SHOWN])
                raise BotError(f"{wanted!r} may be {len(meant)} sessions, the last {names}.", "Name one by its id.")
            if meant:
                return meant[0].id
        raise BotError(f"There is no session {wanted!r}.", "`vllm-bot sessions` lists them.")

    def all(self, *, empty: bool = False) -> list[Summary]:
        """The last used first; `empty`: also those in which nothing was answered, or all was taken back."""
        with self._index() as index:
            return [each for each in index.all() if empty or each.turns]

    def search(self, words: str, limit: int = 20) -> list[Found]:
        with self._index() as index:
            return index.search(words, limit)

    def _index(self) -> Index:
        from .index import Index

        return Index(self.folder)

    def delete(self, session: str) -> None:
        """Raises BotError where it cannot be removed, or is open."""
        import shutil  # start-up is measured

        journal = Journal(self.path(session), old=True)  # whoever has it open keeps it
        journal.close()
        try:
            self.path(session).unlink()
            shutil.rmtree(self.path(session).with_suffix(".files"), ignore_errors=True)
        except OSError as error:
            raise BotError(f"The session {session} cannot be deleted: {error.strerror or error}") from error

    def clean(self, days: float) -> list[str]:
        """Delete the sessions that were not used for so long; their ids. Those that have a name stay."""
        oldest = self._now() - days * 24 * 3600
        old = [each.id for each in self.all(empty=True) if each.used < oldest and not each.name]
        deleted: list[str] = []
        for session in old:
            try:
                self.delete(session)
            except BotError:  # open, or not ours to remove
                continue
            deleted.append(session)
        return deleted
