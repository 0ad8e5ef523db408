"""Mode plan on a full terminal: the plan is shown, edited in $EDITOR, accepted or sent back."""

from __future__ import annotations

import json

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
    chat.shows("^  2. leap")
    chat.shows(r"Accept the plan\? \[y/N\]")
    chat.line("n look twice")
    chat.shows(r"^  1. think[\s\S]*Accept the plan\?")
    assert "said: look twice" in results(chat)[0]
    chat.line("e")
    chat.shows("The plan as you changed it:")
    chat.shows(r"^  1. read[\s\S]*Accept the plan\?")
    chat.line("y")
    chat.shows("^Done.$")
    chat.prompts()
    chat.shows("^mode edits")
    assert results(chat)[1].endswith("1. read")


def test_an_answer_in_words_is_accepted_as_the_plan_by_a_command(open_chat):
    chat = open_chat(["First look, then leap."], ["Leaping."], options=PLAN)
    chat.line("plan it")
    chat.shows("/plan accepts it")
    chat.prompts()
    chat.line("/plan")
    chat.shows(r"^  First look, then leap.[\s\S]*Accept the plan\?")
    chat.line("y")
    chat.shows("^Leaping.$")
    chat.prompts()
    chat.shows("^mode edits")
    assert chat.server.requests[-1]["messages"][-1]["content"] == "Carry out your plan."
