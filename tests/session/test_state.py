"""The fold of a journal's records: a live session and the replay of its journal have the same state."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import asdict

from src.agent.loop import AgentLoop
from src.errors import StreamCut
from src.security.permissions.approval import APPROVE_ALL
from src.session.journal import Record
from src.session.replay import replay
from src.session.session import Session
from src.session.state import NOT_KNOWN, SessionState
from src.tools import REGISTRY
from src.types.events import CallFinished, CallStarted, Compacted
from src.types.file_names import FileChange, FileState
from src.types.messages import ToolCall, ToolResult, ToolResults, UserMessage
from tests.doubles import POLICY, ScriptedModel, context, perform, says
from tests.each import check_rows

from .doubles import SYSTEM, ask, open_store, restore_file, resume_session, start_session

SOW, REAP = ({"todos": [{"content": word, "status": "pending"}]} for word in ("sow", "reap"))


def write_todos(session, *arguments, name="todo_write"):
    """One turn in which the model calls the tool with each of these arguments."""
    turns = [says("", ToolCall(f"c{place}", name, each)) for place, each in enumerate(arguments)]
    agent = AgentLoop(ScriptedModel(*turns, says("Noted.")), REGISTRY, context(), APPROVE_ALL, POLICY)
    session.messages.append(UserMessage("go"))
    for _ in session.follow(perform(agent.run(session.messages))):
        pass


def summarize(session, kept, *, by_hand=True):
    """Events of a compaction that keeps the last `kept` messages; nothing if it would part a call from its results."""
    before = len(session.messages)
    if not 0 < kept < before - 1 or isinstance(session.messages[before - kept], ToolResults):
        return
    summary = UserMessage("We talked.")
    session.messages[1 : before - kept] = [summary]
    yield Compacted(summary, before, kept, by_hand)


def drain(events):
    for _ in events:
        pass


class Live:
    """A session with operations; each answers with the session to go on with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = start_session(folder)

    def ask(self) -> None:
        ask(self.session, "look", says("Looking.", ToolCall("c1", "look", {"path": "a"})), says("Seen."))

    def ask_for_two_calls_of_one_id(self) -> None:
        calls = [ToolCall("c1", "look", {"path": path}) for path in "ab"]
        ask(self.session, "look", says("", *calls), says("Seen."))

    def get_an_empty_answer(self) -> None:
        ask(self.session, "hi", says(""), says("Yes."))

    def lose_the_server(self) -> None:
        with suppress(StreamCut):
            ask(self.session, "hi", StreamCut("cut"))
        self.session.forget_last(self.session.messages[-1])

    def get_half_an_answer(self) -> None:
        with suppress(StreamCut):
            ask(self.session, "hi", StreamCut("cut"), partial="Half an")

    def write_todos(self) -> None:
        write_todos(self.session, SOW, REAP)

    def write_files(self) -> None:
        self._write("a.txt", "b.txt", "a.txt")

    def interrupt_a_write(self) -> None:
        with suppress(KeyboardInterrupt):
            self._write("a.txt", error=KeyboardInterrupt())

    def _write(self, *paths: str, error: BaseException | None = None) -> None:
        call, result = ToolCall("w1", "write", {}), ToolResult("w1", "write", "text", "done")

        def events():
            self.session.messages.append(says("", call))
            try:
                yield CallStarted(call)
                for path in paths:
                    file = self.folder / path
                    self.session.record_write(path, file.read_bytes() if file.exists() else None)
                    file.write_text(f"{path} of {len(self.session.messages)}")
                if error:
                    raise error
                yield CallFinished(call, result)
            finally:
                self.session.messages.append(ToolResults((result,)))

        self.session.messages.append(UserMessage("write"))
        drain(self.session.follow(events()))

    def summarize(self) -> None:
        drain(self.session.follow(summarize(self.session, 2)))

    def summarize_in_a_turn(self) -> None:
        def turn():
            yield from summarize(self.session, 1, by_hand=False)
            self.session.messages.append(says("Done."))

        self.session.messages.append(UserMessage("more"))
        drain(self.session.follow(turn()))

    def undo(self) -> None:
        self.session.undo(restore_file)

    def redo(self) -> None:
        self.session.redo(restore_file)

    def change_files(self) -> None:
        self.session.record_changes(
            [FileChange("c.txt", None, FileState(0o100644, "x"))], lambda _: b"", is_complete=True
        )

    def rename(self) -> None:
        self.session.rename(f"name {len(self.session.messages)}")

    def reopen(self) -> None:
        self.session.close()
        self.session = resume_session(self.folder, self.session)

    def reopen_after_a_kill(self) -> None:
        self.session.close()
        with self.session.path.open("ab") as file:
            file.write(b'{"type":"delta","n":9999,"te')
        self.session = resume_session(self.folder, self.session)

    def fork(self) -> None:
        self.session.close()
        self.session = self.session.fork(open_store(self.folder).create_journal())


