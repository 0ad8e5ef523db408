"""Rows on the disk."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from src.batch.results import CheckResult, Results, Row, load_rows
from src.errors import BotError
from tests.each import check_rows

ROOT = Path(__file__).parents[2]
ROW = Row("a", "h", "answered", "", {"x": [1]}, "diff é", (CheckResult("make", 0, "ok"),), {"output_tokens": 3})


def test_a_row_comes_back_as_it_was(tmp_path):
    with Results(tmp_path / "out") as results:
        results.add(ROW, b"")
    assert load_rows(tmp_path / "out") == [ROW]


def test_every_line_can_be_read_whatever_a_model_wrote(tmp_path):
    with Results(tmp_path) as results:
        results.add(ROW._replace(answer={"x": "a\udce9"}, reason="\ud800"), b"")
        results.export(results.rows.values())
    (row,) = load_rows(tmp_path)
    assert (row.answer, row.reason) == ({"x": "a?"}, "?")
    for name in ("results.jsonl", "predictions.jsonl"):
        assert "\\ud" not in (tmp_path / name).read_text(encoding="utf-8")


def test_a_line_that_a_crash_cut_off_is_removed_and_nothing_else(tmp_path):
    with Results(tmp_path) as results:
        results.add(ROW, b"")
    whole = (tmp_path / "results.jsonl").read_bytes()
    (tmp_path / "results.jsonl").write_bytes(whole + whole[:20])
    with Results(tmp_path) as results:
        results.add(ROW._replace(id="b"), b"")
    assert [row.id for row in load_rows(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("wrong", [{"id": 5}, {"sample": "x"}, {"patch": 5}, {"checks": [5]}])
def test_a_result_with_a_value_of_another_kind_is_named(tmp_path, wrong):
    (tmp_path / "results.jsonl").write_text(json.dumps({**ROW.to_dict(), **wrong}) + "\n")
    with pytest.raises(BotError, match="line 1: "):
        load_rows(tmp_path)


def test_a_line_that_is_no_result_is_named_and_kept(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(BotError, match="line 1: this is no result"):
        Results(tmp_path)
    assert (tmp_path / "results.jsonl").read_text() == '{"id": 1}\n'


def test_two_batches_do_not_write_to_one_folder(tmp_path):
    with Results(tmp_path), pytest.raises(BotError, match="Another batch"):
        Results(tmp_path)


def test_the_last_row_of_a_task_counts(tmp_path):
    with Results(tmp_path) as results:
        results.add(ROW._replace(status="error"), b"")
        results.add(ROW, b"")
    with Results(tmp_path) as results:
        assert results.rows == {("a", "h"): ROW}


def test_the_conversation_lies_beside_its_row(tmp_path):
    with Results(tmp_path) as results:
        results.add(ROW._replace(session="s1"), b"journal")
    assert (tmp_path / "sessions/s1.jsonl").read_bytes() == b"journal"


def test_predictions_are_as_the_harness_of_swe_bench_reads_them(tmp_path):
    with Results(tmp_path) as results:
        results.export([ROW._replace(model="m")])
    (line,) = (tmp_path / "predictions.jsonl").read_text().splitlines()
    assert json.loads(line) == {"instance_id": "a", "model_name_or_path": "m", "model_patch": "diff é"}


def test_each_sample_has_predictions_of_its_own(tmp_path):
    with Results(tmp_path) as results:
        results.export([ROW, ROW._replace(id="a@2", sample=2)])
    for name in ("predictions.jsonl", "predictions-2.jsonl"):
        (line,) = (tmp_path / name).read_text().splitlines()
        assert json.loads(line)["instance_id"] == "a"


def test_parquet_holds_the_same_rows_even_with_text_that_is_not_unicode(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with Results(tmp_path) as results:
        results.export([ROW, ROW._replace(id="b", answer="text \udce9", extra={"level": 3})])
    rows = parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [(row["id"], row["answer"], row["patch"], row["extra"]) for row in rows] == [
        ("a", '{"x": [1]}', "diff é", "{}"),
        ("b", "text ?", "diff é", '{"level": 3}'),
    ]


@check_rows(
    "status, code, is_success",
    [("answered", 0, True), ("answered", 1, False), ("answered", None, False), ("error", 0, False)],
)
def test_a_success_is_an_answer_whose_checks_all_pass(status, code, is_success):
    assert Row("a", "h", status, checks=(CheckResult("x", code, ""),)).is_success is is_success


def test_without_room_for_a_row_the_error_names_the_folder_and_the_rows_before_stay(tmp_path):
    with Results(tmp_path / "out") as results:
        results.add(ROW, b"")
    size = (tmp_path / "out/results.jsonl").stat().st_size
    code = """
import resource, signal, sys
from pathlib import Path
from src.batch.results import Results, Row
from src.errors import BotError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Results(Path(sys.argv[1])) as results:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]) + 9,) * 2)
    try:
        results.add(Row("b", "h", "answered"), b"")
    except BotError as error:
        print(error)
"""
    words = [sys.executable, "-c", code, str(tmp_path / "out"), str(size)]
    told = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert told.startswith(f"{tmp_path / 'out'}: File too large.\nWhat is recorded stays.")
    with Results(tmp_path / "out") as results:
        assert list(results.rows.values()) == [ROW]
