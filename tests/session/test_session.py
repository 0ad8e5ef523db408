import hashlib
import os
import time
from pathlib import Path

import pytest

from src.agent.loop import AgentLoop
from src.errors import BotError, StreamCut
from src.security.permissions.approval import APPROVE_ALL
from src.security.text.redact import redact
from src.session.replay import replay
from src.session.session import MAX_PARTIAL_CHARS, TOO_LONG, Session
from src.session.snapshots import MAX_UNUSED_S
from src.session.state import NOT_KNOWN
from src.types.call_results import NOT_RUN, UNKNOWN
from src.types.events import CallStarted, Compacted, Notice, TextDelta
from src.types.file_names import FileChange, FileState
from src.types.messages import Response, SystemMessage, Text, ToolCall, ToolResult, ToolResults, UserMessage
from src.types.process import StartedProcess
from tests.doubles import POLICY, ScriptedModel, context, perform, says, toolbox

from .doubles import SYSTEM, ask, open_store, restore_file, resume_session, start_session

LOOK = ToolCall("c1", "look", {"path": "a"})
CHANGE = ToolCall("c2", "change", {"path": "b"})


class TestResuming:
    def test_the_resumed_conversation_equals_the_first(self, tmp_path):
        session = start_session(tmp_path, says("Looking.", LOOK, CHANGE), says("Done."))
        ask(session, "and?", says("That is all."))
        session.close()
        assert resume_session(tmp_path).messages == session.messages

    def test_it_goes_on_and_is_resumed_again(self, tmp_path):
        start_session(tmp_path, says("1")).close()
        second = resume_session(tmp_path)
        ask(second, "more", says("2"))
        second.close()
        assert resume_session(tmp_path).messages == [
            *SYSTEM,
            UserMessage("hi"),
            says("1"),
            UserMessage("more"),
            says("2"),
        ]

    def test_the_system_prompt_is_that_of_today(self, tmp_path):
        start_session(tmp_path, says("1")).close()
        today = [SystemMessage("You help better.")]
        assert open_store(tmp_path).resume("", today, tmp_path)[0].messages[0] is today[0]

    def test_the_environment_stays_as_it_was_told_so_that_the_prompt_keeps_its_bytes(self, tmp_path):
        before, now = ("You help.\n\nEnvironment: today is " + day for day in ("Monday", "Tuesday"))
        session = open_store(tmp_path).create([SystemMessage(before)], tmp_path, {})
        ask(session, "hi", says("1"))
        session.close()
        store = open_store(tmp_path)
        resumed, _ = store.resume(session.id, [SystemMessage(now)], tmp_path)
        assert resumed.messages[0].text == before
        resumed.close()
        changed = SystemMessage(f"{now}\n\nBe brief.")
        assert store.resume(session.id, [changed], tmp_path)[0].messages[0] == changed

    def test_a_conversation_in_which_nothing_was_asked_leaves_no_file(self, tmp_path):
        start_session(tmp_path).close()
        assert not (tmp_path / "state").exists()

    def test_prompts_of_the_loop_are_not_turns_of_the_user(self, tmp_path):
        start_session(tmp_path, says(""), says("Yes.")).close()  # an empty answer is asked about
        session = resume_session(tmp_path)
        assert session.undo(restore_file).question == "hi"
        assert session.messages == SYSTEM

    def test_in_another_folder_it_says_where_the_tools_work(self, tmp_path):
        start_session(tmp_path, says("1")).close()
        (tmp_path / "other").mkdir()
        session = open_store(tmp_path).list_sessions()[0].id
        _, notices = open_store(tmp_path).resume(session, SYSTEM, tmp_path / "other")
        assert notices == [f"This conversation took place in {tmp_path}; the tools now work in {tmp_path / 'other'}."]

    def test_it_is_locked_before_it_is_read(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        session.close()
        session.path.write_bytes(b"rubbish")
        for _ in range(2):  # and left again where it cannot be read
            with pytest.raises(BotError, match="not the journal"):
                Session.resume(session.path, SYSTEM, tmp_path)

    def test_the_name_comes_back(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        session.rename("parser")
        session.close()
        assert resume_session(tmp_path).state.name == "parser"

    def test_a_name_given_after_a_turn_stays_when_the_turn_is_undone(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        session.rename("parser")
        session.undo(restore_file)
        session.close()
        assert resume_session(tmp_path).state.name == "parser"

    def test_a_fork_goes_its_own_way(self, tmp_path):
        session = start_session(tmp_path, says("1", LOOK), says("2"))
        fork = session.fork(open_store(tmp_path).create_journal())
        ask(fork, "more", says("3"))
        session.close(), fork.close()
        assert resume_session(tmp_path, session).messages == session.messages
        assert resume_session(tmp_path, fork).messages == [*session.messages, UserMessage("more"), says("3")]


class TestInterrupted:
    def test_the_partial_text_of_an_answer_is_restored(self, tmp_path):
        session = start_session(tmp_path)
        with pytest.raises(StreamCut):
            ask(session, "hi", StreamCut("cut"), partial="Half an")
        session.close()
        assert resume_session(tmp_path).messages[1:] == [UserMessage("hi"), Response((Text("Half an"),), "other")]

    def killed(self, tmp_path, *turns, after, partial="Half an"):
        """The journal as it is when the process dies at an event: nothing is closed, nothing tidied."""
        session = start_session(tmp_path)
        registry, ran = toolbox()
        agent = AgentLoop(ScriptedModel(*turns, partial=partial), registry, context(), APPROVE_ALL, POLICY)
        session.messages.append(UserMessage("hi"))
        events = session.follow(perform(agent.run(session.messages)))
        for event in events:
            if after(event):
                break
        journal = session.path.read_bytes()
        events.close()
        session.close()
        session.path.write_bytes(journal)
        return session, ran

    def test_at_most_one_piece_of_an_answer_is_lost_when_the_process_dies(self, tmp_path):
        partial = "word " * 200
        self.killed(
            tmp_path, StreamCut("never"), after=lambda event: getattr(event, "text", "") == partial, partial=partial
        )
        assert resume_session(tmp_path).messages[1:] == [UserMessage("hi"), Response((Text(partial),), "other")]

    def test_on_demand_a_smaller_piece_is_saved_too_but_for_its_last_word(self, tmp_path):
        session = start_session(tmp_path, redact=redact)
        session.messages.append(UserMessage("hi"))
        events = session.follow(TextDelta(text) for text in ("It is", " so"))
        next(events)
        next(events)
        session.save_waiting()
        session.save_waiting()
        kept = resume_session(tmp_path).messages[-1]  # a copy, since it is open
        assert kept == Response((Text("It is "),), "other")
        events.close()
        session.close()

    def test_an_endless_answer_is_saved_up_to_a_limit_with_a_notice(self, tmp_path):
        session = start_session(tmp_path)
        session.messages.append(UserMessage("hi"))
        pieces = (TextDelta("word " * 20_000) for _ in range(MAX_PARTIAL_CHARS // 100_000 + 5))
        shown = list(session.follow(pieces))
        session.close()
        assert shown.count(Notice(TOO_LONG)) == 1
        assert session.path.stat().st_size < 1.1 * MAX_PARTIAL_CHARS
        assert len(resume_session(tmp_path).messages[-1].text) == MAX_PARTIAL_CHARS

    def test_a_call_that_had_begun_is_reported_as_unknown_and_one_that_had_not_as_not_run(self, tmp_path):
        started = lambda event: event == CallStarted(LOOK)  # noqa: E731
        _, ran = self.killed(tmp_path, says("", LOOK, CHANGE), after=started)
        assert ran == []
        session, notices = open_store(tmp_path).resume("", SYSTEM, tmp_path)
        assert session.messages[-1] == ToolResults(
            (ToolResult("c1", "look", "error", UNKNOWN), ToolResult("c2", "change", "error", NOT_RUN))
        )
        assert "look, change" in notices[0]

    def test_an_outcome_is_reported_once(self, tmp_path):
        self.killed(tmp_path, says("", LOOK), after=lambda event: event == CallStarted(LOOK))
        first = resume_session(tmp_path)
        first.close()
        second, notices = open_store(tmp_path).resume("", SYSTEM, tmp_path)
        assert second.messages == first.messages
        assert notices == []

    def test_a_process_of_the_last_calls_that_still_lives_is_named(self, tmp_path):
        session = start_session(tmp_path)
        session.messages.append(UserMessage("hi"))
        server = StartedProcess(71, "now 5", "make serve")
        for process in (server, StartedProcess(72, "now 6", "ls")):
            session.record_process(process)
        session.close()
        asked = []

        def find_living(known):
            asked.extend(known)
            return {server: [71, 75]}

        resumed, notices = open_store(tmp_path, find_living=find_living).resume("", SYSTEM, tmp_path)
        assert [each.pid for each in asked] == [71, 72]
        assert notices == ["Still running from before: make serve (`kill 71 75` ends it)."]
        assert resumed.state.processes == session.state.processes

    def test_a_process_of_an_earlier_answer_is_not_looked_for(self, tmp_path):
        session = start_session(tmp_path)
        session.record_process(StartedProcess(71, "now 5", "ls"))
        ask(session, "hi", says("done"))
        assert session.state.processes == []

    def test_a_process_in_the_background_is_looked_for_until_its_end_and_the_model_is_told(self, tmp_path):
        session = start_session(tmp_path)
        ended, running = StartedProcess(71, "now 5", "ls", 1), StartedProcess(72, "now 6", "make serve", 2)
        for process in (ended, running):
            session.record_process(process)
        session.record_process(ended, has_ended=True)
        ask(session, "hi", says("done"))
        session.close()
        resumed, notices = open_store(tmp_path, find_living=lambda known: {each: [72] for each in known}).resume(
            "", SYSTEM, tmp_path
        )
        assert notices == [
            "Commands in the background ended with the program: make serve.",
            "Still running from before: make serve (`kill 72` ends it).",
        ]
        assert resumed.notes == ["[these background commands ended with the program: make serve]"]
        assert resumed.state.processes == []

    def test_a_process_record_that_is_damaged_changes_nothing(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        session._append("process", {"pid": "x"})
        session.close()
        assert resume_session(tmp_path).state.processes == []

    def test_a_question_without_an_answer_is_removed(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        asked = UserMessage("lost")
        session.messages.append(asked)
        with pytest.raises(StreamCut):
            for _ in session.follow(failing()):
                pass
        session.forget_last(asked)
        session.close()
        resumed = resume_session(tmp_path)
        assert resumed.messages == [*SYSTEM, UserMessage("hi"), says("1")]
        assert resumed.undo(restore_file).question == "hi"


def failing():
    raise StreamCut("no server")
    yield


class TestUndo:
    def written(self, tmp_path, session, question, *contents, path="a.txt"):
        """A turn in which a tool writes a file."""

        def events():
            for place, content in enumerate(contents):
                call = ToolCall(f"w{place}", "write", {"path": path})
                session.messages.append(says("", call))
                yield CallStarted(call)
                file = tmp_path / path
                session.record_write(path, file.read_bytes() if file.exists() else None)
                file.write_text(content)
                result = ToolResult(call.id, "write", "text", "ok")
                from src.types.events import CallFinished

                yield CallFinished(call, result)
                session.messages.append(ToolResults((result,)))

        session.messages.append(UserMessage(question))
        for _ in session.follow(events()):
            pass

    def test_the_last_turn_goes_and_the_one_before_stays(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        ask(session, "more", says("", LOOK), says("2"))
        assert session.undo(restore_file).question == "more"
        assert session.messages == [*SYSTEM, UserMessage("hi"), says("1")]
        session.close()
        assert resume_session(tmp_path).messages == session.messages

    def test_nothing_is_left_to_take_back(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        session.undo(restore_file)
        assert session.undo(restore_file) is None

    @pytest.mark.parametrize("resumed", [False, True])
    def test_files_are_as_they_were_before_the_turn(self, tmp_path, resumed):
        (tmp_path / "a.txt").write_text("old")
        session = start_session(tmp_path, says("1"))
        self.written(tmp_path, session, "write", "new", "newer")
        self.written(tmp_path, session, "make", "made", path="b.txt")
        if resumed:
            session.close()
            session = resume_session(tmp_path)
        assert session.undo(restore_file).files.removed == [str(tmp_path / "b.txt")]
        assert not (tmp_path / "b.txt").exists()
        assert session.undo(restore_file).files.restored == [str(tmp_path / "a.txt")]
        assert (tmp_path / "a.txt").read_text() == "old"

    def test_a_file_changed_since_is_left_alone_and_reported(self, tmp_path):
        (tmp_path / "a.txt").write_text("old")
        session = start_session(tmp_path)
        self.written(tmp_path, session, "write", "new")
        (tmp_path / "a.txt").write_text("mine")
        ((path, why),) = session.undo(restore_file).files.skipped
        assert path == str(tmp_path / "a.txt")
        assert "changed since" in why
        assert Path(why.rpartition(" ")[2]).read_text() == "old"
        assert (tmp_path / "a.txt").read_text() == "mine"

    @pytest.mark.parametrize("resumed", [False, True])
    def test_redo_brings_back_turns_and_files_one_by_one(self, tmp_path, resumed):
        (tmp_path / "a.txt").write_text("old")
        session = start_session(tmp_path, says("1"))
        self.written(tmp_path, session, "write", "new")
        self.written(tmp_path, session, "make", "made", path="b.txt")
        messages = list(session.messages)
        for _ in range(2):
            session.undo(restore_file)
        if resumed:
            session.close()
            session = resume_session(tmp_path)
        assert session.redo(restore_file).files.restored == [str(tmp_path / "a.txt")]
        assert session.redo(restore_file).files.restored == [str(tmp_path / "b.txt")]
        assert session.redo(restore_file) is None
        assert session.messages == messages
        assert [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")] == ["new", "made"]
        assert session.undo(restore_file).files.removed == [str(tmp_path / "b.txt")]

    def test_a_new_question_leaves_nothing_to_redo(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        ask(session, "more", says("2"))
        session.undo(restore_file)
        ask(session, "other", says("3"))
        assert session.redo(restore_file) is None

    def test_the_changes_of_a_command_are_undone_and_it_is_not_named(self, tmp_path):
        session = start_session(tmp_path)
        contents = {"1": b"old", "2": b"new"}
        state = {key: FileState(0o100644, hashlib.sha256(content).hexdigest()) for key, content in contents.items()}
        by_digest = {state[key].digest: content for key, content in contents.items()}

        def events(*, is_complete):
            session.messages.append(says("", CHANGE))
            yield CallStarted(CHANGE)
            (tmp_path / "a.txt").write_bytes(b"new")
            (tmp_path / "a.txt").chmod(0o644)
            change = FileChange("a.txt", state["1"], state["2"])
            session.record_changes([change], by_digest.get, is_complete=is_complete)

        for is_complete, named in ((True, []), (False, [CHANGE])):
            session.messages.append(UserMessage("go"))
            for _ in session.follow(events(is_complete=is_complete)):
                pass
            (write,) = session.state.list_writes(1)
            assert [session.read_content(each) for each in (write.before, write.after)] == [b"old", b"new"]
            undone = session.undo(restore_file)
            assert (undone.files.restored, undone.calls) == ([str(tmp_path / "a.txt")], named)
            assert (tmp_path / "a.txt").read_bytes() == b"old"
        assert session.state.list_writes(2) == ()

    def test_what_else_ran_is_named_since_it_is_not_undone(self, tmp_path):
        session = start_session(tmp_path, says("", CHANGE), says("ok"))
        assert session.undo(restore_file).calls == [CHANGE]

    def test_a_call_that_was_changed_is_named_as_it_ran(self, tmp_path):
        session = start_session(tmp_path)
        changed = ToolCall(CHANGE.id, CHANGE.name, {"path": "c"})
        session.messages.append(UserMessage("go"))
        session.messages.append(says("", CHANGE))
        for _ in session.follow(each for each in [CallStarted(changed)]):
            pass
        assert session.undo(restore_file).calls == [changed]

    def test_undo_restores_the_messages_that_a_compaction_hid(self, tmp_path):
        session = start_session(tmp_path, says("1", LOOK), says("2"))
        ask(session, "more", says("3"))
        before = list(session.messages)
        for _ in session.follow(compaction(session, 2)):
            pass
        assert session.messages == [*SYSTEM, UserMessage("so far"), UserMessage("more"), says("3")]
        ask(session, "go on", says("4"))
        session.close()
        resumed = resume_session(tmp_path)
        assert resumed.messages == session.messages
        assert resumed.undo(restore_file).question == "go on"
        assert resumed.undo(restore_file).question == ""
        assert resumed.messages == before

    def test_a_later_reader_sees_the_compacted_messages(self, tmp_path):
        session = start_session(tmp_path, says("1", LOOK), says("2"))
        ask(session, "more", says("3"))
        before = list(session.messages)
        for _ in session.follow(compaction(session, 2)):
            pass
        assert replay(session.path, whole=True).messages == before
        assert open_store(tmp_path).list_sessions()[0].title == "hi"
        assert open_store(tmp_path).search("contents")

    def test_a_copy_of_a_summarized_session_keeps_the_title(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        ask(session, "more", says("2"))
        for _ in session.follow(compaction(session, 1)):
            pass
        copy = session.fork(open_store(tmp_path).create_journal())
        again = copy.fork(open_store(tmp_path).create_journal())
        session.close(), copy.close(), again.close()
        assert [each.title for each in open_store(tmp_path).list_sessions()] == ["hi"] * 3

    def test_a_turn_goes_with_the_compaction_in_it(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        before = list(session.messages)

        def turn():
            yield from compaction(session, 1, by_hand=False)
            session.messages.append(says("2"))

        session.messages.append(UserMessage("more"))
        for _ in session.follow(turn()):
            pass
        assert session.undo(restore_file).question == "more"
        assert session.messages == before

    def test_a_question_that_fails_after_a_compaction_leaves_the_turns_before_it(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        for number in range(3):
            ask(session, f"more {number}", says("ok"))
        before = list(session.messages)
        for _ in session.follow(compaction(session, 1)):
            pass
        session.messages.append(lost := UserMessage("lost"))
        with pytest.raises(StreamCut):
            for _ in session.follow(failing()):
                pass
        session.forget_last(lost)
        session.close()
        for each in (session, resume_session(tmp_path)):
            assert each.state.turns == 4
        assert session.undo(restore_file).question == ""
        assert session.messages == before

    def test_writes_of_an_interrupted_call_are_undone_and_later_ones_are_not(self, tmp_path):
        session = start_session(tmp_path, says("1"))

        def interrupted():
            session.messages.append(says("", LOOK))
            yield CallStarted(LOOK)
            session.record_write("a.txt", None)
            (tmp_path / "a.txt").write_text("new")
            raise KeyboardInterrupt

        session.messages.append(UserMessage("write"))
        with pytest.raises(KeyboardInterrupt):
            for _ in session.follow(interrupted()):
                pass
        (tmp_path / "a.txt").write_text("mine")
        ask(session, "more", says("", LOOK), says("2"))
        session.undo(restore_file)
        assert [path for path, _ in session.undo(restore_file).files.skipped] == [str(tmp_path / "a.txt")]
        assert (tmp_path / "a.txt").read_text() == "mine"


def compaction(session, kept, by_hand=True):
    summary = UserMessage("so far")
    before = len(session.messages)
    session.messages[1 : before - kept] = [summary]
    yield Compacted(summary, before, kept, by_hand)


class TestWhereNothingCanBeWritten:
    def test_the_conversation_goes_on_with_one_warning(self, tmp_path):
        (tmp_path / "state").write_text("in the way")
        session = start_session(tmp_path)
        registry, ran = toolbox()
        notices = []
        for question in ("a", "b"):
            agent = AgentLoop(ScriptedModel(says("", LOOK), says("ok")), registry, context(), APPROVE_ALL, POLICY)
            session.messages.append(UserMessage(question))
            notices += [
                event for event in session.follow(perform(agent.run(session.messages))) if isinstance(event, Notice)
            ]
        assert ran == ["look a", "look a"]
        assert len(notices) == 1
        assert "no longer saved" in notices[0].text
        assert session.undo(restore_file).question == "b"

    def test_a_session_that_is_open_elsewhere_is_continued_as_a_copy(self, tmp_path):
        first = start_session(tmp_path, says("1"))
        second, notices = open_store(tmp_path).resume("", SYSTEM, tmp_path)
        assert second.id != first.id
        assert second.messages == first.messages
        assert "open elsewhere" in notices[0]
        ask(second, "more", says("2"))
        ask(first, "else", says("3"))
        first.close(), second.close()
        assert resume_session(tmp_path, first).messages == first.messages
        assert resume_session(tmp_path, second).messages == second.messages

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
    def test_a_full_disk_is_a_warning(self, tmp_path):
        session = start_session(tmp_path, says("1"))
        os.dup2(os.open("/dev/full", os.O_WRONLY), session._journal._file)
        ask(session, "b", says("2"))
        assert "No space left" in session._journal.broken
        assert session.path is None


def test_only_the_user_can_open_the_journal(tmp_path):
    session = start_session(tmp_path, says("1"))
    session.record_write("a", b"secret")
    kept = session.path.with_suffix(".files")
    assert [path.stat().st_mode & 0o777 for path in (session.path, session.path.parent, kept)] == [0o600, 0o700, 0o700]
    blob = kept / hashlib.sha256(b"secret").hexdigest()
    assert blob.stat().st_mode & 0o777 == 0o600


def test_contents_of_an_unused_session_are_removed_when_another_stores_some(tmp_path):
    old, used = start_session(tmp_path, says("1")), start_session(tmp_path, says("1"))
    for session in (old, used):
        session.record_write("a", b"secret")
        session.close()
    long_ago = time.time() - MAX_UNUSED_S - 60
    for path in (old.path, old.path.with_suffix(".files"), used.path.with_suffix(".files")):
        os.utime(path, (long_ago, long_ago))
    start_session(tmp_path, says("1")).record_write("a", b"secret")
    assert [path.with_suffix(".files").exists() for path in (old.path, used.path)] == [False, True]


def test_a_secret_in_pieces_is_not_written_either(tmp_path):
    key = "sk-" + "a1b2c3d4" * 4
    session = start_session(tmp_path, redact=redact)

    def events():
        for piece in ("The key is ", "sk", "-a1b2", key[7:], " and", " so on" * 50, "."):
            yield TextDelta(piece)

    session.messages.append(UserMessage("hi"))
    for _ in session.follow(events()):
        pass
    session.close()
    assert b"a1b2" not in session.path.read_bytes()
    assert resume_session(tmp_path).messages[-1].text == "The key is [redacted] and" + " so on" * 49 + " so "


def test_secrets_are_redacted_in_what_is_written(tmp_path):
    session = start_session(
        tmp_path, says("The key is k-123."), redact=lambda text: text.replace("k-123", "[redacted]")
    )
    session.close()
    assert b"k-123" not in session.path.read_bytes()
    assert resume_session(tmp_path).messages[-1].text == "The key is [redacted]."


class TestWithoutAJournal:
    def test_a_turn_can_be_undone(self, tmp_path):
        session = Session(SYSTEM, tmp_path)
        ask(session, "hi", says("", LOOK), says("1"))
        session.record_write("a.txt", b"old")
        assert session.undo(restore_file).question == "hi"
        assert (session.messages, session.state.writes, session.path, session.id) == (SYSTEM, [], None, "")
        session.close()

    def test_messages_that_were_summarized_are_not_restored(self, tmp_path):
        session = Session(SYSTEM, tmp_path)
        for question in "ab":
            ask(session, question, says("1"))
        for _ in session.follow(compaction(session, 2)):
            pass
        with pytest.raises(BotError, match="not saved"):
            session.undo(restore_file)


def test_earlier_contents_can_be_read(tmp_path):
    session = start_session(tmp_path, says("1"))
    session.record_write("a.txt", b"old")
    session.record_write("b.txt", None)
    assert [session.read_content(write.before) for write in session.state.writes] == [b"old", None]


def test_a_content_that_cannot_be_saved_ends_the_journal(tmp_path):
    session = start_session(tmp_path, says("1"))
    session.path.with_suffix(".files").write_text("in the way")
    session.record_write("a.txt", b"old")
    assert session.path is None
    session.record_write("a.txt", b"old")
    assert session.state.writes == []
    session.close()


def test_a_file_that_cannot_be_read_afterwards_has_no_hash(tmp_path):
    session = start_session(tmp_path, says("1"))
    (tmp_path / "folder").mkdir()

    def events():
        session.record_write("folder", None)
        yield TextDelta("ok")

    session.messages.append(UserMessage("more"))
    for _ in session.follow(events()):
        pass
    assert [write.after for write in session.state.writes] == [NOT_KNOWN]


class TestALinkInPlaceOfWhatWasWritten:
    @pytest.fixture
    def work(self, tmp_path):
        """A workspace with a folder, and a secret outside."""
        (tmp_path / "work" / "folder").mkdir(parents=True)
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "a").write_text("secret")
        return tmp_path / "work"

    def write_and_swap(self, work, swap):
        """A session in which folder/a was written, and swapped before its new content was saved."""
        session = start_session(work, says("1"))

        def events():
            session.record_write("folder/a", None)
            (work / "folder" / "a").write_text("new")
            swap()
            yield TextDelta("ok")

        session.messages.append(UserMessage("more"))
        for _ in session.follow(events()):
            pass
        return session

    def swap_file(self, work):
        (work / "folder" / "a").unlink()
        (work / "folder" / "a").symlink_to(work.parent / "outside" / "a")

    def swap_folder(self, work):
        (work / "folder").rename(work / "away")
        (work / "folder").symlink_to(work.parent / "outside")

    @pytest.mark.parametrize("swap", [swap_file, swap_folder])
    def test_has_nothing_saved_of_what_it_leads_to(self, swap, work):
        session = self.write_and_swap(work, lambda: swap(self, work))
        assert [write.after for write in session.state.writes] == [NOT_KNOWN]
        assert [each.read_bytes() for each in work.rglob("*.files/*")] == []

    def test_has_nothing_restored_through_it(self, work):
        (work.parent / "outside" / "a").write_text("new")  # as if it were what was written
        session = self.write_and_swap(work, lambda: None)
        self.swap_folder(work)
        ((path, why),) = session.undo(restore_file).files.skipped
        assert (path, why.partition(",")[0]) == (str(work / "folder" / "a"), "it changed meanwhile")
        assert (work.parent / "outside" / "a").exists()
