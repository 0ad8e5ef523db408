"""The lines of a journal that count: what came whole later, was taken back or torn does not."""

import time

import pytest

from src.session.journal_reader import Lines

META, ASKED = '{"type":"meta","n":0}', '{"type":"user","n":1}'
SAID, MORE, WHOLE = '{"type":"delta","n":2,"text":"a"}', '{"type":"delta","n":3}', '{"type":"response","n":4}'
RESUMED = '{"type":"resumed","n":5,"torn":true}'

CASES = {
    "pieces of a whole answer": ([META, ASKED, SAID, MORE, WHOLE], [0, 1, 4]),
    "pieces of one whose end is missing": ([META, ASKED, SAID, MORE], [0, 1, 2, 3]),
    "a piece that was torn when the session was resumed": ([META, ASKED, SAID, MORE[:-3], RESUMED], [0, 1, 2]),
    "an answer that was": ([META, ASKED, SAID, MORE, WHOLE[:-3], RESUMED], [0, 1, 2, 3]),
    "what was taken back": ([META, ASKED, WHOLE, '{"type":"undo","n":5,"to":1}'], [0]),
    "but no name": ([META, ASKED, '{"type":"rename","n":2}', '{"type":"undo","n":3,"to":1}'], [0, 2]),
    "nor the last of several": (
        [META, ASKED, '{"type":"rename","n":2}', '{"type":"rename","n":3}', '{"type":"undo","n":4,"to":1}'],
        [0, 3],
    ),
    "an empty line": ([META, "", ASKED], [0, 1]),
}


@pytest.mark.parametrize(("lines", "expected"), CASES.values(), ids=CASES)
def test_what_counts(lines, expected):
    read = Lines("\n".join([*lines, ""]).encode())
    assert ([line.number for line in read.kept], read.problems) == (expected, [])


def test_a_last_line_without_its_end_counts_where_it_is_whole():
    whole, torn = Lines(f"{META}\n{ASKED}".encode()), Lines(f"{META}\n{ASKED[:-1]}".encode())
    assert ([line.number for line in whole.kept], whole.unended, whole.torn) == ([0, 1], True, False)
    assert ([line.number for line in torn.kept], torn.unended, torn.torn) == ([0], True, True)


def test_another_that_is_not_whole_is_named():
    assert Lines(f"{META}\n{{oh no\n{ASKED}\n".encode()).problems == ["line 2 could not be read and was skipped"]


def test_as_it_stood_before_a_record():
    assert [line.number for line in Lines(f"{META}\n{ASKED}\n{SAID}\n".encode(), until=2).kept] == [0, 1]


@pytest.mark.parametrize(
    "line", ["junk", "", SAID, RESUMED, '{"type":"rename","n":2}\n{"type":"undo","n":3,"to":1}', "[" * 1000]
)
def test_a_megabyte_of_one_line_is_read_at_once(line):
    started = time.process_time()
    Lines(f"{line}\n".encode() * (1_000_000 // (len(line) + 1)))
    assert time.process_time() - started < 10
