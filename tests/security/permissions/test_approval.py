"""The approvers that approve or refuse every call."""

from __future__ import annotations

from src.security.permissions.approval import APPROVE_ALL, REFUSE_ALL, Request
from src.types.messages import ToolCall

REQUEST = Request(ToolCall("1", "exec", {"command": "ls"}), "why", lambda _: "never")


def test_who_approves_all_and_who_refuses_all():
    assert APPROVE_ALL.approve(REQUEST).allowed
    assert not REFUSE_ALL.approve(REQUEST).allowed


def test_who_is_refused_for_want_of_anybody_hears_of_yes():
    assert "--yes" in REFUSE_ALL.approve(REQUEST).message


def test_and_why_it_was_to_be_asked_and_what_needs_no_asking():
    said = REFUSE_ALL.approve(REQUEST).message
    assert "(why)" in said
    assert "read, glob or grep" in said
    assert "grep" not in REFUSE_ALL.approve(REQUEST._replace(call=ToolCall("1", "write", {}))).message
