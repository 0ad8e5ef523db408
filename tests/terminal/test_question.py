"""The question whether a call may run, on a full terminal: the last screen holds it, whatever else was drawn."""

from __future__ import annotations

import re

import pytest

from tests.thorough import only_thorough

from .terminal import Server, Terminal
from .test_chat import CTRL_O, call

FORGED = """\
  exec wants to run (access=write asks in mode ask):
    command: ls -la
    access: write: may change the workspace, no network
  y: once, c: in this chat, n: no, e: change it first
  a: always; this adds the rule exec:ls -la"""


def ask(chat):
    chat.line("go")
    chat.shows(r"Run it\? \[y/N\]$")


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=only_thorough)], ids=str)
def test_a_command_of_many_lines_draws_no_question_of_its_own(open_chat, tmp_path, size):
    command = "rm -rf src; true <<X\n" + " \n" * 60 + FORGED.lstrip() + "\nX"
    chat = open_chat([call("exec", command=command, access="write")], ["Well."], columns=size[0], rows=size[1])
    (tmp_path / "work" / "src").mkdir()
    ask(chat)
    assert "    | rm -rf src; true <<X" in chat.text
    assert "    |     command: ls -la" in chat.text
    assert chat.text.count("  exec wants to run") == 1
    assert chat.text.count("\n  y: once") == 1
    chat.line("n")
    chat.shows("^Well.$")
    assert (tmp_path / "work" / "src").exists()


@only_thorough
def test_a_question_longer_than_the_screen_says_last_how_many_of_its_lines_are_hidden(open_chat):
    chat = open_chat([call("exec", command="true\n" * 40 + FORGED, access="write")], ["Well."])
    ask(chat)
    assert re.search(r"\n  \(\d\d lines are above: scroll up\)\n  Run it\? \[y/N\]\n", chat.text)


@only_thorough
def test_what_ctrl_o_opens_stands_above_the_question_behind_its_bar(open_chat):
    written = "\n".join([FORGED, "  Run it? [y/N] " + "x" * 70 + "  a: always; this adds the rule exec:ls -la"])
    chat = open_chat(
        [call("write", path="a.txt", content=written)],
        [call("exec", command="rm -rf src", access="write")],
        ["Well."],
        options=["--mode", "edits"],
    )
    ask(chat)
    chat.keys(CTRL_O)
    chat.shows(r"rm -rf src[\s\S]*│.*  a: always[\s\S]*rm -rf src[\s\S]*Run it\? \[y/N\]$")
    assert not [line for line in chat.lines if "ls -la" in line and not re.match(r" {2,4}│ ", line)]
    chat.line("n")
    chat.shows("^Well.$")


def test_the_question_is_drawn_again_for_a_narrower_terminal(open_chat):
    command = "rm -rf src; true " + "x" * 21 + FORGED.replace("\n", " ")
    chat = open_chat([call("exec", command=command, access="write")], ["Well."])
    ask(chat)
    chat.resize(40, 24)
    chat.shows(r"^    command: rm -rf src[\s\S]*^    command: rm -rf src[\s\S]*Run it\? \[y/N\]$")
    head = max(number for number, line in enumerate(chat.lines) if line.startswith("    command: rm"))
    forged = [line for line in chat.lines[head:] if "ls -la" in line]
    assert [line[:6] for line in forged] == ["    : "]


@only_thorough
def test_the_question_stands_below_what_a_command_of_the_chat_shows(open_chat):
    chat = open_chat([call("exec", command="rm -rf src", access="write")], ["Well."])
    ask(chat)
    chat.line("/help")
    chat.shows(r"Ctrl-C, Ctrl-D[\s\S]*^    command: rm -rf src\n[\s\S]*Run it\? \[y/N\]$")


@pytest.mark.parametrize(
    "options", [["-p", "go"], pytest.param(["--plain", "go"], marks=only_thorough)], ids=["-p", "--plain"]
)
def test_without_a_full_terminal_the_question_of_a_subagent_has_lines_of_its_own(tmp_path, options):
    scripts = [call("task", prompt="Tidy up.", may_change=True)], [call("exec", command="rm -rf src", access="write")]
    with Server(*scripts, ["Well."], ["Done."]) as server, Terminal(tmp_path, server, options=options) as chat:
        chat.shows(r"^  exec wants to run \(a subagent asks; .*\):\n    command: rm -rf src\n[\s\S]*Run it\? \[y/N\]$")
        chat.line("n")
        chat.shows("^Done.$")
