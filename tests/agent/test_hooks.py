"""Hooks in the loop: they narrow what the policy allows, and add to what comes back."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.security.permissions.approval import Answer
from src.security.permissions.hooks import HookReport, HookVerdict
from src.security.permissions.policy import Policy
from src.security.permissions.rules import parse_rules
from src.tools import REGISTRY
from src.types.effects import Await
from src.types.events import CallDenied, CallFinished, Notice
from src.types.messages import ToolCall

from ..doubles import POLICY, says
from .test_loop import Run
from .test_permission import LabelledSandbox
from .turns import Turn

LOOK = ToolCall("c1", "look", {"path": "a"})
CHANGE = ToolCall("c2", "change", {"path": "a"})
FULL = replace(POLICY, mode="full")
DENY, ASK = HookVerdict("deny", "hook x: no"), HookVerdict("ask", "hook x: sure?")


class ScriptedHooks:
    """Hooks that say what the test wants, and keep what they heard."""

    def __init__(self, *verdicts: HookVerdict, note: str = "", failure: str = "") -> None:
        self.verdicts = list(verdicts)
        self.report = HookReport((note,) if note else (), (failure,) if failure else ())
        self.heard: list[tuple] = []
        self.has_ended = False

    def find(self, event, tool=""):
        return [event]

    def judge(self, call, mode):
        self.heard.append(("before", call.name, dict(call.arguments)))
        return _done(self.verdicts.pop(0) if self.verdicts else HookVerdict())

    def tell_result(self, call, result, mode):
        self.heard.append(("after", call.name, result.text))
        return _done(self.report)

    def tell_end(self, answer, mode):
        self.heard.append(("end", answer))
        return _done(self.report)

    def end(self):
        self.has_ended = True


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def run(*turns, hooks, answers=(), policy=FULL):
    return Run(*turns, says("Bye."), answers=answers, hooks=hooks, policy=policy).all()


@pytest.mark.parametrize("call", [LOOK, CHANGE])
def test_a_call_that_a_hook_denies_does_not_run_in_any_mode(call):
    done = run(says("", call), hooks=ScriptedHooks(DENY))
    assert done.ran == []
    (denied,) = done.of(CallDenied)
    assert denied.reason == "hook x: no"
    assert done.results()[0].text == "Not run: hook x: no"


def test_a_call_that_a_hook_lets_ask_runs_after_a_yes():
    done = run(says("", CHANGE), hooks=ScriptedHooks(ASK), answers=(True,))
    (request,) = done.approver.requests
    assert (request.reason, request.needs_person, request.rule) == ("hook x: sure?", True, "")
    assert done.ran == ["change a"]


def test_a_hook_never_allows_what_the_policy_asks_about():
    hooks = ScriptedHooks(HookVerdict())
    done = run(says("", CHANGE), hooks=hooks, answers=(False,), policy=POLICY)
    assert len(done.approver.requests) == 1
    assert done.ran == []


def test_a_second_run_with_more_access_about_which_a_hook_asks_needs_a_person():
    turn = Turn(Answer(False), hooks=ScriptedHooks(HookVerdict(), ASK))
    sandbox = LabelledSandbox()
    turn.registry, turn.policy = REGISTRY, Policy(Path("/"), "auto", sandbox=sandbox)
    turn.run(("exec", {"command": '[ "$ACCESS" != read ]'}), sandbox=sandbox)
    (request,) = turn.approver.asked
    assert (request.access, request.needs_person) == ("write", True)
    assert request.reason.endswith("; hook x: sure?")


WRITES = ("exec", {"command": '[ "$ACCESS" != read ]'})


def run_commands(*calls, hooks, answers=(), rules=(), mode="ask"):
    turn = Turn(*answers, hooks=hooks)
    sandbox = LabelledSandbox()
    turn.registry, turn.policy = REGISTRY, Policy(Path("/"), mode, parse_rules(rules), sandbox=sandbox)
    return turn.run(*calls, sandbox=sandbox)


def list_judged_accesses(hooks):
    return [heard[2].get("access") for heard in hooks.heard if heard[0] == "before"]


def test_hooks_judge_the_access_that_a_line_got_for_good():
    hooks = ScriptedHooks()
    turn = run_commands(WRITES, WRITES, hooks=hooks, answers=[Answer(True)])
    assert list_judged_accesses(hooks) == ["read", "write", "write"]
    assert len(turn.approver.asked) == 1


def test_a_hook_that_asks_about_an_access_is_asked_once_for_each_run_that_gets_it():
    hooks = ScriptedHooks(HookVerdict(), ASK, ASK, DENY)
    turn = run_commands(WRITES, WRITES, WRITES, hooks=hooks, answers=[Answer(True), Answer(True)])
    assert list_judged_accesses(hooks) == ["read", "write", "write", "write"]
    assert [each.access for each in turn.approver.asked] == ["write", "write"]
    assert turn.values[2] == "Not run: hook x: no"


def test_hooks_judge_the_access_that_a_rule_of_the_settings_grants():
    hooks = ScriptedHooks(DENY)
    rule = {"tool": "exec", "command": "touch", "action": "allow"}
    run_commands(("exec", {"command": "touch a"}), hooks=hooks, rules=[rule])
    assert list_judged_accesses(hooks) == ["write"]


def test_hooks_judge_the_access_that_the_user_gave_to_a_command_they_changed():
    hooks = ScriptedHooks(HookVerdict(), DENY)
    changed = Answer(True, arguments={"command": "echo", "access": "write"}, access="network")
    run_commands(("exec", {"command": "echo a", "access": "write"}), hooks=hooks, answers=[changed])
    assert list_judged_accesses(hooks) == ["write", "network"]


def test_no_rule_is_offered_where_a_hook_asks_about_a_second_run():
    turn = run_commands(WRITES, hooks=ScriptedHooks(HookVerdict(), ASK), answers=[Answer(False)])
    assert [each.rule for each in turn.approver.asked] == [""]


def test_a_call_that_the_policy_denies_is_no_hooks_business():
    hooks = ScriptedHooks()
    run(says("", CHANGE), hooks=hooks, policy=replace(POLICY, mode="plan"))
    assert [heard for heard in hooks.heard if heard[0] == "before"] == []


def test_a_call_that_the_user_changes_is_judged_again():
    changed = Answer(True, arguments={"path": "b"})
    done = run(says("", CHANGE), hooks=ScriptedHooks(ASK, DENY), answers=(changed,))
    assert done.ran == []
    assert done.results()[0].text == "Not run: the user changed the arguments: hook x: no"


def test_calls_that_hooks_judge_run_one_by_one_with_a_note_for_the_model():
    hooks = ScriptedHooks(note="hook x: checked")
    done = run(says("", LOOK, replace(LOOK, id="c2", arguments={"path": "b"})), hooks=hooks)
    assert [heard[0] for heard in hooks.heard] == ["before", "after", "before", "after", "end"]
    assert all(finished.result.text.endswith("\n[hook x: checked]") for finished in done.of(CallFinished))


@pytest.mark.parametrize(("verdict", "may_run"), [(HookVerdict(), True), (DENY, False), (ASK, False)])
def test_a_checkers_command_is_judged_as_a_command_that_only_reads(verdict, may_run, tmp_path):
    told = []

    def diagnose(files, ctx):
        told.append((yield "ruff check a"))
        return ""

    hooks = ScriptedHooks(HookVerdict(), verdict)
    turn = Turn(hooks=hooks)
    sandbox = LabelledSandbox()
    turn.registry, turn.policy = REGISTRY, Policy(tmp_path, "full", sandbox=sandbox)
    turn.run(("write", {"path": "a", "content": "x"}), workspace=tmp_path, sandbox=sandbox, diagnose=diagnose)
    assert told == [may_run]
    assert hooks.heard[-1] == ("before", "exec", {"command": "ruff check a", "access": "read"})


def test_the_answer_is_told_at_its_end_and_a_failure_is_a_notice():
    hooks = ScriptedHooks(failure="The hook x failed: exit code 3.")
    done = run(hooks=hooks)
    assert hooks.heard == [("end", "Bye.")]
    assert done.of(Notice) == [Notice("The hook x failed: exit code 3.")]
    assert not hooks.has_ended


def test_programs_end_when_the_run_is_left_while_they_decide():
    hooks = ScriptedHooks()
    hooks.judge = lambda call, mode: Future()  # for ever
    steps = Run(says("", CHANGE), hooks=hooks, policy=FULL)
    run = steps.agent.run(steps.conversation)
    while not isinstance(next(run), Await):
        pass
    run.close()
    assert hooks.has_ended
