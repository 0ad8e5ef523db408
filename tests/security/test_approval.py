"""Who approves all and who refuses all."""

from __future__ import annotations

from src.messages import ToolCall
from src.security.approval import APPROVE_ALL, REFUSE_ALL, Request

REQUEST = Request(ToolCall("1", "exec", {"command": "ls"}), "why")


def test_who_approves_all_and_who_refuses_all():
    assert APPROVE_ALL.approve(REQUEST).allowed
    assert not REFUSE_ALL.approve(REQUEST).allowed


def test_who_is_refused_for_want_of_anybody_hears_of_yes():
    assert "--yes" in REFUSE_ALL.approve(REQUEST).message
