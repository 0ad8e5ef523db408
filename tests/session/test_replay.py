"""Replay gives back all that can be read of a journal, whatever it contains."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import BotError
from src.session.journal import MAX_PROBLEMS
from src.session.replay import MAX_PARTIAL_BYTES, Replay, read_records, replay
from src.session.state import SessionState
from src.types.messages import Response, ToolCall, ToolResult, ToolResults, UserMessage
from tests.doubles import says
from tests.each import check_rows
from tests.thorough import sample

from .doubles import ask, resume_session, start_session

LOOK = ToolCall("c1", "look", {"path": "a"})
META, USER = '{"type":"meta","n":0}', '{"type":"user","n":1}'
DELTA, DELTA_2, RESPONSE = '{"type":"delta","n":2,"text":"a"}', '{"type":"delta","n":3}', '{"type":"response","n":4}'
RESUMED = '{"type":"resumed","n":5,"torn":true}'

RECORDS = {
    "pieces of a complete answer": ([META, USER, DELTA, DELTA_2, RESPONSE], [0, 1, 4]),
    "pieces of an incomplete answer": ([META, USER, DELTA, DELTA_2], [0, 1, 2, 3]),
    "a piece that was torn": ([META, USER, DELTA, DELTA_2[:-3], RESUMED], [0, 1, 2, 5]),
    "an answer that was torn": ([META, USER, DELTA, DELTA_2, RESPONSE[:-3], RESUMED], [0, 1, 2, 3, 5]),
    "an empty line": ([META, "", USER], [0, 1]),
}


@check_rows("lines, numbers", RECORDS.values())
def test_records_are_read_without_torn_ones_and_pieces_of_complete_answers(lines, numbers):
    found = Replay(SessionState())
    assert [record.number for record in read_records([f"{line}\n".encode() for line in lines], found)] == numbers
    assert (found.problems, found.unended) == ([], False)


@pytest.fixture
def journal(tmp_path):
    """Of two turns, the first with a call."""
    session = start_session(tmp_path, says("Looking.", LOOK), says("Seen."))
    ask(session, "more", says("That is all."))
    session.close()
    return session.path


def write_journal(folder, text):
    path = folder / "x.jsonl"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("missing", "torn"), [(1, False), (3, True)])
def test_a_last_line_without_a_line_end_is_torn_unless_it_is_complete(tmp_path, missing, torn):
    found = replay(write_journal(tmp_path, f"{META}\n{USER}\n"[:-missing]))
    assert (found.unended, found.torn, found.state.next) == (True, torn, 1 if torn else 2)


@check_rows(
    "behind",
    [[], [USER], [USER, RESPONSE], ['{"type":"resumed","n":5}', USER]],
)
def test_of_an_answer_without_end_the_beginning_is_read_and_the_cut_is_told(tmp_path, behind):
    piece = "a" * 100_000
    pieces = [
        f'{{"type":"delta","n":{number},"text":"{piece}"}}' for number in range(2, MAX_PARTIAL_BYTES // 100_000 + 3)
    ]
    found = replay(write_journal(tmp_path, "\n".join([META, USER, *pieces, *behind, ""])))
    (partial,) = [each.text for each in found.messages if isinstance(each, Response) and each.text]
    assert MAX_PARTIAL_BYTES - 200_000 < len(partial) < MAX_PARTIAL_BYTES
    assert found.problems == ["an answer that did not end has more than 8,000,000 bytes and was cut at line 82"]


def test_pieces_beyond_the_limit_are_no_problem_where_the_answer_is_complete(tmp_path):
    piece = '{"type":"delta","n":2,"text":"' + "a" * MAX_PARTIAL_BYTES + '"}'
    assert replay(write_journal(tmp_path, "\n".join([META, USER, piece, RESPONSE, ""]))).problems == []


def test_a_torn_piece_that_is_not_read_takes_no_other_with_it():
    long = '{"type":"delta","n":4,"text":"' + "a" * MAX_PARTIAL_BYTES
    lines = [f"{line}\n".encode() for line in (META, USER, DELTA, DELTA_2, long, RESUMED)]
    assert [record.number for record in read_records(lines, Replay(SessionState()))] == [0, 1, 2, 3, 5]


def test_only_the_beginning_of_a_journal_is_read_where_that_is_enough(journal):
    assert replay(journal, max_bytes=journal.stat().st_size - 1).messages == replay(journal).messages[:-1]


def test_the_state_before_a_record_can_be_read(journal):
    assert replay(journal, until=7).messages == replay(journal).messages[:-2]


def test_the_problems_that_are_listed_have_a_limit(tmp_path):
    path = write_journal(tmp_path, "\n".join([META, *["rubbish"] * 100, USER, ""]))
    assert len(replay(path).problems) == MAX_PROBLEMS


def lines(journal):
    return journal.read_bytes().splitlines(keepends=True)


def kinds(journal):
    return [json.loads(line)["type"] for line in lines(journal)]


def test_each_step_is_a_line_in_the_order_it_was_taken(journal):
    assert kinds(journal) == [
        *("meta", "system", "user", "response", "call", "result", "response"),
        *("user", "response"),
    ]


def test_a_line_is_an_object_that_names_its_kind_and_number_first(journal):
    assert lines(journal)[2].startswith(b'{"type":"user","n":2,')
    assert [json.loads(line)["n"] for line in lines(journal)] == list(range(9))


def test_a_torn_last_line_is_ignored(journal):
    whole = replay(journal).messages
    journal.write_bytes(journal.read_bytes()[:-10])
    assert replay(journal).messages == whole[:-1]
    assert replay(journal).problems == []


def test_a_last_line_that_lacks_nothing_but_its_end_counts(journal):
    whole = replay(journal).messages
    journal.write_bytes(journal.read_bytes()[:-1])
    assert replay(journal).messages == whole


def test_after_a_torn_line_the_session_continues_without_a_notice(tmp_path, journal):
    journal.write_bytes(journal.read_bytes()[:-10])
    session = resume_session(tmp_path)
    ask(session, "once more", says("Yes."))
    session.close()
    found = replay(journal)
    assert found.messages == session.messages
    assert found.problems == []


@pytest.mark.parametrize("rubbish", [b"\xff\xfe\n", b"{}\n", b"null\n", b'{"type":"user","n":3\n', b"\n\n"])
def test_a_bad_line_in_the_middle_is_skipped(journal, rubbish):
    whole = replay(journal).messages
    data = lines(journal)
    journal.write_bytes(b"".join([*data[:7], rubbish, *data[7:]]))
    assert replay(journal).messages == whole


def test_a_bad_line_is_reported_by_its_place(journal):
    data = lines(journal)
    journal.write_bytes(b"".join([*data[:7], b"rubbish\n", *data[7:]]))
    assert replay(journal).problems == ["line 8 could not be read and was skipped"]


def test_a_lost_question_leaves_a_mark_so_that_roles_still_alternate(journal):
    data = lines(journal)
    data[7] = b'{"type":"user","n":7,"message":{"type":"user"}}\n'
    journal.write_bytes(b"".join(data))
    assert isinstance(replay(journal).messages[-2], UserMessage)
    assert "record 7 is not a message" in replay(journal).problems[0]


def test_a_lost_result_is_reported_to_the_model_and_the_call_not_run_again(journal):
    data = lines(journal)
    data[5] = b'{"type":"result","n":5,"result":{}}\n'
    journal.write_bytes(b"".join(data))
    (results,) = [message for message in replay(journal).messages if isinstance(message, ToolResults)]
    assert results.results[0].kind == "error"
    assert "may or may not" in results.results[0].value


def test_results_that_came_in_another_order_find_their_calls(tmp_path):
    first, second = LOOK, ToolCall("c2", "look", {"path": "b"})
    session = start_session(tmp_path, says("", first, second), says("ok"))
    session.close()
    data = lines(session.path)
    places = [place for place, line in enumerate(data) if b'"type":"result","n"' in line]
    data[places[0]], data[places[1]] = data[places[1]], data[places[0]]
    session.path.write_bytes(b"".join(data))
    assert replay(session.path).messages == session.messages


def test_calls_that_share_an_id_have_each_their_own_result(tmp_path):
    same = ToolCall("c1", "look", {"path": "b"})
    session = start_session(tmp_path, says("", LOOK, same), says("ok"))
    session.close()
    assert replay(session.path).messages == session.messages
    assert session.messages[3] == ToolResults(
        (ToolResult("c1", "look", "text", "contents of a"), ToolResult("c1", "look", "text", "contents of b"))
    )


@pytest.mark.parametrize("content", [b"", b"rubbish", b"rubbish\n", b'{"type":"user","n":1}\n'])
def test_a_file_that_is_not_a_journal_is_an_error(tmp_path, content):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(BotError, match="not the journal"):
        replay(path)


def test_one_of_a_newer_version_is_not_guessed_at(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"type":"meta","n":0,"version":99}\n')
    with pytest.raises(BotError, match="newer version"):
        replay(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    session = start_session(tmp_path_factory.mktemp("cut"), says("Looking.", LOOK), says("Seen."))
    ask(session, "more", says("", ToolCall("c9", "look", {"path": "z"})), says("That is all."))
    session.close()
    return session


class TestCutAnywhere:
    """kill -9 at any byte: the file ends there."""

    @pytest.mark.thorough
    def test_what_was_whole_before_the_cut_is_there_and_every_call_has_a_result(self, whole, tmp_path):
        data = whole.path.read_bytes()
        for end in sample(range(data.index(b"\n") + 1, len(data) + 1), 3):
            cut = tmp_path / "cut.jsonl"
            cut.write_bytes(data[:end])
            found = replay(cut)
            assert found.problems == []
            known = found.messages
            assert known[:-2] == whole.messages[: len(known[:-2])]  # what stands last may be half of what it was
            for place, message in enumerate(known):
                if getattr(message, "calls", ()):
                    assert isinstance(known[place + 1], ToolResults)

    @given(st.data())
    def test_bytes_of_any_kind_never_raise_more_than_a_boterror(self, whole, tmp_path_factory, data):
        content = whole.path.read_bytes()
        place = data.draw(st.integers(0, len(content)))
        path = tmp_path_factory.mktemp("noise") / "noise.jsonl"
        path.write_bytes(content[:place] + data.draw(st.binary(max_size=20)) + content[place:])
        with suppress(BotError):
            replay(path)
