"""The approvers that approve or refuse every call."""

from __future__ import annotations

from msgspec.structs import replace

from src.security.permissions.approval import APPROVE_ALL, REFUSE_ALL, Answer, AutoApprover, Request
from src.types.messages import ToolCall

REQUEST = Request(ToolCall("1", "exec", {"command": "ls"}), "why", lambda _: "never")


def test_who_approves_all_and_who_refuses_all():
    assert APPROVE_ALL.approve(REQUEST).allowed
    assert not REFUSE_ALL.approve(REQUEST).allowed


def test_a_guessed_call_is_refused_where_no_person_is_there_and_the_model_is_told_why():
    guessed = replace(REQUEST, call=ToolCall("1", "exec", {"command": "ls"}, guessed=True))
    for approver in (APPROVE_ALL, REFUSE_ALL):
        answer = approver.approve(guessed)
        assert not answer.allowed
        assert "why" in answer.message
        assert "make the call again" in answer.message
        assert "--yes" not in answer.message


def test_a_guessed_call_is_asked_about_where_all_others_are_approved():
    guessed = replace(REQUEST, call=ToolCall("1", "exec", {"command": "ls"}, guessed=True))
    assert AutoApprover(AutoApprover(REFUSE_ALL)).approve(REQUEST).allowed
    assert AutoApprover(Agreeing()).approve(guessed).message == "go on"


class Agreeing:
    def approve(self, _request):
        return Answer(True, "go on")


def test_the_model_is_not_told_of_options_of_the_command_line():
    assert "--yes" not in REFUSE_ALL.approve(REQUEST).message


def test_the_model_is_told_why_it_was_refused_and_what_needs_no_question():
    said = REFUSE_ALL.approve(REQUEST).message
    assert "(why)" in said
    assert "read, glob or grep" in said
    assert "grep" not in REFUSE_ALL.approve(replace(REQUEST, call=ToolCall("1", "write", {}))).message
