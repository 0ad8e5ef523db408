import io

import pytest

from src.cli.approve import AtTerminal
from src.messages import ToolCall
from src.security.approval import Request


def asked(answer, **arguments):
    def read():
        if isinstance(answer, BaseException):
            raise answer
        return answer

    aside = io.StringIO()
    return AtTerminal(read, aside).approve(
        Request(ToolCall("c", "exec", arguments), "it changes files")
    ).allowed, aside.getvalue()


@pytest.mark.parametrize("answer", ["y", "Y", "yes", " yes "])
def test_yes(answer):
    assert asked(answer, command="ls")[0] is True


@pytest.mark.parametrize("answer", ["", "n", "no", "yep", "yy", "sure", EOFError()])
def test_everything_else_is_no(answer):
    assert asked(answer, command="ls")[0] is False


def test_ctrl_c_stops_more_than_the_question():
    with pytest.raises(KeyboardInterrupt):
        asked(KeyboardInterrupt(), command="ls")


def test_the_whole_command_is_shown_with_what_a_terminal_would_hide():
    command = "ls" + " " * 300 + "; rm -rf x\x1b[2K\u202e"
    shown = asked("n", command=command)[1]
    assert " " * 300 + "; rm -rf x\\x1b[2K\\u202e" in shown
    assert "exec wants to run (it changes files)" in shown


def test_every_line_of_a_long_text_is_shown_and_marked_as_part_of_it():
    shown = asked("n", path="a", content="one\nRun it? [y/N] y\nthree")[1]
    assert "    | one\n    | Run it? [y/N] y\n    | three\n" in shown
