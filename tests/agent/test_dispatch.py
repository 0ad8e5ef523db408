"""The order of a turn's calls, what runs together, and what an approver may change."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from src.agent.dispatch import NOT_FINISHED, Calls, Question, in_order
from src.errors import ConnectFailed
from src.security.permissions.approval import Answer
from src.security.permissions.policy import Policy
from src.security.permissions.review import ReviewBoard
from src.security.permissions.rules import parse_rules
from src.tools import Media, Registry, ToolContext
from src.types.events import CallDenied, CallFinished, CallStarted, Notice
from src.types.messages import ToolCall

from ..doubles import context

WAIT = 5.0  # seconds, so that a test which fails ends


class Asks:
    """An Approver that answers as told, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked = []

    def approve(self, request):
        self.asked.append(request)
        return self.answers.pop(0)


class Turn:
    """One turn's calls by tools of one's own."""

    def __init__(self, *answers: Answer, at_most: int = 4, rules=(), panel=None) -> None:
        self.policy = Policy(Path("/"), rules=parse_rules(rules))
        self.registry = Registry()
        self.approver = Asks(*answers)
        self.at_most = at_most
        self.panel = panel
        self.results = {}
        self.events = []

    def tool(self, function, risk="low", **options):
        self.registry.tool(risk=risk, **options)(function)
        return self

    def run(self, *calls: tuple[str, dict]):
        self.asked = [ToolCall(f"c{number}", name, arguments) for number, (name, arguments) in enumerate(calls)]
        self.calls = Calls(self.registry, self.approver, self.policy, self.at_most, self.panel)
        with context().for_run() as ctx:
            for event in self.calls.answer(self.asked, ctx, Question("go"), self.results):
                self.events.append(event)
        return self

    @property
    def said(self):
        return [result.value for result in in_order(self.asked, self.results)]

    def order(self):
        names = {CallStarted: "start", CallFinished: "finish", CallDenied: "deny"}
        return [f"{names[type(event)]} {event.call.id}" for event in self.events]


class TestOrder:
    def test_calls_of_low_risk_run_at_the_same_time(self):
        both = threading.Barrier(2)

        def meet(name: str) -> str:
            """Wait for the other."""
            both.wait(WAIT)
            return name

        turn = Turn().tool(meet).run(("meet", {"name": "a"}), ("meet", {"name": "b"}))
        assert turn.said == ["a", "b"]

    def test_events_and_results_come_in_the_order_of_the_calls_whoever_is_first(self):
        second_is_done = threading.Event()

        def first() -> str:
            """Wait for the second."""
            return str(second_is_done.wait(WAIT))

        def second() -> str:
            """Be quick."""
            second_is_done.set()
            return "quick"

        turn = Turn().tool(first).tool(second).run(("first", {}), ("second", {}))
        assert turn.said == ["True", "quick"]
        assert turn.order() == ["start c0", "start c1", "finish c0", "finish c1"]

    def test_no_more_run_at_once_than_may(self):
        now, most = [], []

        def busy(number: int) -> int:
            """Count who runs."""
            now.append(number)
            most.append(len(now))
            threading.Event().wait(0.005)
            now.remove(number)
            return number

        turn = Turn(at_most=2).tool(busy).run(*[("busy", {"number": number}) for number in range(6)])
        assert turn.said == list(range(6))
        assert max(most) <= 2

    def test_one_at_a_time_needs_no_threads(self):
        def where() -> str:
            """Name the thread."""
            return threading.current_thread().name

        def there(x: int) -> str:
            """Name the thread."""
            return threading.current_thread().name

        turn = Turn(at_most=1).tool(where).tool(there).run(("where", {}), ("there", {"x": 1}))
        assert set(turn.said) == {threading.current_thread().name}

    def test_a_call_of_high_risk_waits_for_those_before_it_and_those_behind_wait_for_it(self):
        noted = []

        def look(name: str) -> str:
            """Note it."""
            noted.append(name)
            return name

        def change(name: str) -> str:
            """Note it."""
            noted.append(name)
            return name

        turn = Turn(Answer(True), Answer(True)).tool(look).tool(change, "high")
        turn.run(
            ("look", {"name": "a"}), ("look", {"name": "b"}), ("change", {"name": "C"}), ("change", {"name": "D"}),
            ("look", {"name": "e"}),
        )  # fmt: skip
        assert sorted(noted[:2]) == ["a", "b"]
        assert noted[2:] == ["C", "D", "e"]
        assert [request.call.id for request in turn.approver.asked] == ["c2", "c3"]
        assert turn.order()[-6:] == ["start c2", "finish c2", "start c3", "finish c3", "start c4", "finish c4"]

    def test_a_wrong_call_among_them_keeps_its_place(self):
        def look(name: str) -> str:
            """Look."""
            return name

        turn = Turn().tool(look).run(("look", {"name": "a"}), ("lok", {}), ("look", {"name": "b"}))
        assert (turn.said[0], turn.said[2]) == ("a", "b")
        assert turn.order() == ["start c0", "finish c0", "finish c1", "start c2", "finish c2"]


