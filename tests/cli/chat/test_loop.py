import io
import re
import sys
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.agent.loop import AgentLoop
from src.app.connect import Connections, Panel, ReviewerModel
from src.app.runtime import Runtime, Workplace
from src.app.toolset import connect_mcp
from src.cli.chat.loop import EXIT_HINT, Chat
from src.cli.chat.slash.table import COMMANDS, run_command, run_command_at_question
from src.cli.chat.state import ChatIO, State
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.config.settings import ToolSettings
from src.errors import ConnectFailed
from src.negotiation.call_path import CallPath, Reason
from src.security.permissions.approval import APPROVE_ALL
from src.tools import REGISTRY
from src.tools.process.jobs import Jobs
from src.tools.process.output import Output
from src.types.messages import Response, SystemMessage, Text, ToolCall, Usage, UserMessage
from tests.doubles import POLICY, ScriptedModel, context, says, toolbox
from tests.waiting import PATIENCE_S

SOWING = [says("", ToolCall("c", "todo_write", {"todos": [{"content": "sow", "status": "pending"}]})), says("2")]


class Session:
    """A chat in which these lines are typed; an exception in their place is raised, as input() would."""

    def __init__(self, *lines, turns=(), partial="", url="http://localhost:8000/v1", text_only=False):
        self.lines = [*lines, EOFError()]
        self.model = ScriptedModel(*turns, partial=partial)
        if text_only:
            self.model.path = CallPath(reason=Reason.CHOSEN, text_only=True)
        self.answer, self.aside = io.StringIO(), io.StringIO()
        screen = PlainScreen(self.answer, self.aside, thoughts=False, styled=False)
        registry, self.ran = toolbox()
        self.todos = []
        self.state = State(
            replace(Settings(), vllm=replace(Settings().vllm, base_url=url)), screen, Debug(0), self._bot, "tiny"
        )
        self.registry = registry
        self.code = Chat(self.state, ChatIO(self._read)).run()

    def _bot(self, name):
        where = context().rewire(todos=self.todos)
        agent = AgentLoop(self.model, self.registry.plus([REGISTRY["todo_write"]]), where, APPROVE_ALL, POLICY)
        return Runtime(agent, self.model, Settings(), todos=self.todos)

    def _read(self, prompt):
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    @property
    def questions(self):
        return [[m.text for m in asked.messages if isinstance(m, UserMessage)] for asked in self.model.asked]


def test_a_conversation_goes_on_from_line_to_line():
    session = Session("hi", "and?", turns=[says("Hello."), says("That is all.")])
    assert session.answer.getvalue() == "Hello.\nThat is all.\n"
    assert session.questions == [["hi"], ["hi", "and?"]]
    assert session.code == 0


def test_the_system_prompt_is_the_same_in_each_turn():
    asked = Session("hi", "and?", turns=[says("Hello."), says("That is all.")]).model.asked
    assert asked[0].messages[0] == asked[1].messages[0]


def test_a_call_is_run_and_shown():
    session = Session("go", turns=[says("", ToolCall("c", "look", {"path": "a"})), says("Seen.")])
    assert session.ran == ["look a"]
    assert 'look(path="a") -> contents of a' in session.aside.getvalue()


@pytest.mark.parametrize("text_only", [True, False])
def test_of_an_image_the_user_is_told_if_the_model_is_known_to_have_no_eyes(text_only, tmp_path):
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    session = Session(f"what is {tmp_path}/dot.png", turns=[says("A dot.")], text_only=text_only)
    assert "dot.png added: image/png, 8 bytes\n" in session.aside.getvalue()
    assert ("accepts only text" in session.aside.getvalue()) == text_only


def test_a_line_that_begins_with_a_path_is_a_message(tmp_path):
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    turns = [says("A dot."), says("It is not there.")]
    session = Session(f"{tmp_path}/dot.png what is it?", f"{tmp_path}/none.py fails", "/none", turns=turns)
    assert len(session.model.asked) == 2
    assert "There is no command /none." in session.aside.getvalue()


