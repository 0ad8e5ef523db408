import json

import pytest

from src.app.result_file import ResultFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def test_each_row_is_a_line_and_what_was_there_stays(path):
    path.write_text('{"id": 1}\n')
    file = ResultFile(path)
    file.add({"id": 2})
    file.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"id": 1}, {"id": 2}]


def test_a_line_that_a_crash_cut_off_is_removed(path):
    path.write_text('{"id": 1}\n{"id"')
    file = ResultFile(path)
    assert (file.size, path.read_text()) == (10, '{"id": 1}\n')
    file.close()


def test_a_file_that_another_holds_is_refused_until_it_is_closed(path):
    file = ResultFile(path)
    with pytest.raises(BlockingIOError):
        ResultFile(path)
    file.close()
    ResultFile(path).close()


def test_a_lone_surrogate_is_replaced_so_that_every_program_reads_the_file(path):
    file = ResultFile(path)
    file.add({"answer": "a\udc80b"})
    file.close()
    assert json.loads(path.read_text(encoding="utf-8")) == {"answer": "a?b"}