ONLY_FOR_REPLAY = {"keep_records", "records", "_response", "_todo_calls"}


def select_compared(value: Any) -> Any:
    """The state as plain values, without what only a replay keeps beside it."""
    if isinstance(value, Struct):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: select_compared(each) for key, each in value.items() if key not in ONLY_FOR_REPLAY}
    return [select_compared(each) for each in value] if isinstance(value, (list, tuple)) else value


OPERATIONS = [name for name in vars(Live) if not name.startswith("_")]


@given(st.lists(st.sampled_from(OPERATIONS), max_size=12))
def test_the_state_of_a_replayed_journal_is_that_of_the_live_session(tmp_path_factory, operations):
    live = Live(tmp_path_factory.mktemp("live"))
    live.ask()
    for name in operations:
        getattr(live, name)()
    found = replay(live.session.path)
    assert found.problems == []
    assert select_compared(found.state) == select_compared(live.session.state)
    assert found.messages == live.session.messages
    live.session.close()


def fold(*records):
    """The state after records, given as kind and fields; their numbers count from 0."""
    state = SessionState()
    for number, (kind, fields) in enumerate(records):
        state.apply(Record(kind, number, fields))
    return state


def message(text):
    return {"message": {"type": "user", "text": text}}


META, USER, RESPONSE = ("meta", {"version": 1}), ("user", message("hi")), ("response", {})