def test_a_command_of_a_folder_that_is_not_trusted_says_so(tmp_path):
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "commands" / "rev.md").write_text("Review it.")
    aside = io.StringIO()
    screen = PlainScreen(aside, aside, thoughts=False, styled=False)
    state = State(Settings(root=tmp_path, state=tmp_path / "state"), screen, Debug(0), lambda _: None, "tiny")
    run_command(state, "/rev")
    run_command(state, "/revv")
    shown = aside.getvalue()
    assert "/rev is in .claude/commands of this folder, which you do not trust yet: see /trust." in shown
    assert "There is no command /revv." in shown


def test_on_plain_lines_the_end_of_a_background_command_comes_before_the_next_prompt():
    jobs, aside = Jobs(), io.StringIO()
    screen = PlainScreen(aside, aside, thoughts=False, styled=False)
    state = State(Settings(), screen, Debug(0), lambda _: None, "tiny")
    state.workplace = Workplace(None, jobs, None)
    job = jobs.open("make", Output(100))
    job.run(lambda: "exit code 2")
    job.has_ended.wait(PATIENCE_S)

    def read(_):
        assert "Background job 1 ended (exit code 2, after 0 s): make" in aside.getvalue()
        raise EOFError

    assert Chat(state, ChatIO(read)).run() == 0


def test_empty_lines_ask_nothing():
    assert Session("", "   ").model.asked == []


def test_another_conversation_has_nothing_to_do_yet():
    assert Session("a", turns=SOWING).todos == [("sow", "pending")]
    assert Session("a", "/reset", turns=SOWING).todos == []


def test_what_was_taken_back_is_not_to_be_done():
    assert Session("a", "/undo", turns=SOWING).todos == []


def test_another_model_knows_what_there_is_to_do():
    session = Session("a", turns=SOWING)
    session.state.switch_model(session.state.settings.with_model("other"))
    session.todos.clear()
    session.state.ensure_runtime()
    assert session.todos == [("sow", "pending")]


def test_exit_leaves():
    assert Session("/exit", "never asked").model.asked == []


def test_reset_forgets_all_but_the_system_prompt():
    session = Session("a", "/reset", "b", turns=[says("1"), says("2")])
    assert session.questions == [["a"], ["b"]]
    assert isinstance(session.model.asked[1].messages[0], SystemMessage)


def test_an_unknown_command_suggests_the_nearest_and_is_not_sent():
    session = Session("/rest", "/xyzzy")
    assert "Did you mean /reset?" in session.aside.getvalue()
    assert "Try /help." in session.aside.getvalue()
    assert session.model.asked == []


def test_help_lists_every_command():
    shown = Session("/help").aside.getvalue()
    assert all(command.usage in shown and command.help in shown for command in COMMANDS)
    assert "Ctrl-D" in shown


def test_tools_are_listed_with_their_signatures():
    assert "read(path: string, offset?: integer, limit?: integer)" in Session("/tools").aside.getvalue()


def test_in_mode_plan_only_the_tools_that_it_offers_are_listed():
    shown = Session("/mode plan", "/tools").aside.getvalue()
    assert "  read(path" in shown
    assert "  exec(command" in shown
    assert "  write(path" not in shown
    assert "Not offered in mode plan: write, edit\n" in shown


def test_ctrl_c_at_the_prompt_hints_and_stays():
    session = Session(KeyboardInterrupt(), "hi", turns=[says("Hello.")])
    assert EXIT_HINT in session.aside.getvalue()
    assert session.answer.getvalue() == "Hello.\n"


def test_what_goes_with_a_question_is_sent_once_also_if_its_answer_was_stopped():
    session = Session("!echo heron", "why?", "go on", turns=[KeyboardInterrupt(), says("So:")], partial="Once upon")
    assert ["heron" in question for question in session.questions[-1]] == [True, False]


