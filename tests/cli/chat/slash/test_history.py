"""The commands on conversations, typed into a chat that keeps them."""

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.agent.compaction import Compactor
from src.agent.loop import AgentLoop
from src.app.runtime import Runtime
from src.cli.chat.loop import Chat
from src.cli.chat.resume import resume_session
from src.cli.chat.slash.control import INIT_PROMPT
from src.cli.chat.state import ChatIO, State
from src.cli.commands.sessions import read_conversation
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.errors import BotError
from src.security.permissions.approval import APPROVE_ALL
from src.session.export import FORMATS
from src.session.store import Store
from src.tools import REGISTRY
from src.tools.sdk.context import ToolContext
from src.types.messages import ToolCall, UserMessage
from tests.doubles import POLICY, ScriptedModel, says


def write(path, content):
    return ToolCall(f"w-{path}", "write", {"path": path, "content": content})


class Chatting:
    """A chat in the folder, with all tools, in which these lines are typed."""

    def __init__(self, folder: Path, *lines, turns=(), resume=None, pick=None, page=None, added=()):
        self.lines = [*lines, EOFError()]
        self.model = ScriptedModel(*turns)
        self.aside = io.StringIO()
        screen = PlainScreen(io.StringIO(), self.aside, thoughts=False, styled=False)
        settings = Settings(root=folder, added=added)
        self.state = State(settings, screen, Debug(0), self._bot, "tiny", Store(folder / "state"))
        self.state.pick, self.state.page = pick, page
        if resume is not None:
            resume_session(self.state, resume)
        Chat(self.state, ChatIO(self._read)).run()
        self.state.session.close()

    def _bot(self, name):
        def before_write(path, content):
            self.state.session.record_write(path, content)

        settings = self.state.settings
        wired = {"before_write": before_write, "added_folders": settings.added}
        ctx = ToolContext(workspace=settings.root).rewire(**wired)
        policy = replace(POLICY, workspace=settings.root, added=settings.added) if settings.added else POLICY
        compactor = Compactor(self.model, at=None)
        agent = AgentLoop(self.model, REGISTRY, ctx, APPROVE_ALL, policy, compactor=compactor)
        return Runtime(agent, self.model, Settings())

    def _read(self, prompt):
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    @property
    def shown(self):
        return self.aside.getvalue()

    @property
    def questions(self):
        return [[m.text for m in asked.messages if isinstance(m, UserMessage)] for asked in self.model.asked]


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "work"
    root.mkdir()
    return root.resolve()


WRITES = (says("", write("a.txt", "new\n"), write("b.txt", "made\n")), says("Done."))


