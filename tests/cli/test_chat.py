import io
from pathlib import Path

import pytest

from src.agent import Agent
from src.cli.chat import LEAVING, Chat
from src.cli.debug import Debug
from src.cli.learnt import Learnt
from src.cli.render import Screen
from src.cli.start import Bot
from src.config import Settings
from src.errors import ConnectFailed
from src.messages import Response, SystemMessage, Text, ToolCall, UserMessage
from src.security.approval import APPROVE_ALL
from tests.doubles import POLICY, ScriptedModel, context, says, toolbox


class Session:
    """A chat in which these lines are typed; an exception in their place is raised, as input() would."""

    def __init__(self, *lines, turns=(), partial=""):
        self.lines = [*lines, EOFError()]
        self.model = ScriptedModel(*turns, partial=partial)
        self.answer, self.aside = io.StringIO(), io.StringIO()
        screen = Screen(self.answer, self.aside, thoughts=False, styled=False)
        registry, self.ran = toolbox()
        self.code = Chat(
            Settings(),
            screen,
            Debug(0),
            lambda: Bot(
                Agent(self.model, registry, context(), APPROVE_ALL, POLICY),
                self.model,
                Learnt(Path("/nowhere")),
                "http://server",
            ),
            self._read,
        ).run()

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


def test_a_call_is_run_and_shown():
    session = Session("go", turns=[says("", ToolCall("c", "look", {"path": "a"})), says("Seen.")])
    assert session.ran == ["look a"]
    assert 'look(path="a") -> contents of a' in session.aside.getvalue()


def test_empty_lines_ask_nothing():
    assert Session("", "   ").model.asked == []


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
    assert all(name in shown for name in ("/help", "/tools", "/reset", "/exit", "Ctrl-D"))


def test_tools_are_listed_with_their_signatures():
    assert "read(path: string, offset?: integer, limit?: integer)" in Session("/tools").aside.getvalue()


def test_ctrl_c_at_the_prompt_hints_and_stays():
    session = Session(KeyboardInterrupt(), "hi", turns=[says("Hello.")])
    assert LEAVING in session.aside.getvalue()
    assert session.answer.getvalue() == "Hello.\n"


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
    assert "starts anew" in Session(line).aside.getvalue()


def test_path_shows_how_tools_are_called_and_why():
    assert "native: the configuration's default" in Session("/path").aside.getvalue()


def test_path_takes_another():
    session = Session("/path text", "/path")
    assert session.aside.getvalue().count("text: chosen by hand") == 2


def test_a_path_that_there_is_not_is_said_so():
    shown = Session("/path telepathy", "/path").aside.getvalue()
    assert "There is no path telepathy" in shown
    assert "native: the configuration's default" in shown