def test_ctrl_c_in_an_answer_keeps_what_was_said_and_the_session():
    session = Session("tell", "go on", turns=[KeyboardInterrupt(), says("So:")], partial="Once upon")
    assert "(stopped)" in session.aside.getvalue()
    assert session.model.asked[1].messages[-3:] == [
        UserMessage("tell"),
        Response((Text("Once upon"),), "other"),
        UserMessage("go on"),
    ]


def test_an_error_is_shown_and_the_question_can_be_asked_again():
    session = Session("hi", "hi", turns=[ConnectFailed("No server.", "Start one."), says("Hello.")])
    assert "! No server.\n! Start one." in session.aside.getvalue()
    assert session.questions == [["hi"], ["hi"]]


@pytest.mark.parametrize("line", ["/RESET", "/reset now"])
def test_commands_are_known_in_any_case_and_with_words_behind(line):
    assert "New conversation." in Session(line).aside.getvalue()


def test_path_shows_how_tools_are_called_and_why():
    assert Session("/path").aside.getvalue().startswith("  native: native tool calls\n")


class TestMcp:
    """`/mcp`, with a server that is started here."""

    SERVER = Path(__file__).parents[2] / "tools" / "mcp_server.py"

    @pytest.fixture
    def ask(self, tmp_path):
        pytest.importorskip("mcp", reason="the MCP SDK is not installed")
        rows = (
            {"name": "small", "command": [sys.executable, str(self.SERVER), "plain"], "start_timeout": 100},
            {"name": "gone", "command": "/no/such/program"},
        )
        session = Session()
        state = session.state
        state.settings = replace(state.settings, root=tmp_path, tools=ToolSettings(mcp=rows))
        with closing(connect_mcp(state.settings)):

            def ask(line):
                session.aside.truncate(session.aside.seek(0))
                run_command(state, line)
                return session.aside.getvalue()

            ask.state = state
            yield ask

    def test_it_shows_servers_tools_and_errors_and_starts_one_again(self, ask):
        shown = ask("/mcp")
        assert "  small  connected, " in shown
        assert "    small_add, " in shown
        assert "  gone  not connected, 0 tools: /no/such/program\n      /no/such/program: No such file" in shown
        assert "  small  connected, " in ask("/mcp restart small")

    def test_it_tells_what_the_search_of_tools_saves(self, ask):
        assert "Their definitions are in each prompt (tools.search: auto)." in ask("/mcp")
        ask.state.settings = replace(ask.state.settings, tools=replace(ask.state.settings.tools, search="always"))
        shown = ask("/mcp")
        assert " tools are only named in prompts, and found with tool_search (tools.search: always): about " in shown
        assert " tokens more, as they are few.\n" in shown
        assert "  small_add()  (only named in prompts)\n" in ask("/tools")

    def test_a_name_that_is_none_is_told_with_those_there_are(self, ask):
        assert "/mcp restart NAME starts one again: small, gone." in ask("/mcp restart smal")

    def test_without_servers_it_says_where_they_are_named(self):
        assert "tools.mcp names them" in Session("/mcp").aside.getvalue()


def test_path_takes_another():
    session = Session("/path text", "/path")
    assert session.aside.getvalue().count("text: tool calls in its text; chosen by hand") == 2


def test_path_shows_how_calls_came_and_how_the_server_would_read_them():
    look = ToolCall("c", "look", {"path": "a"})
    turns = [says("", look, replace(look, id="d", origin="hermes")), says("Seen.")]
    shown = Session("go", "/path", turns=turns).aside.getvalue()
    assert "  calls so far: 1 native, 1 in the text (hermes)\n" in shown
    assert "start it with --enable-auto-tool-choice --tool-call-parser hermes\n" in shown


