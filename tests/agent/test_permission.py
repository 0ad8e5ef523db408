"""What the policy, reviewing models and the user decide about a call."""

from __future__ import annotations

from dataclasses import replace

from src.errors import ConnectFailed
from src.security.permissions.approval import Answer
from src.security.permissions.review import ReviewBoard
from src.tools import Media
from src.types.events import Notice

from .turns import Turn


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
        assert turn.values == ["Not run: use b instead."]
        assert turn.order() == ["deny c0", "finish c0"]

    def test_changed_arguments_are_what_runs_and_the_model_is_told(self):
        turn = self.changing(Answer(True, arguments={"path": "b"})).run(("change", {"path": "a"}))
        assert turn.values == ['[The user changed the arguments to {"path": "b"}]\nchanged b']
        assert turn.events[0].call.arguments == {"path": "b"}

    def test_changed_arguments_are_checked_like_any(self):
        turn = self.changing(Answer(True, arguments={"pth": "b"})).run(("change", {"path": "a"}))
        assert turn.values[0].startswith("Not run: the user changed the arguments: Wrong arguments for change: ")
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
        assert turn.values == [
            "Not run: the user changed the arguments: a rule denies it, or something it may turn out to be"
        ]

    def test_a_word_with_the_yes_reaches_the_model(self):
        turn = self.changing(Answer(True, "but be careful.")).run(("change", {"path": "a"}))
        assert turn.values == ["[The user says: but be careful.]\nchanged a"]

    def test_also_before_a_picture(self):
        def draw() -> object:
            """Draw."""
            return Media(b"x", "image/png")

        turn = Turn(Answer(True, "nice.")).tool(draw, "high").run(("draw", {}))
        assert [block["type"] for block in turn.values[0]] == ["text", "image"]


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
        return Turn(*person, rules=rules, board=ReviewBoard(self.reviewers, on=on)).tool(change, "high")

    def notices(self, turn):
        return [event.text for event in turn.events if isinstance(event, Notice)]

    def test_a_call_that_a_quorum_approves_runs_without_asking(self):
        turn = self.turn("APPROVE: fine", "APPROVE: fine", "REJECT: no").run(("change", {"path": "a"}))
        assert turn.values == ["changed"]
        assert turn.approver.asked == []
        assert self.notices(turn)[0] == "Reviewed by r0: APPROVE: fine"

    def test_a_guessed_call_that_a_quorum_approves_still_asks_the_user(self):
        turn = self.turn("APPROVE: fine", person=[Answer(True)]).run(("change", {"path": "a"}), guessed=True)
        assert turn.values == ["changed"]
        (request,) = turn.approver.asked
        assert request.reason.endswith("its reviewers approved it")

    def test_what_a_quorum_rejects_goes_back_to_the_model_with_the_reasons(self):
        turn = self.turn("REJECT: it deletes", "REJECT: too much").run(("change", {"path": "a"}))
        assert turn.values == ["Not run: reviewers rejected it. r0: REJECT: it deletes; r1: REJECT: too much"]
        assert turn.approver.asked == []

    def test_without_a_quorum_the_user_decides_and_sees_the_votes(self):
        turn = self.turn("APPROVE: fine", "REJECT: no", person=[Answer(True)]).run(("change", {"path": "a"}))
        assert turn.values == ["changed"]
        (request,) = turn.approver.asked
        assert request.reviews == ("r0: APPROVE: fine", "r1: REJECT: no")
        assert request.reason.endswith("its reviewers came to no decision")

    def test_where_one_cannot_be_reached_the_person_decides(self):
        answers = ("APPROVE: fine", "APPROVE: fine", ConnectFailed("nobody answers"))
        turn = self.turn(*answers, person=[Answer(False, "no.")]).run(("change", {"path": "a"}))
        (said,) = turn.values
        assert said.startswith("Not run: no. What reviewers said: r0: APPROVE: fine; ")
        assert said.endswith("r2: no vote: nobody answers")

    def test_what_the_policy_denies_they_are_not_asked_about(self):
        rules = [{"tool": "change", "action": "deny"}]
        self.turn("APPROVE: fine", rules=rules).run(("change", {"path": "a"}))
        assert self.reviewers[0].asked == []

    def test_what_a_rule_allows_they_see_as_well(self):
        rules = [{"tool": "change", "action": "allow"}]
        turn = self.turn("REJECT: no", rules=rules).run(("change", {"path": "a"}))
        assert turn.values == ["Not run: reviewers rejected it. r0: REJECT: no"]

    def test_on_ask_what_a_rule_allows_runs_at_once(self):
        rules = [{"tool": "change", "action": "allow"}]
        assert self.turn("REJECT: no", rules=rules, on="ask").run(("change", {"path": "a"})).values == ["changed"]
