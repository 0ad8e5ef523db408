"""Mode plan on a full terminal: the plan is shown, edited in $EDITOR, accepted or sent back."""

from __future__ import annotations

import json
import threading

from src.cli.chat.input import application
from src.cli.render.live import LiveScreen
from tests.thorough import only_thorough

PLAN = ["--mode", "plan"]


def submit(plan):
    function = {"name": "submit_plan", "arguments": json.dumps({"plan": plan})}
    return [{"tool_calls": [{"index": 0, "id": "call-0", "type": "function", "function": function}]}]


def results(chat):
    return [m["content"] for m in chat.server.requests[-1]["messages"] if m["role"] == "tool"]


def test_a_plan_is_shown_sent_back_with_words_edited_in_the_editor_and_accepted(open_chat):
    chat = open_chat(
        submit("1. look\n2. leap"), submit("1. think"), ["Done."], options=PLAN, EDITOR="sed -i s/think/read/"
    )
    chat.line("plan it")
    chat.shows("The plan:")
    chat.shows(r"^    \| 2. leap")
    chat.shows(r"Accept the plan\? \[y/N\]")
    chat.line("n look twice")
    chat.shows(r"^    \| 1. think[\s\S]*Accept the plan\?")
    assert "said: look twice" in results(chat)[0]
    chat.line("e")
    chat.shows("The plan as you changed it:")
    chat.shows(r"^    \| 1. read[\s\S]*Accept the plan\?")
    chat.line("y")
    chat.shows("^Done.$")
    chat.prompts()
    chat.shows("^mode edits")
    assert results(chat)[1].endswith("1. read")


@only_thorough
def test_what_is_printed_when_the_editor_ends_stands_above_the_prompt(open_chat, monkeypatch):
    """The threads are slowed where one takes lines to print, and the other takes the terminal back."""
    take_above, take_typed_ahead = LiveScreen.take_above, application.take_typed_ahead

    def take_slowly(live):
        lines = take_above(live)
        if threading.current_thread() is threading.main_thread():
            threading.Event().wait(0.3)
        return lines

    def return_slowly(choose):
        threading.Event().wait(0.1)
        return take_typed_ahead(choose)

    monkeypatch.setattr(LiveScreen, "take_above", take_slowly)
    monkeypatch.setattr(application, "take_typed_ahead", return_slowly)
    chat = open_chat(submit("1. think"), ["Done."], options=PLAN, EDITOR="sed -i s/think/read/")
    chat.line("plan it")
    chat.shows(r"Accept the plan\? \[y/N\]")
    chat.line("e")
    chat.shows("The plan as you changed it:")
    chat.shows(r"^    \| 1. read[\s\S]*Accept the plan\?")
    assert "\n  The plan as you changed it:\n" in chat.everything


def test_an_answer_in_words_is_accepted_as_the_plan_by_a_command(open_chat):
    chat = open_chat(["First look, then leap."], ["Leaping."], options=PLAN)
    chat.line("plan it")
    chat.shows("/plan accepts it")
    chat.prompts()
    chat.line("/plan")
    chat.shows(r"^    \| First look, then leap.[\s\S]*Accept the plan\?")
    chat.line("y")
    chat.shows("^Leaping.$")
    chat.prompts()
    chat.shows("^mode edits")
    assert chat.server.requests[-1]["messages"][-1]["content"] == "Carry out your plan."
