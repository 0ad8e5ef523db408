import json
import os
import socket
import sqlite3
import tempfile
from pathlib import Path

import pytest

from src.errors import BotError
from src.session.index import FILE_NAME, MAX_JOURNAL_BYTES, Index
from src.types.messages import ToolCall, UserMessage
from tests.doubles import says

from .doubles import SYSTEM, ask, open_store, start_session


@pytest.fixture
def two(tmp_path):
    """Two sessions of one folder: of wheat, then of barley."""
    made = []
    for question, answer in (("what of wheat?", "Wheat is grown."), ("and barley?", "Barley is malted.")):
        session = start_session(
            tmp_path, says("", ToolCall("c", "look", {"path": question})), says(answer), question=question
        )
        session.close()
        made.append(session)

    for place, session in enumerate(made):
        os.utime(session.path, (1_000_000 + place, 1_000_000 + place))
    return made


def test_no_two_sessions_have_one_id(tmp_path, monkeypatch):
    drawn = iter([b"aaaa", b"aaaa", b"bbbb"])
    monkeypatch.setattr(os, "urandom", lambda count: next(drawn))
    store = open_store(tmp_path, now=lambda: 0.0)
    first = store.create_journal().path
    first.parent.mkdir(parents=True)
    first.touch()
    assert store.create_journal().path != first


def test_the_list_has_the_last_used_first(tmp_path, two):
    assert [(each.id, each.title, each.turns) for each in open_store(tmp_path).list_sessions()] == [
        (two[1].id, "and barley?", 1),
        (two[0].id, "what of wheat?", 1),
    ]


def test_a_word_is_found_wherever_it_was_said(tmp_path, two):
    found = open_store(tmp_path).search("malted")
    assert [(each.session.id, each.speaker, each.snippet) for each in found] == [
        (two[1].id, "model", "Barley is malted.")
    ]
    assert {each.speaker for each in open_store(tmp_path).search("wheat")} == {"you", "model", "tool"}


@pytest.mark.parametrize("words", ['"', "barley AND", "bar*", "(", "NEAR", "", "-x", "col:on"])
def test_any_words_may_be_searched_for(tmp_path, two, words):
    open_store(tmp_path).search(words)


def test_without_full_text_search_texts_are_scanned(tmp_path, two):
    with Index(tmp_path / "state" / "sessions") as index:
        index._has_full_text = False
        assert [each.snippet for each in index.search("IS malted", 5)] == ["Barley is malted."]


def test_what_was_said_since_is_found(tmp_path, two):
    session, _ = open_store(tmp_path).resume(two[0].id, SYSTEM, tmp_path)
    open_store(tmp_path).list_sessions()
    ask(session, "rye?", says("Rye is hardy."))
    assert open_store(tmp_path).search("hardy")
    assert open_store(tmp_path).list_sessions()[0].turns == 2


def test_of_a_very_long_journal_the_beginning_is_indexed(tmp_path, two):
    first = two[0]
    with first.path.open("r+b") as file:
        question = file.read().splitlines(keepends=True)[2]
        file.truncate(MAX_JOURNAL_BYTES)  # zeros, as far as the index reads
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + question.replace(b"wheat", b"sorghum"))
    assert first.id in [each.id for each in open_store(tmp_path).list_sessions()]
    assert open_store(tmp_path).search("sorghum") == []


@pytest.mark.parametrize("damage", [b"", b"rubbish" * 1000, None])
def test_the_index_is_made_again_from_the_journals(tmp_path, two, damage):
    path = tmp_path / "state" / "sessions" / FILE_NAME
    before = open_store(tmp_path).list_sessions()
    path.unlink() if damage is None else path.write_bytes(damage)
    assert open_store(tmp_path).list_sessions() == before
    assert open_store(tmp_path).search("malted")


def test_an_index_of_another_shape_is_made_again(tmp_path, two):
    path = tmp_path / "state" / "sessions" / FILE_NAME
    with sqlite3.connect(path) as database:
        database.execute("create table sessions(id text)")
    database.close()
    assert len(open_store(tmp_path).list_sessions()) == 2


@pytest.mark.parametrize(
    "meta", [{"created": 10**30}, {"created": float("inf")}, {"created": -1}, {"model": "\ud800"}, {"workspace": [1]}]
)
def test_whatever_a_journal_says_of_itself_it_is_listed(tmp_path, meta):
    session = open_store(tmp_path).create(SYSTEM, tmp_path, meta)
    session.state.meta.update(meta)
    ask(session, "caf\udce9?", says("1"))
    session.close()
    assert [each.title for each in open_store(tmp_path).list_sessions()] == ["caf??"]


def test_only_the_user_can_read_the_index(tmp_path, two):
    open_store(tmp_path).list_sessions()
    assert (tmp_path / "state" / "sessions" / FILE_NAME).stat().st_mode & 0o777 == 0o600