class TestInterrupts:
    def test_the_model_hears_which_did_not_finish_and_the_tools_are_told_to_stop(self):
        others_run = threading.Barrier(3)

        def quick() -> str:
            """Be quick."""
            return "quick"

        def long(ctx: ToolContext) -> str:
            """Run until told to stop."""
            others_run.wait(WAIT)
            ctx.cancelled.wait(WAIT)
            ctx.raise_if_cancelled()
            return "never"

        def saved(ctx: ToolContext) -> str:
            """Finish all the same."""
            others_run.wait(WAIT)
            ctx.cancelled.wait(WAIT)
            return "saved"

        def interrupted() -> str:
            """Stand for Ctrl-C."""
            others_run.wait(WAIT)
            raise KeyboardInterrupt

        turn = Turn().tool(look_again, "high")
        for tool in (quick, interrupted, long, saved):
            turn.tool(tool)
        with pytest.raises(KeyboardInterrupt):
            turn.run(("quick", {}), ("interrupted", {}), ("long", {}), ("saved", {}), ("look_again", {}))
        assert turn.said == ["quick", NOT_FINISHED, NOT_FINISHED, "saved", NOT_FINISHED]

    def test_what_has_not_begun_never_does(self):
        begun = []

        def interrupted() -> str:
            """Stand for Ctrl-C."""
            raise KeyboardInterrupt

        def later(number: int, ctx: ToolContext) -> str:
            """Note it, and hold the thread."""
            begun.append(number)
            ctx.cancelled.wait(WAIT)
            return "later"

        turn = Turn(at_most=2).tool(interrupted).tool(later)
        with pytest.raises(KeyboardInterrupt):
            turn.run(("interrupted", {}), *[("later", {"number": number}) for number in range(50)])
        assert len(begun) <= 2
        assert turn.said[-1] == NOT_FINISHED


def look_again() -> str:
    """Look again."""
    return "never"


class TestWhatAnApproverSays:
    @staticmethod
    def changing(*answers, **options):
        def change(path: str, times: int = 1) -> str:
            """Change a file."""
            return f"changed {path}"

        return Turn(*answers).tool(change, "high", **options)

    def test_it_is_shown_what_would_change(self):
        turn = self.changing(Answer(False), preview=lambda arguments, ctx: f"+++ {arguments['path']}")
        turn.run(("change", {"path": "a"}))
        assert turn.approver.asked[0].preview == "+++ a"

    def test_a_no_is_a_denial_with_its_reason(self):
        turn = self.changing(Answer(False, "use b instead.")).run(("change", {"path": "a"}))
        assert turn.said == ["Not run: use b instead."]
        assert turn.order() == ["deny c0", "finish c0"]

    def test_changed_arguments_are_what_runs_and_the_model_is_told(self):
        turn = self.changing(Answer(True, arguments={"path": "b"})).run(("change", {"path": "a"}))
        assert turn.said == ['[The user changed the arguments to {"path": "b"}]\nchanged b']
        assert turn.events[0].call.arguments == {"path": "b"}

    def test_changed_arguments_are_checked_like_any(self):
        turn = self.changing(Answer(True, arguments={"pth": "b"})).run(("change", {"path": "a"}))
        assert turn.said[0].startswith("Not run: the user changed the arguments: Wrong arguments for change: ")
        assert turn.results[0].kind == "error"

    def test_who_is_asked_can_see_what_changed_arguments_would_do(self):
        turn = self.changing(Answer(False), preview=lambda arguments, ctx: f"+++ {arguments['path']}")
        turn.run(("change", {"path": "a"}))
        (request,) = turn.approver.asked
        assert request.revise(replace(request.call, arguments={"path": "b"})).preview == "+++ b"
        assert request.revise(replace(request.call, arguments={})).startswith("Wrong arguments for change: ")

    def test_what_a_rule_denies_is_denied_however_it_was_changed(self):
        def exec(command: str) -> str:
            """Run a command."""
            return "ran"

        deny = {"tool": "exec", "command": "rm", "action": "deny"}
        turn = Turn(Answer(True, arguments={"command": "rm build"}), rules=[deny]).tool(exec, "high")
        turn.run(("exec", {"command": "make"}))
        assert turn.said == [
            "Not run: the user changed the arguments: a rule denies it, or something it may turn out to be"
        ]

    def test_a_word_with_the_yes_reaches_the_model(self):
        turn = self.changing(Answer(True, "but be careful.")).run(("change", {"path": "a"}))
        assert turn.said == ["[The user says: but be careful.]\nchanged a"]

    def test_also_before_a_picture(self):
        def draw() -> object:
            """Draw."""
            return Media(b"x", "image/png")

        turn = Turn(Answer(True, "nice.")).tool(draw, "high").run(("draw", {}))
        assert [block["type"] for block in turn.said[0]] == ["text", "image"]


