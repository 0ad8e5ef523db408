"""What the page shows of the last hour: counts by minute and model, and the last calls. With several workers, of all.

They are in a SQLite file in the folder of the counts, which goes with the gateway. It stays small: an hour of minutes
for each model that is counted by its name, and fifty calls.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FILE = "history.sqlite"
HOUR = 60  # minutes
MAX_CALLS = 50
WAIT_S = 1.0  # for another worker that writes
SCHEMA = """
create table if not exists minutes (
    minute integer, model text, kind text, value real, primary key (minute, model, kind)) without rowid;
create table if not exists calls (number integer primary key autoincrement, entry text);
"""
ADD = (
    "insert into minutes values (?, ?, ?, ?) "
    "on conflict (minute, model, kind) do update set value = value + excluded.value"
)
FORGET = "delete from calls where number <= (select max(number) from calls) - ?"
LIST = "select number, entry from calls where number > ? order by number"

log = logging.getLogger(__name__.rpartition(".")[0])


class History:
    """`read_clock` gives seconds since 1970, which all workers share."""

    def __init__(self, folder: Path, read_clock: Callable[[], float] = time.time) -> None:
        self._read_clock = read_clock
        self._pruned = 0  # the minute
        self._has_failed = False
        # what breaks off is rolled back, also after kill -9; the machine's end ends the file
        self._database = sqlite3.connect(folder / FILE, timeout=WAIT_S)
        self._database.executescript(f"pragma journal_mode = persist; pragma synchronous = off; {SCHEMA}")

    @property
    def minute(self) -> int:
        """The one that runs."""
        return int(self._read_clock() // 60)

    def add(self, entry: Mapping[str, Any], model: str) -> None:
        """A request that was answered, as in the request log. What cannot be written is told once, and missing."""
        try:
            with self._database:
                self._write(entry, model)
        except sqlite3.Error as error:
            if not self._has_failed:
                log.warning("The page lacks requests: %s.", error)
            self._has_failed = True

    def _write(self, entry: Mapping[str, Any], model: str) -> None:
        calls, tokens, minute = entry.get("calls", ()), entry.get("tokens", {}), self.minute
        counts = Counter(call["how"] for call in calls)
        sums = {**counts, "requests": 1, "first_byte": entry["first_byte_s"]}
        if tokens:
            sums |= {"prompt": tokens["prompt"], "cached": tokens["cached"]}
        self._database.executemany(ADD, [(minute, model, kind, value) for kind, value in sums.items()])
        request = {name: value for name, value in entry.items() if name != "calls"}
        rows = [(json.dumps({**request, **call}),) for call in calls[-MAX_CALLS:]]
        if rows:
            self._database.executemany("insert into calls (entry) values (?)", rows)
            self._database.execute(FORGET, (MAX_CALLS,))
        if minute != self._pruned:
            self._pruned = minute
            self._database.execute("delete from minutes where minute <= ?", (minute - HOUR,))

    def read_minutes(self, since: int = 0) -> list[dict[str, Any]]:
        """Of the last hour from `since` on: minute and model, with what came then by its kind."""
        rows: dict[tuple[int, str], dict[str, Any]] = {}
        wanted = max(since, self.minute - HOUR + 1)
        for minute, model, kind, value in self._database.execute("select * from minutes where minute >= ?", (wanted,)):
            rows.setdefault((minute, model), {"minute": minute, "model": model})[kind] = value
        return list(rows.values())

    def read_calls(self, after: int = 0) -> tuple[int, list[dict[str, Any]]]:
        """The last calls behind number `after`, the oldest first, and the number of the last one."""
        calls = []
        for number, entry in self._database.execute(LIST, (after,)):
            after = number
            calls.append(json.loads(entry))
        return after, calls

    def close(self) -> None:
        self._database.close()
