"""Reading files and folders of rows."""

from __future__ import annotations

import datetime

import pytest

from src.batch.rows import list_files, read_rows
from src.batch.tasks import read_tasks
from src.errors import ConfigError

ROWS = [
    {"id": "a", "prompt": "x", "checks": ["make"], "day": datetime.date(2026, 1, 2), "hint": None},
    {"id": "b", "prompt": "y", "checks": None, "day": None, "hint": "h"},
]


@pytest.fixture
def table():
    return pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'vllm-bot[parquet]'").Table.from_pylist(
        ROWS
    )


def test_lines_have_their_place_and_empty_ones_are_skipped(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n\n[2]')
    assert list(read_rows(path)) == [(f"{path}, line 1", {"a": 1}), (f"{path}, line 3", [2])]


def test_a_parquet_file_holds_tasks_in_json_values(tmp_path, table):
    from pyarrow import parquet

    parquet.write_table(table, tmp_path / "t.parquet")
    one, other = read_tasks([tmp_path / "t.parquet"])
    assert (one.id, one.checks, one.extra) == ("a", ("make",), {"day": "2026-01-02", "hint": None})
    assert (other.id, other.checks, other.extra) == ("b", (), {"day": None, "hint": "h"})


def test_the_folder_that_datasets_saves_holds_tasks(tmp_path, table):
    from pyarrow import ipc

    folder = tmp_path / "saved/test"
    folder.mkdir(parents=True)
    for number, part in enumerate((table.slice(0, 1), table.slice(1, 1))):
        with ipc.new_stream(str(folder / f"data-{number:05}-of-00002.arrow"), table.schema) as writer:
            writer.write_table(part)
    assert [task.id for task in read_tasks([tmp_path / "saved"])] == ["a", "b"]


def test_a_row_of_a_table_that_is_no_task_is_named(tmp_path, table):
    from pyarrow import parquet

    parquet.write_table(table.drop_columns("prompt"), tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="t.parquet, row 1: prompt: expected a text"):
        read_tasks([tmp_path / "t.parquet"])


def test_a_file_that_is_no_table_is_named(tmp_path, table):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ConfigError, match="t.parquet: "):
        read_tasks([tmp_path / "t.parquet"])


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").touch()
    with pytest.raises(ConfigError, match=r"needs pyarrow.\nInstall it: pip install 'vllm-bot\[parquet\]'"):
        read_tasks([tmp_path / "t.parquet"])


class TestAFolder:
    def make(self, folder, *names):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        return folder

    def test_all_files_of_its_only_split_belong_to_it(self, tmp_path):
        names = "data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"
        folder = self.make(tmp_path, *names, "README.md")
        assert list_files(folder) == [folder / name for name in names]

    def test_of_more_splits_one_must_be_named(self, tmp_path):
        folder = self.make(tmp_path, "data/dev-00000-of-00001.parquet", "data/test-00000-of-00001.parquet")
        with pytest.raises(ConfigError, match=r"more than one split: dev, test.\nName one: .*/data/test\*.parquet"):
            list_files(folder)

    def test_without_a_file_it_says_which_it_may_hold(self, tmp_path):
        with pytest.raises(ConfigError, match=r"holds no file of tasks.\nIt may hold .jsonl, .parquet, .arrow."):
            list_files(self.make(tmp_path, "README.md"))
