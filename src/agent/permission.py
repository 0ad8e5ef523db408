"""Whether a call may run: the policy decides, then reviewing models, then the user.

A call that the user changes is checked and decided again, but the user is not asked a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ..security.permissions.approval import Answer, Approver, Request
from ..security.permissions.policy import Policy
from ..security.permissions.review import ReviewBoard
from ..tools.sdk.context import ToolContext
from ..tools.sdk.registry import Registry
from ..types.effects import Aside
from ..types.messages import JSON, ToolCall, ToolResult
from .steps import wait_for


class Permission(NamedTuple):
    """`call` as it may run, or `denial_reason`. `user_note` is for the model, `reviews` a line each."""

    call: ToolCall
    denial_reason: str = ""
    user_note: str = ""
    reviews: tuple[str, ...] = ()


class PermissionGate:
    """Decides for as long as a session: a rule that the user adds with `always` holds from then on."""

    def __init__(self, registry: Registry, approver: Approver, policy: Policy, board: ReviewBoard | None) -> None:
        self._registry = registry
        self._approver = approver
        self._policy = policy
        self._board = board

    def is_free(self, call: ToolCall) -> bool:
        """Whether the call is of low risk and needs no permission."""
        risk = self._registry.risk(call.name)
        return risk == "low" and self._policy.decide(call, risk).action == "allow"

    def decide(self, call: ToolCall, ctx: ToolContext, task: str) -> Aside[Permission]:
        """`task`: the user's question, for the reviewers."""
        risk = self._registry.risk(call.name)
        action, reason, *_ = self._policy.decide(call, risk)
        if action == "deny":
            return Permission(call, reason)
        reviews: tuple[str, ...] = ()
        if self._board and self._board.applies_to(risk, action):
            review = self._board.review(task, call, self._registry.preview(call, ctx))
            if review.vote == "reject":
                return Permission(call, "reviewers rejected it. " + "; ".join(review.lines), reviews=review.lines)
            if review.vote == "approve" and not call.guessed:
                return Permission(call, reviews=review.lines)
            outcome = "approved it" if review.vote == "approve" else "came to no decision"
            reviews, reason = review.lines, f"{reason}; its reviewers {outcome}"
        elif action == "allow":
            return Permission(call)
        return (yield from self._ask_user(self._make_request(call, ctx, reason)._replace(reviews=reviews)))

    def _make_request(self, call: ToolCall, ctx: ToolContext, reason: str) -> Request:
        return Request(call, reason, lambda changed: self._revise(changed, ctx), self._registry.preview(call, ctx))

    def _revise(self, call: ToolCall, ctx: ToolContext) -> Request | str:
        """The request for a call as the user changed it; a text says why it can never run."""
        if error := self._registry.check(call):
            return error.text
        decision = self._policy.decide(call, self._registry.risk(call.name))
        return decision.reason if decision.action == "deny" else self._make_request(call, ctx, decision.reason)

    def _ask_user(self, request: Request) -> Aside[Permission]:
        call = request.call
        always = self._policy.find_always_rule(call)
        answer = yield from wait_for(self._approver.approve(request._replace(rule=str(always or ""))))
        if answer.allowed is not True:
            reviews = f" What reviewers said: {'; '.join(request.reviews)}" if request.reviews else ""
            return Permission(call, (answer.message or "the user said no.") + reviews)
        if answer.arguments is not None and answer.arguments != call.arguments:
            return _apply_changes(request, answer, answer.arguments)
        if answer.always and always:
            self._policy = self._policy.with_rule(always)
        return Permission(call, user_note=_quote_user(answer))


def _apply_changes(request: Request, answer: Answer, arguments: Mapping[str, JSON]) -> Permission:
    call = replace(request.call, arguments=arguments)
    if isinstance(why_not := request.revise(call), str):
        return Permission(call, f"the user changed the arguments: {why_not}")
    new = ToolResult(call.id, call.name, "data", dict(arguments)).text
    return Permission(call, user_note=f"[The user changed the arguments to {new}]\n{_quote_user(answer)}")


def _quote_user(answer: Answer) -> str:
    return f"[The user says: {answer.message}]\n" if answer.message else ""