class TestUndo:
    def test_files_are_put_back_and_the_model_forgets(self, folder):
        (folder / "a.txt").write_text("old\n")
        chat = Chatting(folder, "go", "/undo", "and?", turns=[*WRITES, says("Yes.")])
        assert (folder / "a.txt").read_text() == "old\n"
        assert not (folder / "b.txt").exists()
        assert "Undone: go" in chat.shown
        assert "restored a.txt" in chat.shown
        assert "removed b.txt" in chat.shown
        assert chat.questions[-1] == ["and?"]

    def test_files_in_an_added_folder_are_put_back_too(self, folder, tmp_path):
        added = (tmp_path / "lib").resolve()
        added.mkdir()
        (added / "a.txt").write_text("old\n")
        writes = (says("", write(str(added / "a.txt"), "new\n"), write("../lib/b/c.txt", "made\n")), says("Done."))
        chat = Chatting(folder, "go", "/diff", turns=writes, added=(added,))
        assert (added / "b" / "c.txt").read_text() == "made\n"
        assert "-old" in chat.shown
        chat = Chatting(folder, "/undo", resume=chat.state.session.id, added=(added,))
        assert (added / "a.txt").read_text() == "old\n"
        assert not (added / "b" / "c.txt").exists()

    def test_files_of_a_folder_that_is_not_added_any_more_stay(self, folder, tmp_path):
        added = (tmp_path / "lib").resolve()
        added.mkdir()
        writes = (says("", write(str(added / "a.txt"), "new\n")), says("Done."))
        session = Chatting(folder, "go", turns=writes, added=(added,)).state.session.id
        chat = Chatting(folder, "/undo", resume=session)
        assert f"left {added}/a.txt alone: it is outside the workspace" in chat.shown
        assert (added / "a.txt").exists()

    def test_a_file_changed_since_is_left_alone(self, folder):
        class Meddling(str):
            def strip(self):
                (folder / "b.txt").write_text("mine\n")
                return "/undo"

        chat = Chatting(folder, "go", Meddling(), turns=WRITES)
        assert (folder / "b.txt").read_text() == "mine\n"
        assert "left b.txt alone: it has been changed since" in chat.shown

    def test_effects_of_a_command_are_reported_as_not_undone(self, folder):
        run = ToolCall("x", "exec", {"command": "true"})
        assert 'exec(command="true")' in Chatting(folder, "go", "/undo", turns=[says("", run), says("ok")]).shown

    def test_an_edit_that_changed_nothing_is_not_listed(self, folder):
        edit = ToolCall("x", "edit", {"path": "none.txt", "oldText": "a", "newText": "b"})
        chat = Chatting(folder, "go", "/undo", turns=[says("", edit), says("ok")])
        assert "Undone: go" in chat.shown
        assert "not undone" not in chat.shown

    @pytest.mark.parametrize("stop", [KeyboardInterrupt(), BotError("The server is gone.")])
    def test_a_question_without_an_answer_is_no_turn_and_the_turn_before_it_stays(self, folder, stop):
        chat = Chatting(folder, "one", "two", "/undo", "three", turns=[says("1"), stop, says("3")])
        assert "got no answer, so there is nothing to undo: two" in chat.shown
        assert chat.questions[-1] == ["one", "three"]

    def test_a_second_undo_takes_back_the_turn_before(self, folder):
        chat = Chatting(folder, "one", "two", "/undo", "/undo", turns=[says("1"), KeyboardInterrupt()])
        assert "Undone: one" in chat.shown

    @pytest.mark.parametrize(
        ("count", "asked"), [("2", ["one", "four"]), ("9", ["four"]), ("x", ["one", "two", "three", "four"])]
    )
    def test_several_turns_are_undone_by_their_number(self, folder, count, asked):
        turns = [says(number) for number in "1234"]
        chat = Chatting(folder, "one", "two", "three", f"/undo {count}", "four", turns=turns)
        assert chat.questions[-1] == asked
        assert ("nothing more to undo" in chat.shown) == (count == "9")
        assert ("! x is not a number of turns.\n! /undo 2 undoes the last two.\n" in chat.shown) == (count == "x")

    def test_several_undone_turns_are_done_again_by_their_number(self, folder):
        turns = [says(number) for number in "1234"]
        chat = Chatting(folder, "one", "two", "three", "/undo 2", "/redo 2", "four", turns=turns)
        assert chat.questions[-1] == ["one", "two", "three", "four"]

    def test_nothing_to_take_back(self, folder):
        assert "nothing to undo" in Chatting(folder, "/undo").shown


def test_retry_asks_the_same_again(folder):
    chat = Chatting(folder, "go", "/retry", turns=[says("1"), says("2")])
    assert chat.questions == [["go"], ["go"]]
    undone = Chatting(folder, "go", "/undo", "/retry", turns=[says("1")])
    assert "no question to ask again; /redo brings back" in undone.shown


def test_retry_asks_a_question_that_got_no_answer_and_undoes_nothing(folder):
    chat = Chatting(folder, "one", "two", "/retry", turns=[says("1"), KeyboardInterrupt(), says("2")])
    assert chat.questions[-1] == ["one", "two"]


def test_retry_of_a_question_that_was_summarized_undoes_the_summary_too(folder):
    chat = Chatting(folder, "one", "two", "/compact", "/retry", turns=[says("1"), says("2"), says("sum"), says("3")])
    assert "Undone: the summary" in chat.shown
    assert chat.questions[-1] == ["one", "two"]


def test_retry_reads_a_mentioned_file_again_and_keeps_the_output_of_a_command(folder):
    (folder / "a.txt").write_text("heron")
    chat = Chatting(folder, "!echo stork", "see @a.txt", "/retry", turns=[says("1"), says("2")])
    (first,), (second,) = chat.questions
    assert first == second
    assert (first.count("heron"), first.count("\nstork\n")) == (1, 1)


