"""The folder of a batch: its rows, which are appended and never changed, and what is made from them.

    results.jsonl        a row for each task that ended
    predictions.jsonl    as SWE-bench's harness reads it
    results.parquet      where pyarrow is installed
    sessions/            the conversation of each row

Only the driver writes here. A row is on the disk before the next one is taken; a line that a crash cut off is removed
at the next start, and its task runs again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..app.result_file import ROOM_HINT, ResultFile
from ..errors import BotError
from ..types.messages import JSON

RESULTS, PREDICTIONS, PARQUET = "results.jsonl", "predictions.jsonl", "results.parquet"
SUCCESS = "answered"


class CheckResult(NamedTuple):
    """`exit_code` is None if the command was ended at its time limit. `output`: the end of what it printed."""

    command: str
    exit_code: int | None
    output: str


class Row(NamedTuple):
    """What came of one task.

    `status`: "answered"; "limit" (turns or tokens); "no_answer"; "invalid" (not of the schema); "error" (the server or
    the repository); "timeout"; "crashed" (its process died). `reason` says more. `answer` is text, or what the schema
    asked for. `patch`: a Git diff, binary files included. `path`: how the tools were called. `repairs`: calls that
    could not be read, or had to be repaired. `sample`: the number of this run of the task. `extra`: other keys that the
    task had in its file.
    """

    id: str
    hash: str
    status: str
    reason: str = ""
    answer: JSON = ""
    patch: str = ""
    checks: tuple[CheckResult, ...] = ()
    usage: dict[str, int] = {}  # noqa: RUF012 - never changed
    calls: int = 0
    turns: int = 0
    path: str = ""
    repairs: int = 0
    seconds: float = 0.0
    session: str = ""
    model: str = ""
    sample: int = 1
    extra: Mapping[str, JSON] = {}

    @property
    def instance(self) -> str:
        """The id of the task in its file: a later run has the number of its sample behind it."""
        if self.sample <= 1:
            return self.id
        return self.id.removesuffix(f"@{self.sample}")

    @property
    def key(self) -> tuple[str, str]:
        return self.id, self.hash

    @property
    def is_success(self) -> bool:
        return self.status == SUCCESS and all(check.exit_code == 0 for check in self.checks)

    @property
    def tokens(self) -> int:
        return sum(self.usage.values())

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"checks": [check._asdict() for check in self.checks]}


def read_row(value: object) -> Row:
    """Raises ValueError for what is no row."""
    if not isinstance(value, dict) or not {"id", "hash", "status"} <= set(value):
        raise ValueError("this is no result")
    if not all(isinstance(value.get(name, ""), str) for name in ("id", "hash", "status", "patch")):
        raise ValueError("`id`, `hash`, `status` and `patch` of a result are texts")
    if not isinstance(value.get("sample", 1), int):
        raise ValueError("`sample` of a result is a number")
    values = {name: value[name] for name in Row._fields if name in value}
    return Row(**values | {"checks": tuple(CheckResult(**each) for each in value.get("checks", ()))})


class Results:
    """The rows of a folder, which is made. Raises BotError if another batch writes there, or a line cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[tuple[str, str], Row] = {}  # the last one of each task and settings
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = ResultFile(folder / RESULTS)
        except BlockingIOError as error:
            raise BotError(f"Another batch is writing to {folder}.", "Wait for it, or name another --out.") from error
        except OSError as error:
            raise BotError(f"{folder}: {error.strerror or error}.") from error
        try:
            self.rows.update((row.key, row) for row in load_rows(folder))
        except BaseException:
            self._file.close()
            raise

    def add(self, row: Row, conversation: bytes) -> None:
        """Save the conversation, then the row. Raises BotError where it cannot be written."""
        if row.session:
            sessions = self.folder / "sessions"
            try:
                sessions.mkdir(exist_ok=True)
                (sessions / f"{row.session}.jsonl").write_bytes(conversation)
            except OSError as error:
                raise BotError(f"{sessions}: {error.strerror or error}.", ROOM_HINT) from error
        self._file.add(row.to_dict())
        self.rows[row.key] = row

    def export(self, rows: Iterable[Row]) -> None:
        """Write predictions.jsonl, one for each sample, and results.parquet where pyarrow is installed."""
        rows = list(rows)
        lines: dict[str, list[str]] = {PREDICTIONS: []}
        for row in rows:  # for get_predictions_from_file in swebench 5.0.2, harness/utils.py: no instance stands twice
            prediction = {"instance_id": row.instance, "model_name_or_path": row.model, "model_patch": row.patch}
            name = f"predictions-{row.sample}.jsonl" if row.sample > 1 else PREDICTIONS
            lines.setdefault(name, []).append(json.dumps(prediction, ensure_ascii=False) + "\n")
        for name, predictions in lines.items():
            part = self.folder / f".{name}"
            part.write_bytes("".join(predictions).encode("utf-8", "replace"))
            part.replace(self.folder / name)
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            return
        # Columns of texts and numbers: an object becomes JSON, and no character is a lone surrogate.
        flat = [dict(row.to_dict()) for row in rows]
        for row_of_texts in flat:
            for name, value in row_of_texts.items():
                if isinstance(value, (int, float)):
                    continue
                text = value
                if not isinstance(value, str):
                    text = json.dumps(value)
                row_of_texts[name] = text.encode("utf-8", "replace").decode()
        table = pyarrow.Table.from_pylist(flat)
        part = self.folder / f".{PARQUET}"
        parquet.write_table(table, part)
        part.replace(self.folder / PARQUET)

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def load_rows(folder: Path) -> list[Row]:
    """All rows in the order in which they were written. Raises BotError."""
    path = folder / RESULTS
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BotError(f"{path}: {error.strerror or error}.", "Is this the --out of a batch?") from error
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # the last one is empty, or cut off
        try:
            rows.append(read_row(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise BotError(f"{path}, line {number}: {error}.", "Move the file away, or mend the line.") from error
    return rows