def test_path_names_the_parser_of_the_models_family_before_a_call_has_come():
    session = Session(url="http://127.0.0.1:9/v1")  # nobody says what the weights are
    session.state.model_name = "Qwen3-8B"
    session.model.path = CallPath("text", reason=Reason.NO_PARSER)
    run_command(session.state, "/path", ChatIO())
    shown = session.aside.getvalue()
    assert f"text: tool calls in its text; {Reason.NO_PARSER.value}\n" in shown
    assert "start it with --enable-auto-tool-choice --tool-call-parser hermes\n" in shown


def test_path_names_the_flag_of_a_better_way_and_status_does_not():
    session = Session()
    session.model.path = CallPath(reason=Reason.NO_TOKENS)
    run_command(session.state, "/path", ChatIO())
    run_command(session.state, "/status", ChatIO())
    shown = session.aside.getvalue()
    assert "tokens is another way, on a server that was started with --enable-scale-out" in shown
    assert "  tools      native tool calls\n" in shown


def test_a_path_that_does_not_exist_is_reported():
    shown = Session("/path telepathy", "/path").aside.getvalue()
    assert "There is no path telepathy" in shown
    assert "native: native tool calls" in shown


class TestCommands:
    """What they show, and what they change."""

    def shown(self, *lines, **options):
        return Session(*lines, **options).aside.getvalue()

    def test_status_shows_where_one_is(self):
        shown = self.shown("/status")
        assert all(word in shown for word in ("localhost:8000", "tiny", "workspace"))

    def test_tokens_are_those_that_the_server_counted(self):
        turns = [says("a", usage=Usage(10, 2)), says("b", usage=Usage(14, 3))]
        assert "24 in, 5 out in this chat; the last answer 14 in, 3 out" in self.shown("x", "y", "/tokens", turns=turns)

    def test_tokens_stay_spent_when_the_conversation_they_went_to_is_gone(self):
        shown = self.shown("x", "/new", "/tokens", turns=[says("a", usage=Usage(10, 2))])
        assert "10 in, 2 out in this chat\n" in shown

    def test_context_is_what_the_last_answer_took_and_of_what_it_is_made(self):
        shown = self.shown("x", "/context", turns=[says("a", usage=Usage(700, 100))])
        assert "800 of 1,000 tokens (80%)" in shown
        assert "[########################......]" in shown
        assert "system prompt" in shown
        parts = [int(count) for count in re.findall(r"about (\d+) tokens", shown)]
        assert len(parts) == 4
        assert sum(parts) == 800

    def test_before_an_answer_it_is_a_guess(self):
        assert "about " in self.shown("/context")

    def test_the_guess_counts_the_tools_once_the_server_has_counted_them(self):
        shown = self.shown("x", "/new", "/context", turns=[says("a", usage=Usage(700, 100))])
        assert re.search("about 6[0-9][0-9] of 1,000 tokens", shown)  # about 100 without the tools

    def test_config_shows_the_settings_with_a_word_in_them(self):
        shown = self.shown("/config timeout")
        assert "vllm.connect_timeout = 5.0  (default)" in shown
        assert "base_url" not in shown
        assert "No setting matches xyzzy." in self.shown("/config xyzzy")

    def test_debug_can_be_turned_on_and_off(self):
        assert "debug is on" in self.shown("/debug on")
        assert "debug is off" in self.shown("/debug on", "/debug off")
        assert "There is no level loud" in self.shown("/debug loud")

    def test_thoughts_can_be_folded_shown_and_hidden(self):
        assert "show: " in self.shown("/thinking show")
        assert "hide: " in self.shown("/thinking hide")
        assert "no mode blink" in self.shown("/thinking blink")

    def test_the_model_in_use(self):
        assert "  tiny; " in self.shown("/model")

    def test_an_error_in_a_command_is_shown_and_the_chat_goes_on(self):
        session = Session("/models", "hi", turns=[says("Hello.")])
        assert "! No server" in session.aside.getvalue()
        assert session.answer.getvalue() == "Hello.\n"