class TestFold:
    def test_an_undo_removes_what_came_since(self):
        state = fold(META, USER, RESPONSE, ("write", {"path": "a"}), ("undo", {"to": 1}))
        assert (state.entries, state.points, state.writes, state.open_writes, state.next) == ([], [], [], [], 5)

    def test_an_undo_keeps_the_last_name(self):
        assert fold(META, USER, ("rename", {"name": "a"}), ("rename", {"name": "b"}), ("undo", {"to": 1})).name == "b"

    def test_an_undo_shows_again_what_a_compaction_hid(self):
        records = META, USER, RESPONSE, USER, RESPONSE
        state = fold(*records, ("compaction", {"keep": 1, "by_hand": True}), ("undo", {"to": 5}))
        assert state.visible == fold(*records).visible

    def test_a_compaction_hides_all_but_the_system_prompt_and_the_last_messages(self):
        state = fold(META, ("system", {}), USER, RESPONSE, USER, RESPONSE, ("compaction", {"keep": 2}))
        assert [entry.number for entry in state.visible] == [1, 6, 4, 5]

    def test_a_response_with_calls_counts_as_two_messages(self):
        assert fold(META, USER, RESPONSE, ("call", {"id": "c"}), ("result", {})).size == 3

    def test_a_cut_ends_the_turns_that_began_with_what_it_removes(self):
        state = fold(META, USER, RESPONSE, USER, ("cut", {"drop": 1}))
        assert (state.turns, state.size) == (1, 2)

    def test_a_cut_never_reaches_beyond_a_compaction(self):
        state = fold(META, USER, RESPONSE, USER, ("compaction", {"keep": 1}), ("cut", {"drop": 9}))
        assert ([entry.kind for entry in state.visible], state.turns) == (["compaction"], 2)

    def test_the_pieces_of_an_answer_are_one_entry_until_it_is_complete(self):
        pieces = ("delta", {"text": "a"}), ("delta", {"text": "b"})
        assert [entry.kind for entry in fold(META, USER, *pieces).visible] == ["user", "delta"]
        assert [entry.kind for entry in fold(META, USER, *pieces, RESPONSE).visible] == ["user", "response"]

    def test_a_file_written_twice_by_one_call_has_two_results(self):
        write, wrote = ("write", {"path": "a"}), ("wrote", {"path": "a", "after": "x"})
        assert [each.after for each in fold(META, USER, write, write, wrote, wrote).writes] == [FileState(0, "x")] * 2

    def test_what_is_written_after_a_resume_is_not_of_the_call_that_was_stopped(self):
        state = fold(META, USER, ("write", {"path": "a"}), ("resumed", {}), ("wrote", {"path": "a", "after": "x"}))
        assert [each.after for each in state.writes] == [NOT_KNOWN]

    @check_rows(
        "kind, fields",
        [
            *(("undo", {"to": to}) for to in (None, "1", 0, -1)),
            *(("compaction", {"keep": keep}) for keep in (None, "1")),
            *(("cut", {"drop": drop}) for drop in (None, [])),
            *(("todos", {"arguments": arguments}) for arguments in (None, [])),
            *(("result", {"result": result}) for result in (None, {"name": "todo_write", "tool_call_id": []})),
            ("newer", {}),
        ],
    )
    def test_a_record_with_impossible_fields_or_of_an_unknown_kind_changes_nothing(self, kind, fields):
        before = fold(META, USER, RESPONSE)
        before.next += 1
        after = fold(META, USER, RESPONSE, (kind, fields))
        for entry in after.entries:
            entry.size = 1
        assert select_compared(after) == select_compared(before)

    @check_rows("kind", ["call", "result", "delta", "wrote", "cut", "compaction", "undo", "response"])
    def test_no_record_needs_another_before_it(self, kind):
        fold((kind, {"keep": 1, "drop": 1, "to": 1, "result": {"name": "todo_write"}}))


class TestTodos:
    @pytest.fixture(params=["live", "resumed"])
    def read(self, request, tmp_path):
        """The list of things to do of the session, live or after another start of the program."""

        def todos(session):
            if request.param == "live":
                return session.state.last_todos
            session.close()
            return resume_session(tmp_path, session).state.last_todos

        return todos

    def test_the_last_call_counts(self, tmp_path, read):
        session = start_session(tmp_path)
        write_todos(session, SOW, REAP)
        assert read(session) == REAP

    def test_a_call_by_another_name_counts(self, tmp_path, read):
        session = start_session(tmp_path)
        write_todos(session, SOW, name="write_todos")
        assert read(session) == SOW

    def test_a_call_that_failed_does_not_count(self, tmp_path, read):
        session = start_session(tmp_path)
        write_todos(session, SOW, {"todos": "everything"})
        assert read(session) == SOW

    def test_a_call_that_was_undone_does_not_count(self, tmp_path, read):
        session = start_session(tmp_path)
        write_todos(session, SOW)
        write_todos(session, REAP)
        session.undo(restore_file)
        assert read(session) == SOW

    def test_a_call_that_was_summarized_counts(self, tmp_path, read):
        session = start_session(tmp_path)
        write_todos(session, SOW)
        drain(session.follow(summarize(session, 1)))
        assert read(session) == SOW

    @pytest.mark.parametrize("summarized", [False, True])
    def test_a_fork_has_them(self, tmp_path, read, summarized):
        session = start_session(tmp_path)
        write_todos(session, SOW)
        if summarized:
            drain(session.follow(summarize(session, 1)))
        assert read(session.fork(open_store(tmp_path).create_journal())) == SOW

    def test_a_copy_of_a_session_that_is_open_has_them(self, tmp_path, read):
        session = start_session(tmp_path)
        write_todos(session, SOW)
        copy = Session.copy(session.path, SYSTEM, tmp_path, open_store(tmp_path).create_journal())
        assert read(copy) == SOW

    def test_without_a_call_there_are_none(self, tmp_path, read):
        assert read(start_session(tmp_path, says("Hello."))) is None
