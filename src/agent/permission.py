"""Whether a call may run: the policy decides, then the user's hooks, then reviewing models, then the user.

A call that the user changes is checked and decided again, but the user is not asked a second time. A call that cannot
succeed is answered to the model, and nobody is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..security.permissions.approval import (
    MODE_AFTER_PLAN,
    MODE_OF_EDITS,
    SUBMIT_PLAN,
    Answer,
    Approver,
    CannotRun,
    Request,
)
from ..security.permissions.hooks import HookReport, HookVerdict
from ..security.permissions.policy import WRITE_TOOLS, Decision, Policy
from ..security.permissions.rules import Rule
from ..security.shell.reader import UnsafeToParse, parse_line
from ..tools.sdk.context import ToolContext
from ..tools.sdk.registry import Registry
from ..tools.sdk.wiring import CommandReport
from ..types.effects import Aside
from ..types.messages import JSON, ToolCall, ToolDefinition, ToolResult
from ..types.sandbox import Grant
from .steps import await_hooks, wait_for
from .subagents import TASK

if TYPE_CHECKING:
    from ..security.permissions.hooks import Hooks
    from ..security.permissions.review import ReviewBoard, ReviewResult

MAX_CAUSE_CHARS = 160
CURL_AT_NETWORK = (6, 7)  # its exit codes where a name or a server cannot be reached
CANNOT_WRITE = {"curl": 23, "wget": 3}  # the exit code of such a client for a file that it cannot write
ACCEPTED = "The user accepted the plan. Carry it out, in mode edits."
ACCEPTED_CHANGED = "The user accepted the plan with changes. Carry it out as it is now, in mode edits.\n\n{plan}"
ADVICE = (
    "No sandbox holds commands to their access here, so every command asks. Install bubblewrap (the program bwrap), or "
    "use Linux 6.2 or later with Landlock."
)


class Permission(Struct, frozen=True):
    """`call` as it may run, or `denial_reason`, or `result`, which is known without a run.

    `user_note` is for the model, `reviews` a line each. `access` is what its command may do. `mode`: the one that holds
    from now on; "": the same. `reply`, `is_unasked`: of a denial, see Answer and CallDenied.
    """

    call: ToolCall
    denial_reason: str = ""
    user_note: str = ""
    reviews: tuple[str, ...] = ()
    access: Grant | None = None
    result: ToolResult | None = None
    mode: str = ""
    reply: str = ""
    is_unasked: bool = False


class AccessGrant(Struct, frozen=True):
    """The access that a command may run with after it failed; None: no other, for this `reason`, which may be "".

    `call`: as the user changed it; None: as it was. `user_note` is for the model.
    """

    access: Grant | None
    reason: str = ""
    call: ToolCall | None = None
    user_note: str = ""


class PermissionGate:
    """Decides for as long as a session: a rule that the user adds holds from then on. `policy` may be replaced.

    `parent`: the gate of the agent that a subagent works for, whose policy holds for it as well, in mode plan unless
    it `may_change` things.
    """

    def __init__(
        self,
        registry: Registry,
        approver: Approver,
        policy: Policy,
        board: ReviewBoard | None,
        *,
        hooks: Hooks | None = None,
        parent: PermissionGate | None = None,
        may_change: bool = False,
    ) -> None:
        self._policy = policy
        self._parent = parent
        self._may_change = may_change
        self._registry = registry
        self._approver = approver
        self._board = board
        self._hooks = hooks
        self._refused_lines: set[str] = set()  # commands that the user did not let run again with more access
        self._has_advised = False
        self._narrowed: ToolDefinition | None = None  # exec, where it is offered with access=read only

    @property
    def policy(self) -> Policy:
        if self._parent is None:
            return self._policy
        return self._parent.policy if self._may_change else replace(self._parent.policy, mode="plan")

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy

    def narrow(self, registry: Registry, approver: Approver, *, may_change: bool) -> PermissionGate:
        """The gate of a subagent with these tools."""
        return PermissionGate(
            registry, approver, self._policy, self._board, hooks=self._hooks, parent=self, may_change=may_change
        )

    def list_offered(self) -> tuple[ToolDefinition, ...]:
        """The tools of which some call may run, as the model is told of them."""
        offered: list[ToolDefinition] = []
        for tool in self._registry:
            name, definition = tool.definition.name, tool.definition
            can_offer = self.policy.can_offer(name, tool.risk, tool.access)
            if name == "exec" and self.policy.widest_access == "read":
                definition = self._narrowed = self._narrowed or tool.narrow_choices("access", ("read",))
            if can_offer:
                offered.append(definition)
        return tuple(offered)

    def find_free(self, call: ToolCall) -> ToolCall | None:
        """The call as it may run, if it is of low risk, changes nothing, and needs no permission; else None."""
        if self._registry.risk(call.name) != "low" or (call.name == TASK and call.arguments.get("may_change")):
            return None
        if self._hooks and self._hooks.find("before_call", call.name):
            return None
        judged, decision = self._decide_by_policy(call)
        return judged if decision.action == "allow" else None

    def runs_freely(self, line: str) -> Aside[bool]:
        """Whether a command line runs with access=read, held to it, without asking, and no hook is against it."""
        call = ToolCall("", "exec", {"command": line, "access": "read"})
        if not self.policy.is_enforced or call.name not in self._registry:
            return False
        if self._decide_by_policy(call)[1].action != "allow":
            return False
        verdict = yield from self._ask_hooks(call, "read")
        return not verdict.action

    def decide(self, call: ToolCall, ctx: ToolContext, task: str) -> Aside[Permission]:
        """`task`: the user's question, for the reviewers."""
        if call.name == SUBMIT_PLAN:
            return (yield from self._ask_about_plan(call))
        return (yield from self._decide_run(call, ctx, task))

    def _decide_run(self, call: ToolCall, ctx: ToolContext, task: str) -> Aside[Permission]:
        call, decision, is_by_hook = yield from self._decide_with_hooks(call)
        if decision.action == "deny":
            return Permission(call, decision.reason)
        board = self._find_board(call, decision.action)
        if decision.action == "allow" and not board:
            return Permission(call, access=decision.access)
        preview = self._registry.preview(call, ctx)
        if isinstance(preview, ToolResult):
            if call.name not in WRITE_TOOLS or self.policy.can_read(call):
                return Permission(call, result=preview)
            preview = ""  # it would tell the model what is in a file that it may not read
        reviews: tuple[str, ...] = ()
        if board:
            review = board.review(task, call, preview)
            reviews = review.lines
            if permission := _settle_by_review(call, decision, review):
                return permission
            outcome = "approved it" if review.vote == "approve" else "came to no decision"
            decision = replace(decision, reason=f"{decision.reason}; its reviewers {outcome}")
        request = replace(self._make_request(call, ctx, decision, preview), reviews=reviews)
        return (yield from self._ask_user(request, offers_rule=not is_by_hook))

    def _decide_with_hooks(self, call: ToolCall) -> Aside[tuple[ToolCall, Decision, bool]]:
        """As _decide_by_policy, with what the user's hooks say to a call that is not denied; whether they decided."""
        call, decision = self._decide_by_policy(call)
        if decision.action == "deny":
            return call, decision, False
        verdict = yield from self._ask_hooks(call, decision.access)
        if not verdict.action:
            return call, decision, False
        return call, replace(decision, action=verdict.action, reason=verdict.reason, needs_person=True), True

    def _ask_hooks(self, call: ToolCall, access: Grant | None) -> Aside[HookVerdict]:
        """What the user's hooks say to a call that the policy does not deny.

        A command is shown with the access that it gets, which a rule may grant to one that names none.
        """
        if not self._hooks or not self._hooks.find("before_call", call.name):
            return HookVerdict()
        if call.name == "exec" and access:
            call = replace(call, arguments={**call.arguments, "access": access})
        return (yield from await_hooks(self._hooks, self._hooks.judge(call, self.policy.mode)))

    def tell_hooks(self, call: ToolCall, result: ToolResult) -> Aside[HookReport]:
        """What the user's hooks add to the result of a call that ran."""
        if not self._hooks or not self._hooks.find("after_call", call.name):
            return HookReport()
        return (yield from await_hooks(self._hooks, self._hooks.tell_result(call, result, self.policy.mode)))

    def _ask_about_plan(self, call: ToolCall) -> Aside[Permission]:
        """Ask the user to accept the plan, which ends mode plan. Where nobody can be asked, the call runs."""
        call, decision = self._decide_by_policy(call)
        if decision.action == "deny":
            return Permission(call, decision.reason)

        def revise(changed: ToolCall) -> Request:
            self._check(changed)
            return replace(request, call=changed)

        request = Request(call, decision.reason, revise, needs_person=decision.needs_person)
        answer = yield from self.ask(request)
        if answer.allowed is not True:
            if answer.is_unasked:
                return Permission(call)
            return Permission(call, answer.message or "the user said no.", reply=answer.reply)
        self.policy = replace(self.policy, mode=MODE_AFTER_PLAN)
        text = ACCEPTED
        if answer.arguments is not None and answer.arguments != call.arguments:
            text = ACCEPTED_CHANGED.format(plan=answer.arguments.get("plan"))
        return Permission(call, result=ToolResult(call.id, call.name, "text", text), mode=MODE_AFTER_PLAN)

    def is_unaffected(self, call: ToolCall, report: CommandReport) -> bool:
        """Whether a command failed, but not for lack of access."""
        line = call.arguments.get("command")
        return call.name == "exec" and isinstance(line, str) and self.policy.is_unaffected(line, report.exit_code)

    def widen(self, call: ToolCall, ctx: ToolContext, report: CommandReport) -> Aside[AccessGrant]:
        """More access for a command that failed for lack of it. The user is asked once for a line.

        One that named no access and ran with read may get write. In mode full, where nobody was asked before, one that
        was refused a file may run outside the sandbox.
        """
        line = str(call.arguments.get("command", ""))
        if line in self._refused_lines:
            return AccessGrant(None)
        if report.named_none and (report.cause or not _failed_at_network(line, report.exit_code)):
            return (yield from self._widen_to_write(call, ctx, report, line))
        if self.policy.mode == "full" and report.cause:
            return (yield from self._offer_outside(call, ctx, report, line))
        return AccessGrant(None)

    def _widen_to_write(self, call: ToolCall, ctx: ToolContext, report: CommandReport, line: str) -> Aside[AccessGrant]:
        wider = replace(call, arguments={**call.arguments, "access": "write"})
        wider, decision, is_by_hook = yield from self._decide_with_hooks(wider)
        if decision.action == "deny":
            return AccessGrant(None, decision.reason)
        if decision.action == "allow":
            return AccessGrant(decision.access)
        reason = f"with access=read it failed (exit code {report.exit_code}); it may need to change files"
        if report.cause:
            reason = f"with access=read it failed: {_quote_cause(report)}"
        if is_by_hook:
            reason = f"{reason}; {decision.reason}"
        request = replace(self._make_request(wider, ctx, replace(decision, reason=reason)), has_begun=True)
        permission = yield from self._ask_user(request, offers_rule=not is_by_hook)
        if permission.denial_reason:
            self._refused_lines.add(line)
            return AccessGrant(None, f"access=write was refused: {permission.denial_reason}")
        if permission.call == wider:
            self._add(Rule("exec", "allow", line.strip(" \t\n"), exact=True, access="write"))
        return AccessGrant(permission.access, "", permission.call, permission.user_note)

    def _offer_outside(self, call: ToolCall, ctx: ToolContext, report: CommandReport, line: str) -> Aside[AccessGrant]:
        reason = f"the sandbox refused it: {_quote_cause(report)}"
        request = Request(call, reason, lambda changed: self._revise(changed, ctx), access="outside")
        request = replace(request, wider=("outside",), needs_person=True, has_begun=True)
        permission = yield from self._ask_user(request, offers_rule=False)
        if permission.denial_reason:
            self._refused_lines.add(line)
            return AccessGrant(None)
        return AccessGrant(permission.access, "", permission.call, permission.user_note)

    def _decide_by_policy(self, call: ToolCall) -> tuple[ToolCall, Decision]:
        """The call as the decision holds for it, and the decision."""
        decision = self.policy.decide(call, self._registry.risk(call.name), self._registry.access(call.name))
        return replace(call, real_path=decision.real_path), decision

    def _make_request(self, call: ToolCall, ctx: ToolContext, decision: Decision, preview: str = "") -> Request:
        request = Request(call, decision.reason, lambda changed: self._revise(changed, ctx), preview)
        request = replace(request, access=decision.access, needs_person=decision.needs_person)
        if not decision.needs_person and self._is_free_edit(call):
            request = replace(request, mode=MODE_OF_EDITS)
        if decision.access is None:
            return request
        if self.policy.is_enforced:
            grants: tuple[Grant, ...] = ("network", "outside")
            wider = tuple(grant for grant in grants if grant != decision.access)
            return replace(request, wider=wider)
        is_off = self.policy.sandbox is not None and self.policy.sandbox.kind == "off"  # the user does without
        if is_off or self._has_advised:
            return request
        self._has_advised = True
        return replace(request, advice=ADVICE)

    def _is_free_edit(self, call: ToolCall) -> bool:
        """Whether an edit that asks in mode ask runs without asking in that of edits. A subagent switches no mode."""
        if call.name not in WRITE_TOOLS or self.policy.mode != "ask" or self._parent:
            return False
        if self._find_board(call, "ask"):
            return False
        policy = replace(self.policy, mode=MODE_OF_EDITS)
        return policy.decide(call, self._registry.risk(call.name)).action == "allow"

    def _find_board(self, call: ToolCall, action: str) -> ReviewBoard | None:
        """The reviewers, if they look at such a call."""
        if self._board and self._board.applies_to(self._registry.risk(call.name), action):
            return self._board
        return None

    def _revise(self, call: ToolCall, ctx: ToolContext) -> Request:
        """See Request."""
        self._check(call)
        call, decision = self._decide_by_policy(call)
        if decision.action == "deny":
            raise CannotRun(decision.reason)
        preview = self._registry.preview(call, ctx)
        if isinstance(preview, ToolResult):
            raise CannotRun(preview.text)
        return self._make_request(call, ctx, decision, preview)

    def _check(self, call: ToolCall) -> None:
        if error := self._registry.check(call):
            raise CannotRun(error.text)

    def ask(self, request: Request) -> Aside[Answer]:
        """What the approver says, also to a question of a subagent."""
        return (yield from wait_for(self._approver.approve(request)))

    def _ask_user(self, request: Request, *, offers_rule: bool = True) -> Aside[Permission]:
        """`offers_rule`: whether a rule can make such calls run without asking."""
        call, rule = request.call, None
        if offers_rule:
            access = None if request.access == "outside" else request.access
            rule = self.policy.find_always_rule(call, access)
        answer = yield from self.ask(replace(request, rule=str(rule or ""), can_save=self.policy.can_be_kept(call)))
        if answer.allowed is not True:
            reason = answer.message or "the user said no."
            if request.reviews:
                reason += f" What reviewers said: {'; '.join(request.reviews)}"
            is_unasked = answer.is_unasked and not request.is_for_person
            return Permission(call, reason, reply=answer.reply, is_unasked=is_unasked)
        return (yield from self._apply_answer(request, answer, rule))

    def _apply_answer(self, request: Request, answer: Answer, rule: Rule | None) -> Aside[Permission]:
        """The call as the user allowed it. `rule`: makes such calls run without asking, if they want that."""
        call = request.call
        mode = request.mode if answer.mode == request.mode else ""
        if mode:
            self.policy = replace(self.policy, mode=mode)
        if answer.arguments is not None and answer.arguments != call.arguments:
            permission = yield from self._apply_changes(request, answer, answer.arguments)
            return replace(permission, mode=mode)
        if rule and (answer.always or answer.for_chat):
            self._add(rule)
        return Permission(call, user_note=_quote_user(answer), access=answer.access or request.access, mode=mode)

    def _add(self, rule: Rule) -> None:
        if self._parent:
            self._parent._add(rule)
        else:
            self.policy = self.policy.with_rule(rule)

    def _apply_changes(self, request: Request, answer: Answer, arguments: Mapping[str, JSON]) -> Aside[Permission]:
        call = replace(request.call, arguments=arguments)
        try:
            revised = request.revise(call)
        except CannotRun as error:
            return Permission(call, f"the user changed the arguments: {error.message}")
        verdict = yield from self._ask_hooks(revised.call, answer.access or revised.access)
        if verdict.action == "deny":
            return Permission(revised.call, f"the user changed the arguments: {verdict.reason}")
        new = ToolResult(call.id, call.name, "data", dict(arguments)).text
        note = f"[The user changed the arguments to {new}]\n{_quote_user(answer)}"
        return Permission(revised.call, user_note=note, access=answer.access or revised.access)


def _settle_by_review(call: ToolCall, decision: Decision, review: ReviewResult) -> Permission | None:
    """What the reviewers decide; None if a person is to be asked."""
    if review.vote == "reject":
        return Permission(call, "reviewers rejected it. " + "; ".join(review.lines), reviews=review.lines)
    if review.vote == "approve" and not decision.needs_person:
        return Permission(call, reviews=review.lines, access=decision.access)
    return None


def _quote_user(answer: Answer) -> str:
    return f"[The user says: {answer.message}]\n" if answer.message else ""


def _quote_cause(report: CommandReport) -> str:
    """The cause between quotation marks, since others wrote it."""
    return json.dumps(report.cause.strip()[:MAX_CAUSE_CHARS], ensure_ascii=False)


def _failed_at_network(line: str, exit_code: int) -> bool:
    """Whether a command ended with a client of the network that failed, and not at a file: writing cures nothing."""
    try:
        commands = parse_line(line)
    except UnsafeToParse:
        return "curl" in line and exit_code in CURL_AT_NETWORK
    return bool(commands) and exit_code != CANNOT_WRITE.get(commands[-1].name, exit_code)