def test_a_conversation_is_called_by_what_was_typed_and_not_by_what_came_with_it(folder):
    Chatting(folder, "!echo stork", "why?", turns=[says("1")])
    shown = Chatting(folder, "/sessions").shown
    assert "1 turn   why?\n" in shown


class TestDiff:
    def test_it_shows_what_the_tools_changed(self, folder):
        (folder / "a.txt").write_text("old\n")
        shown = Chatting(folder, "go", "/diff", turns=WRITES).shown
        assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n" in shown
        assert "--- /dev/null\n+++ b/b.txt" in shown

    def test_where_nothing_was_written_it_says_so(self, folder):
        assert "No file has been changed" in Chatting(folder, "/diff").shown

    def test_the_diff_of_one_file_has_no_other_one(self, folder):
        shown = Chatting(folder, "go", "/diff a.txt", turns=WRITES).shown
        assert shown.endswith("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+new\n\n")
        assert "nothing.txt has not been changed." in Chatting(folder, "/diff nothing.txt").shown

    def test_without_a_pager_all_is_shown(self, folder):
        long = "".join(f"{number}\n" for number in range(1000))
        shown = Chatting(folder, "go", "/diff", turns=(says("", write("a.txt", long)), says("Done."))).shown
        assert "\n+0\n" in shown
        assert "\n+999\n" in shown

    def test_the_pager_gets_the_diff_of_all_files_at_once(self, folder):
        paged = []
        shown = Chatting(folder, "go", "/diff", turns=WRITES, page=lambda lines: not paged.append(lines)).shown
        assert [line for line in paged[0] if line.startswith("+++")] == ["+++ b/a.txt", "+++ b/b.txt"]
        assert "+++" not in shown


class TestResuming:
    def test_the_last_conversation_goes_on(self, folder):
        Chatting(folder, "my name is Ann", turns=[says("Hello Ann.")])
        chat = Chatting(folder, "who am I?", turns=[says("Ann.")], resume="")
        assert chat.questions == [["my name is Ann", "who am I?"]]
        assert "1 turn, continued here." in chat.shown
        assert "> my name is Ann" in chat.shown

    def test_by_name_from_within_a_chat(self, folder):
        Chatting(folder, "my name is Ann", "/rename people", turns=[says("Hello Ann.")])
        chat = Chatting(folder, "/resume people", "who?", "/new", "who?", turns=[says("Ann."), says("?")])
        assert chat.questions == [["my name is Ann", "who?"], ["who?"]]

    def test_without_a_name_they_are_listed(self, folder):
        Chatting(folder, "my name is Ann", turns=[says("Hello Ann.")])
        assert "my name is Ann" in Chatting(folder, "/resume").shown
        assert "Hello Ann" in Chatting(folder, "/sessions hello").shown
        assert "No conversation found." in Chatting(folder, "/sessions xyzzy").shown

    def test_a_search_leaves_out_the_open_conversation(self, folder):
        assert "No conversation found." in Chatting(folder, "hello", "/sessions hello", turns=[says("Hello.")]).shown

    def test_the_one_of_the_chat_is_not_offered_and_those_of_scripts_come_last(self, folder):
        store = Store(folder / "state")
        for name, one_shot in (("a chat", False), ("a script", True)):
            session = store.create([UserMessage(name), says("ok")], folder, {"one_shot": one_shot})
            assert list(session.follow(each for each in ())) == []
            session.close()
        shown = Chatting(folder, "own question", "/resume", turns=[says("1")]).shown
        assert "own question" not in shown
        assert shown.index("a chat") < shown.index("Questions asked with -p:") < shown.index("a script")

    def test_it_is_picked_from_a_list_that_is_searched(self, folder):
        Chatting(folder, "my name is Ann", turns=[says("Hello Ann.")])
        Chatting(folder, "the weather", turns=[says("It rains.")])
        found = {}

        def pick(title, search):
            found.update({words: [line for _, line in search(words)] for words in ("", "WEATHER", "hello", "xyzzy")})
            return search("ann")[0][0]

        chat = Chatting(folder, "/resume", "who am I?", turns=[says("Ann.")], pick=pick)
        assert chat.questions == [["my name is Ann", "who am I?"]]
        assert ["the weather" in line for line in found[""]] == [True, False]
        assert ["the weather" in line[:40] for line in found["WEATHER"]] == [True]
        assert [line.endswith("model: Hello Ann.") for line in found["hello"]] == [True]
        assert found["xyzzy"] == []

    def test_where_nothing_is_picked_the_chat_stays(self, folder):
        Chatting(folder, "my name is Ann", turns=[says("Hello Ann.")])
        chat = Chatting(folder, "a", "/resume", "b", turns=[says("1"), says("2")], pick=lambda *_: None)
        assert chat.questions[-1] == ["a", "b"]
        assert "No other" in Chatting(folder / "..", "/resume", pick=lambda *_: None).shown

    def test_an_unknown_session_is_an_error_and_the_chat_stays(self, folder):
        chat = Chatting(folder, "a", "/resume xyzzy", "b", turns=[says("1"), says("2")])
        assert "no session 'xyzzy'" in chat.shown
        assert chat.questions[-1] == ["a", "b"]

    def test_another_folder_is_pointed_out(self, folder, tmp_path):
        Chatting(folder, "a", turns=[says("1")])
        other = tmp_path / "other"
        other.mkdir()
        (other / "state").symlink_to(folder / "state")
        [first] = Store(folder / "state").list_sessions()
        assert f"took place in {folder}" in Chatting(other, resume=first.id).shown

    def test_a_fork_leaves_the_first_as_it_is(self, folder):
        Chatting(folder, "a", "/fork", "b", turns=[says("1"), says("2")])
        sessions = Store(folder / "state").list_sessions()
        assert sorted(each.turns for each in sessions) == [1, 2]