class TestAJournalThatCannotBeResumed:
    NEWER = b'{"type":"meta","n":0,"version":99,"workspace":%s}\n'

    def write_newer(self, folder):
        """A journal of a newer version in this folder, used last."""
        path = open_store(folder).journal_path("newer")
        path.write_bytes(self.NEWER % json.dumps(str(folder)).encode())
        return path.stem

    def test_is_listed_with_the_reason(self, tmp_path, two):
        newer = self.write_newer(tmp_path)
        first = open_store(tmp_path).list_sessions()[0]
        assert (first.id, first.workspace) == (newer, str(tmp_path))
        assert first.problem == "was written by a newer version of the program"

    @pytest.mark.parametrize("name", ["newer", "new", ""])
    def test_of_a_newer_version_is_refused_and_no_older_one_is_taken(self, tmp_path, two, name):
        self.write_newer(tmp_path)
        with pytest.raises(BotError, match="newer version of the program") as refused:
            open_store(tmp_path).resume(name, SYSTEM, tmp_path)
        assert refused.value.hint == "Install that version to resume it."

    def test_is_listed_as_any_other_once_it_can_be(self, tmp_path, two):
        content = two[0].path.read_bytes()
        two[0].path.write_bytes(b"")
        os.utime(two[0].path, (1_000_000, 1_000_000))
        assert [each.problem for each in open_store(tmp_path).list_sessions()] == [
            "",
            "is not the journal of a session",
        ]
        two[0].path.write_bytes(content)
        os.utime(two[0].path, (1_000_000, 1_000_000))
        assert [each.problem for each in open_store(tmp_path).list_sessions()] == ["", ""]

    def test_is_not_deleted_because_it_is_old(self, tmp_path, two):
        self.write_newer(tmp_path)
        os.utime(open_store(tmp_path).journal_path("newer"), (1_000_000, 1_000_000))
        assert "newer" not in open_store(tmp_path).clean(1)


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_device, Path.mkdir])
def test_what_is_no_file_among_the_journals_is_told_and_never_waited_for(two, make):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's path has few bytes
        store = open_store(Path(short))
        store.folder.mkdir(parents=True)
        make(store.journal_path("odd"))
        (listed,) = store.list_sessions()
        assert listed.problem.startswith("cannot be read: ")
        with pytest.raises(BotError, match="cannot be "):
            store.resume("odd", SYSTEM, Path(short))


class TestWhichIsMeant:
    def test_by_its_id_the_beginning_of_it_or_its_name(self, tmp_path, two):
        session, _ = open_store(tmp_path).resume(two[0].id, SYSTEM, tmp_path)
        session.rename("Grain")
        session.close()
        for wanted in (two[0].id, "Grain", "gra"):
            assert open_store(tmp_path).find(wanted) == two[0].id

    def test_by_nothing_the_last_of_this_folder_and_of_no_other(self, tmp_path, two):
        assert open_store(tmp_path).find("", tmp_path) == two[1].id
        with pytest.raises(BotError, match="no session of .*elsewhere"):
            open_store(tmp_path).find("", tmp_path / "elsewhere")

    def test_one_in_which_nothing_was_answered_is_not_the_last(self, tmp_path, two):
        session = open_store(tmp_path).create(SYSTEM, tmp_path, {"workspace": str(tmp_path)})
        session.messages.append(lost := UserMessage("lost"))
        for _ in session.follow(each for each in ()):
            pass
        session.forget_last(lost)
        session.close()
        assert open_store(tmp_path).find("", tmp_path) == two[1].id
        assert session.id not in [each.id for each in open_store(tmp_path).list_sessions()]
        assert open_store(tmp_path).find(session.id) == session.id

    def test_where_several_are_meant_none_is_taken(self, tmp_path, two):
        beginning = two[0].id[:4]  # the year
        with pytest.raises(BotError, match="may be 2 sessions"):
            open_store(tmp_path).find(beginning)

    def test_no_name_at_all_names_none(self, tmp_path, two):
        with pytest.raises(BotError, match="No session was named"):
            open_store(tmp_path).find("")

    def test_one_that_is_not_there_is_an_error(self, tmp_path, two):
        with pytest.raises(BotError, match="no session 'rye'"):
            open_store(tmp_path).find("rye")

    def test_a_folder_whose_name_is_no_text_has_its_last_one(self, tmp_path):
        folder = tmp_path / "caf\udce9"
        session = open_store(tmp_path).create(SYSTEM, folder, {"workspace": str(folder), "model": "tiny"})
        ask(session, "hi", says("1"))
        session.close()
        assert open_store(tmp_path).find("", folder) == session.id

    def test_where_there_is_none_it_says_so(self, tmp_path):
        with pytest.raises(BotError, match="no session yet"):
            open_store(tmp_path).find("")
        assert open_store(tmp_path).list_sessions() == []


class TestDeleting:
    def test_a_deleted_session_is_gone_with_its_files(self, tmp_path, two):
        session, _ = open_store(tmp_path).resume(two[0].id, SYSTEM, tmp_path)
        session.record_write("a", b"old")
        session.close()
        open_store(tmp_path).delete(two[0].id)
        assert [each.id for each in open_store(tmp_path).list_sessions()] == [two[1].id]
        assert not session.path.with_suffix(".files").exists()
        assert open_store(tmp_path).search("wheat") == []

    def test_one_that_is_open_stays(self, tmp_path, two):
        session, _ = open_store(tmp_path).resume(two[0].id, SYSTEM, tmp_path)
        with pytest.raises(BotError, match="open elsewhere"):
            open_store(tmp_path).delete(session.id)

    def test_cleaning_takes_what_was_not_used_and_has_no_name(self, tmp_path, two):

        session, _ = open_store(tmp_path).resume(two[0].id, SYSTEM, tmp_path)
        session.rename("keep me")
        session.close()
        os.utime(session.path, (0, 0))
        later = open_store(tmp_path, now=lambda: 1_000_001 + 30 * 24 * 3600 + 1)
        assert later.clean(30) == [two[1].id]
        assert [each.id for each in later.list_sessions()] == [two[0].id]


def test_an_index_that_cannot_be_written_is_made_in_memory(tmp_path, two):
    path = tmp_path / "state" / "sessions" / FILE_NAME
    path.mkdir()
    assert len(open_store(tmp_path).list_sessions()) == 2


def test_a_journal_that_cannot_be_deleted_is_an_error(tmp_path, two):
    two[0].path.unlink()
    two[0].path.mkdir()
    with pytest.raises(BotError, match="cannot be deleted"):
        open_store(tmp_path).delete(two[0].id)
