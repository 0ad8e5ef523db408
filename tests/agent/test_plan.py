"""Mode plan ends in a plan: accepted, changed, sent back, or the answer where nobody can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.agent.loop import AgentLoop
from src.security.permissions.approval import APPROVE_ALL, REFUSE_ALL, Answer
from src.security.permissions.policy import Policy
from src.tools import ToolContext
from src.tools.builtin.task import submit_plan
from src.types.events import ModeChanged
from src.types.messages import ToolCall, UserMessage
from tests.doubles import ScriptedApprover, ScriptedModel, perform, says, toolbox

SUBMIT = ToolCall("p", "submit_plan", {"plan": "1. change a"})
CHANGE = ToolCall("c", "change", {"path": "a"})


def run(*turns, approver, mode="plan"):
    """The model, the conversation, the tools' runs and the events of one answer."""
    registry, ran = toolbox()
    registry.add(submit_plan)
    model, conversation = ScriptedModel(*turns), [UserMessage("Plan it.")]
    loop = AgentLoop(model, registry, ToolContext(Path("/")), approver, Policy(Path("/"), mode=mode))
    events = list(perform(loop.run(conversation)))
    return model, conversation, ran, events


def test_an_accepted_plan_switches_to_mode_edits_and_the_model_goes_on():
    approver = ScriptedApprover(True, True)
    model, conversation, ran, events = run(says("", SUBMIT), says("", CHANGE), says("Done."), approver=approver)
    assert "accepted the plan" in conversation[2].results[0].text
    assert ModeChanged("edits") in events
    assert [asked.tools for asked in model.asked[:2]] == [["look", "wait", "submit_plan"], ["look", "change", "wait"]]
    assert ran == ["change a"]


def test_a_plan_that_the_user_changed_is_told_to_the_model():
    approver = ScriptedApprover(Answer(True, arguments={"plan": "1. change b"}))
    _, conversation, _, _ = run(says("", SUBMIT), says("Done."), approver=approver)
    assert conversation[2].results[0].text.endswith("1. change b")


def test_a_plan_that_is_sent_back_stays_in_mode_plan_and_the_model_hears_why():
    approver = ScriptedApprover(Answer(False, "too long"), Answer(True))
    model, conversation, ran, events = run(
        says("", SUBMIT), says("", CHANGE), says("", SUBMIT), says("Done."), approver=approver
    )
    assert "too long" in conversation[2].results[0].text
    assert "Not run" in conversation[4].results[0].text
    assert ran == []
    assert events.count(ModeChanged("edits")) == 1
    assert "submit_plan" in model.asked[1].tools


@pytest.mark.parametrize("approver", [REFUSE_ALL, APPROVE_ALL], ids=["nobody", "--yes"])
def test_where_nobody_can_be_asked_the_plan_is_the_answer(approver):
    model, conversation, ran, events = run(says("", SUBMIT), approver=approver)
    assert conversation[-1].text == "1. change a"
    assert ran == []
    assert not any(isinstance(event, ModeChanged) for event in events)
    assert len(model.asked) == 1


def test_in_other_modes_it_is_not_offered_and_a_call_is_told_to_do_the_work():
    model, conversation, _, _ = run(says("", SUBMIT), says("Ok."), approver=ScriptedApprover(), mode="edits")
    assert "submit_plan" not in model.asked[0].tools
    assert "no plan is asked for in mode edits" in conversation[2].results[0].text
