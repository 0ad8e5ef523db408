"""The rows of a batch's input: files of JSON lines, Parquet or Arrow, or the folder of a data set with such files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ConfigError

EXAMPLE = 'Each line is a task of its own, such as {"id": "1", "prompt": "Fix the test."}'
TABLES = (".parquet", ".arrow")
SHARD = re.compile(r"(.+)-\d+-of-\d+")  # of a split: test-00000-of-00002.parquet


def list_files(path: Path) -> list[Path]:
    """The file, or those of the only split in a data set's folder. Raises ConfigError."""
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.rglob("*") if each.suffix in (".jsonl", *TABLES) and each.is_file())
    splits = {_name_split(each) for each in files}
    if len(splits) > 1:
        example = files[-1].with_name(f"{files[-1].stem.partition('-')[0]}*{files[-1].suffix}")
        raise ConfigError(f"{path} holds more than one split: {', '.join(sorted(splits))}.", f"Name one: {example}")
    if not files:
        raise ConfigError(f"{path} holds no file of tasks.", f"It may hold .jsonl, {', '.join(TABLES)}.")
    return files


def _name_split(file: Path) -> str:
    """As `datasets` names files: by the split, or `data` in a folder of the split's name."""
    name = file.stem
    if shard := SHARD.fullmatch(name):
        name = shard[1]
    if name == "data":
        return file.parent.name
    return name


def read_rows(path: Path) -> Iterator[tuple[str, object]]:
    """The place of each row, and the row. Raises ConfigError for what cannot be read."""
    try:
        if path.suffix in TABLES:
            for number, row in enumerate(_read_table(path), 1):
                yield f"{path}, row {number}", row
            return
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}.") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield place, _read_json(line)
            except ValueError as error:
                raise ConfigError(f"{place}: {error}.", EXAMPLE) from error


def _read_json(line: bytes) -> object:
    """Raises ValueError with what is wrong."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at character {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _read_table(path: Path) -> list[dict[str, Any]]:
    """Its rows with JSON values only: a date becomes a text. Raises ConfigError."""
    try:
        from pyarrow import ArrowException, ipc, parquet
    except ImportError as error:
        raise ConfigError(f"{path} needs pyarrow.", "Install it: pip install 'vllm-bot[parquet]'") from error
    try:
        with path.open("rb") as file:
            if path.suffix == ".arrow":  # as `save_to_disk` of `datasets` writes it
                table = ipc.open_stream(file).read_all()
            else:
                table = parquet.ParquetFile(file).read()
        rows = table.to_pylist()
    except ArrowException as error:
        raise ConfigError(f"{path}: {str(error).partition(chr(10))[0]}.", "Is it whole?") from error
    made: list[dict[str, Any]] = json.loads(json.dumps(rows, default=str))
    return made