@pytest.mark.parametrize("command", [each.name for each in COMMANDS if each.name != "/edit"])
def test_every_command_can_be_typed_first(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # /export writes there
    session = Session(command, turns=[says("Written.")], url="http://127.0.0.1:9/v1")
    assert session.lines == [] or command == "/exit"
    assert "Unexpected" not in session.aside.getvalue()


class TestTheEditor:
    def test_what_was_written_is_asked(self, tmp_path, monkeypatch):
        editor = tmp_path / "editor"
        editor.write_text('#!/bin/sh\necho more >> "$1"\n')
        editor.chmod(0o700)
        monkeypatch.setenv("VISUAL", str(editor))
        assert Session("/edit text ", turns=[says("Yes.")]).questions == [["textmore"]]

    def test_what_was_left_as_it_was_is_in_the_prompt_again(self, monkeypatch):
        monkeypatch.setenv("VISUAL", "true")
        session = Session("/edit text")
        assert session.questions == []
        assert session.state.draft == "text"


class TestModes:
    def test_the_mode_is_shown_and_switched_also_of_an_agent_that_is_there(self):
        change = ToolCall("c1", "change", {"path": "a"})
        lines = ("hi", "/mode plan", "again", "/mode", "/mode yolo")
        session = Session(*lines, turns=[says("Hello."), says("", change), says("Not then.")])
        assert session.ran == []
        assert "mode plan: what only reads needs no question, and nothing is changed" in session.aside.getvalue()
        assert "* plan" in session.aside.getvalue()
        assert "There is no mode yolo." in session.aside.getvalue()
        assert "change" in session.model.asked[0].tools
        assert "change" not in session.model.asked[1].tools

    def test_a_mode_that_was_switched_to_before_the_first_question_holds(self):
        session = Session("/mode plan", "hi", turns=[says("Hello.")])
        assert "change" not in session.model.asked[0].tools

    def test_shift_tab_goes_through_all_modes_but_full(self):
        state = Session().state
        seen = []
        for _ in range(5):
            state.switch_mode(state.next_mode)
            seen.append(state.mode)
        assert seen == ["edits", "auto", "plan", "ask", "edits"]
        state.switch_mode("full")
        state.switch_mode(state.next_mode)
        assert state.mode == "plan"

    def test_at_a_question_only_commands_run_that_leave_the_conversation(self):
        session = Session()
        for line in ("/mode auto", "/new", "/doctor", "/nosuch"):
            run_command_at_question(session.state, line)
        shown = session.aside.getvalue()
        assert "mode auto" in shown
        assert "/new has to wait until the question is answered." in shown
        assert "/doctor has to wait until" in shown  # it prints where the question is
        assert "There is no command /nosuch" in shown


class TestPanel:
    """/panel asks the models of review.models, and has one sum up."""

    @pytest.fixture(autouse=True)
    def members(self, monkeypatch):
        def make(chair=None):
            made = [ReviewerModel("one", None), ReviewerModel("two", None)]
            monkeypatch.setattr(ReviewerModel, "ask", lambda self, prompt: f"{self.name} says {prompt[-3:]}")
            monkeypatch.setattr(Connections, "make_panel", lambda _: Panel(made, made[chair] if chair else None))

        make()
        return make

    def test_the_chats_own_model_sums_up_with_the_answers_before_it(self):
        session = Session("/panel why", turns=[says("They agree.")])
        assert "  Asking one, two...\none:\none says why" in session.aside.getvalue()
        assert session.answer.getvalue() == "They agree.\n"
        ((asked,),) = session.questions
        assert "<answer model=two>\ntwo says why\n</answer>" in asked
        assert asked.endswith("The question was: why")

    def test_a_named_model_sums_up_and_the_next_question_knows_it(self, members):
        members(chair=1)
        session = Session("/panel why", "so?", turns=[says("Yes.")])
        assert "two sums up:\ntwo says why" in session.aside.getvalue()
        ((asked,),) = session.questions
        assert "two summed them up:\ntwo says why" in asked

    def test_without_a_question_it_says_how(self):
        assert "/panel QUESTION" in Session("/panel").aside.getvalue()
