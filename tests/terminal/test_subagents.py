"""Subagents on a full terminal: a line each while they work, and Ctrl-C ends all."""

from __future__ import annotations

import json

from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S, wait_until

from .terminal import Gate

CTRL_C, CTRL_O = "\x03", "\x0f"


def call(number, name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": number, "id": f"call-{number}", "type": "function", "function": function}]}


TASKS = [call(0, "task", prompt="Part A"), call(1, "task", prompt="Part B")]
GLOB = [call(0, "glob", pattern="*.py")]


def test_each_has_a_line_which_says_what_it_does_and_then_folds_to_its_report(open_chat):
    start, gate = Gate(), Gate()
    first = [start, *GLOB]  # of both, or one that is slow would leave its answer to the other
    chat = open_chat(TASKS, first, first, [gate, "Nothing there."], [gate, "Nothing there."], ["All done."])
    chat.line("look everywhere")
    wait_until(lambda: len(chat.server.requests) == 3, "both ask")
    start.set()
    for part in "AB":
        chat.shows(rf'task\(prompt="Part {part}"\) -> 1 call, glob\(pattern="\*\.py"\)')
    gate.set()
    for part in "AB":
        chat.shows(rf'^  task\(prompt="Part {part}"\) -> Nothing there\.')
    chat.shows("^All done.$")
    chat.prompts()
    assert "1 call" not in chat.text
    chat.keys(CTRL_O)
    chat.shows("│ Nothing there.")
    final = chat.server.requests[-1]["messages"]
    assert [message["role"] for message in final[1:]] == ["user", "assistant", "tool", "tool"]


@only_thorough
def test_ctrl_c_ends_all_of_them_and_the_chat_goes_on(open_chat):
    gates = Gate(), Gate()
    chat = open_chat(TASKS, [gates[0], "A."], [gates[1], "B."], ["Go on, then."])
    chat.line("look everywhere")
    for gate in gates:
        assert gate.reached.wait(PATIENCE_S)
    chat.keys(CTRL_C)
    chat.shows("(stopped)")
    chat.prompts()
    for gate in gates:
        gate.set()
    chat.line("and now?")
    chat.shows("^Go on, then.$")
    results = [m["content"] for m in chat.server.requests[-1]["messages"] if m["role"] == "tool"]
    assert len(results) == 2
    assert all("did not finish" in each for each in results)
