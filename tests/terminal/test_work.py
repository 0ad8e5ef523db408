"""Work that takes its time, as a person has it on a full terminal: many turns, commands in the background, undo."""

from __future__ import annotations

import json

import pytest

from .terminal import Server, Terminal
from .test_chat import call

AUTO = ["--mode", "auto"]


@pytest.fixture
def chat(tmp_path):
    """Opens a terminal with a chat on it, and waits for its prompt."""
    opened = []

    def start(*scripts, settings=None, options=()):
        if settings:
            file = tmp_path / ".config" / "vllm-bot" / "config.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(settings))
        server = Server(*scripts).__enter__()
        terminal = Terminal(tmp_path, server, fresh=False, columns=100, options=options)
        opened.append((terminal, server))
        terminal.server = server
        terminal.prompts()
        return terminal

    yield start
    for terminal, server in opened:
        terminal.__exit__()
        server.__exit__()


class TestManyTurns:
    def test_120_calls_in_mode_auto_end_without_a_stop_or_a_question(self, chat, tmp_path):
        calls = [call("write", path="n.txt", content=str(number)) for number in range(117)]
        commands = [call("exec", command=f"echo {number} > c.txt", access="write") for number in range(3)]
        chat = chat(*([each] for each in [*calls, *commands]), ["All done."], options=AUTO)
        chat.line("count")
        chat.shows("^All done.$")
        assert len(chat.server.requests) == 121
        assert (tmp_path / "work" / "c.txt").read_text() == "2\n"
        assert not any(word in chat.everything for word in ("?", "Stopped"))

    def test_at_a_limit_that_was_set_the_user_is_asked_whether_to_go_on(self, chat):
        scripts = [[call("read", path=f"{number}.txt")] for number in range(4)]
        chat = chat(*scripts, ["So far."], settings={"agent": {"max_tool_turns": 2}})
        chat.line("read them")
        chat.shows(r"called tools for 2 turns[\s\S]*Go on\? \[Y/n\]")
        chat.keys("\r")
        chat.shows(r"called tools for 4 turns[\s\S]*Go on\? \[Y/n\] *$")
        chat.line("n")
        chat.shows("asking for a summary")
        chat.shows("^So far.$")
        assert [each["tool_choice"] for each in chat.server.requests] == ["auto"] * 4 + ["none"]