class Votes:
    """A Reviewer that answers as told; an exception is raised. `asked` are its prompts."""

    def __init__(self, name: str, answer) -> None:
        self.name = name
        self.answer = answer
        self.asked = []

    def ask(self, prompt: str) -> str:
        self.asked.append(prompt)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestReview:
    def turn(self, *answers, person=(), rules=(), on="high"):
        def change(path: str) -> str:
            """Change a file."""
            return "changed"

        self.reviewers = [Votes(f"r{number}", answer) for number, answer in enumerate(answers)]
        return Turn(*person, rules=rules, panel=ReviewBoard(self.reviewers, on=on)).tool(change, "high")

    def notices(self, turn):
        return [event.text for event in turn.events if isinstance(event, Notice)]

    def test_what_a_quorum_approves_runs_and_nobody_is_asked(self):
        turn = self.turn("APPROVE: fine", "APPROVE: fine", "REJECT: no").run(("change", {"path": "a"}))
        assert turn.said == ["changed"]
        assert turn.approver.asked == []
        assert self.notices(turn)[0] == "Reviewed by r0: APPROVE: fine"

    def test_what_a_quorum_rejects_goes_back_to_the_model_with_the_reasons(self):
        turn = self.turn("REJECT: it deletes", "REJECT: too much").run(("change", {"path": "a"}))
        assert turn.said == ["Not run: reviewers rejected it. r0: REJECT: it deletes; r1: REJECT: too much"]
        assert turn.approver.asked == []

    def test_without_a_quorum_the_person_decides_and_sees_what_was_said(self):
        turn = self.turn("APPROVE: fine", "REJECT: no", person=[Answer(True)]).run(("change", {"path": "a"}))
        assert turn.said == ["changed"]
        (request,) = turn.approver.asked
        assert request.reviews == ("r0: APPROVE: fine", "r1: REJECT: no")
        assert request.reason.endswith("its reviewers came to no decision")

    def test_where_one_cannot_be_reached_the_person_decides(self):
        answers = ("APPROVE: fine", "APPROVE: fine", ConnectFailed("nobody answers"))
        turn = self.turn(*answers, person=[Answer(False, "no.")]).run(("change", {"path": "a"}))
        (said,) = turn.said
        assert said.startswith("Not run: no. What reviewers said: r0: APPROVE: fine; ")
        assert said.endswith("r2: no vote: nobody answers")

    def test_what_the_policy_denies_they_are_not_asked_about(self):
        rules = [{"tool": "change", "action": "deny"}]
        self.turn("APPROVE: fine", rules=rules).run(("change", {"path": "a"}))
        assert self.reviewers[0].asked == []

    def test_what_a_rule_allows_they_see_as_well(self):
        rules = [{"tool": "change", "action": "allow"}]
        turn = self.turn("REJECT: no", rules=rules).run(("change", {"path": "a"}))
        assert turn.said == ["Not run: reviewers rejected it. r0: REJECT: no"]

    def test_on_ask_what_a_rule_allows_runs_at_once(self):
        rules = [{"tool": "change", "action": "allow"}]
        assert self.turn("REJECT: no", rules=rules, on="ask").run(("change", {"path": "a"})).said == ["changed"]