class TestExport:
    @pytest.mark.parametrize("ending", ["md", "html", "json"])
    def test_a_file_is_written(self, folder, ending):
        Chatting(folder, "2 < 3?", f"/export out.{ending}", turns=[says("Yes.")])
        text = (folder / f"out.{ending}").read_text()
        assert "Yes." in text
        assert ("2 &lt; 3?" in text) == (ending == "html")
        if ending == "json":
            assert json.loads(text)["messages"][0] == {"type": "user", "text": "2 < 3?"}

    @pytest.mark.parametrize("ending", ["md", "html", "json"])
    @pytest.mark.parametrize("name", ["/rename my chat", "/tools"])
    def test_it_is_what_the_command_exports(self, folder, name, ending):
        chat = Chatting(folder, "2 < 3?", name, f"/export out.{ending}", turns=[says("Yes.")])
        (summary,) = Store(folder / "state").list_sessions()
        saved = read_conversation(Store(folder / "state").journal_path(summary.id))
        assert {"session": summary.id, "model": "tiny"}.items() <= saved.facts.items()
        assert saved.facts["created"]
        assert (folder / f"out.{ending}").read_text() == FORMATS[ending](saved, chat.state.factory.clean)

    def test_no_file_is_overwritten(self, folder):
        (folder / "out.md").write_text("mine")
        assert "already exists" in Chatting(folder, "/export out.md").shown
        assert (folder / "out.md").read_text() == "mine"

    def test_another_ending_is_refused(self, folder):
        assert ".md, .json, .html" in Chatting(folder, "/export out.pdf").shown


def test_init_asks_the_model_to_write_agents_md(folder):
    assert Chatting(folder, "/init", turns=[says("Written.")]).questions == [[INIT_PROMPT]]


@pytest.mark.parametrize("wanted", ["", "my", "my chat"])
def test_a_session_is_not_resumed_into_itself(folder, wanted):
    chat = Chatting(folder, "a", "/rename my chat", turns=[says("1")])
    with pytest.raises(BotError, match="already in that conversation"):
        resume_session(chat.state, wanted)


def test_a_name_with_blanks_is_shown_as_the_shell_takes_it(folder):
    assert "--resume 'my chat'" in Chatting(folder, "a", "/rename my chat", turns=[says("1")]).shown
