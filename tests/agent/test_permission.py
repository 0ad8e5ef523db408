"""What the policy, reviewing models and the user decide about a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from src.agent.permission import PermissionGate
from src.errors import ConnectFailed
from src.security.permissions.approval import REFUSE_ALL, Answer, AutoApprover, CannotRun, Request, refuse_with
from src.security.permissions.policy import Policy
from src.security.permissions.review import ReviewBoard
from src.security.permissions.rules import parse_rules
from src.security.sandbox.choose import choose
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.view import SandboxView
from src.tools import REGISTRY, Media
from src.types.events import CallDenied, ModeChanged, Notice
from src.types.messages import ToolCall
from src.types.sandbox import Launch

from .turns import Turn

ASKED = Request(ToolCall("c0", "change", {"path": "a"}), "it asks", lambda _: ASKED)


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

    def test_what_the_user_says_with_a_no_is_in_the_result_beside_its_text(self):
        (result,) = self.changing(refuse_with("use b.")).run(("change", {"path": "a"})).results
        assert (result.reply, result.text) == ("use b.", "Not run: the user did not let it run, and said: use b.")

    def test_a_denial_tells_whether_yes_would_have_let_it_run(self):
        for guessed in (False, True):
            turn = self.changing(REFUSE_ALL.approve(ASKED)).run(("change", {"path": "a"}), guessed=guessed)
            assert [each.is_unasked for each in turn.events if isinstance(each, CallDenied)] == [not guessed]

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
        with pytest.raises(CannotRun, match="^Wrong arguments for change: "):
            request.revise(replace(request.call, arguments={}))

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

    def test_a_word_with_the_yes_stands_before_a_picture(self):
        def draw() -> object:
            """Draw."""
            return Media(b"x", "image/png")

        turn = Turn(Answer(True, "nice.")).tool(draw, "high").run(("draw", {}))
        assert [block["type"] for block in turn.values[0]] == ["text", "image"]


class TestTheModeOfEdits:
    @staticmethod
    def write(*answers, path="a.txt", rules=(), **options):
        def write(path: str) -> str:
            """Write a file."""
            return f"wrote {path}"

        turn = Turn(*answers, rules=rules, **options).tool(write, "high")
        return turn.run(("write", {"path": path}), ("write", {"path": "b.txt"}))

    def test_an_answer_may_switch_to_it_and_later_edits_do_not_ask(self):
        turn = self.write(Answer(True, mode="edits"))
        assert [request.mode for request in turn.approver.asked] == ["edits"]
        assert turn.values == ["wrote a.txt", "wrote b.txt"]
        assert [event.mode for event in turn.events if isinstance(event, ModeChanged)] == ["edits"]

    def test_it_is_no_answer_to_what_asks_in_that_mode_too(self):
        asks = [{"tool": "write", "path": "a.txt", "action": "ask"}]
        turn = self.write(Answer(True, mode="edits"), Answer(False), rules=asks)
        assert [request.mode for request in turn.approver.asked] == ["", "edits"]
        assert not [event for event in turn.events if isinstance(event, ModeChanged)]

    def test_it_is_no_answer_to_a_file_that_runs_by_itself(self):
        turn = self.write(Answer(False), Answer(False), path=".envrc")
        assert [request.mode for request in turn.approver.asked] == ["", "edits"]

    def test_it_is_no_answer_where_models_review_edits(self):
        votes = [Votes("r", ConnectFailed("gone"))]
        turn = self.write(Answer(False), Answer(False), board=ReviewBoard(votes, on="ask"))
        assert [request.mode for request in turn.approver.asked] == ["", ""]


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


class LabelledSandbox:
    """Tells a command its access in a variable, and is believed to enforce it."""

    kind, description, is_enforcing, has_loopback = "labelled", "", True, True

    def has_network(self, access):
        return access == "network"

    def launch(self, argv, cwd, environment, access="write"):
        return Launch(argv, {**environment, "ACCESS": access})


class TestCommands:
    """The access of a command: what the mode, a rule or the user grants, and a second run with more."""

    NEEDS_WRITE = '[ "$ACCESS" != read ]; code=$?; echo "with $ACCESS"; exit $code'

    @staticmethod
    def run(*calls, answers=(), mode="ask", rules=()):
        turn = Turn(*answers)
        turn.registry = REGISTRY
        sandbox = LabelledSandbox()
        turn.policy = Policy(Path("/"), mode, parse_rules(rules), sandbox=sandbox)
        return turn.run(*(("exec", call) for call in calls), sandbox=sandbox)

    def test_a_command_runs_with_the_access_that_it_names_if_the_mode_makes_it_free(self):
        turn = self.run({"command": "echo $ACCESS"}, {"command": "echo $ACCESS", "access": "write"}, mode="auto")
        assert turn.values == ["read\n[exit code 0]", "write\n[exit code 0]"]

    def test_one_that_named_none_and_failed_runs_again_where_writing_is_free(self):
        (value,) = self.run({"command": self.NEEDS_WRITE}, mode="auto").values
        note = "[it failed with access=read, and was run again with access=write]"
        assert value == f"with write\n[exit code 0]\n{note}"

    def test_else_the_user_is_asked_once_and_the_answer_holds_for_that_line(self):
        calls = [{"command": self.NEEDS_WRITE}, {"command": self.NEEDS_WRITE}]
        turn = self.run(*calls, answers=[Answer(True)])
        assert [value.split("\n")[0] for value in turn.values] == ["with write"] * 2
        (request,) = turn.approver.asked
        assert (request.access, request.has_begun) == ("write", True)

    def test_the_question_quotes_the_line_that_names_the_refused_file(self):
        refused = '[ "$ACCESS" != read ] || { echo "touch: cannot touch \'a\': Read-only file system"; exit 1; }'
        (request,) = self.run({"command": refused}, answers=[Answer(False)]).approver.asked
        quoted = "\"touch: cannot touch 'a': Read-only file system\""
        assert request.reason == f"with access=read it failed: {quoted}"

    def test_a_no_holds_for_that_line_as_well(self):
        calls = [{"command": self.NEEDS_WRITE}, {"command": self.NEEDS_WRITE}]
        turn = self.run(*calls, answers=[Answer(False, "not now.")])
        assert "access=write was refused: not now." in turn.values[0]
        assert turn.values[1].startswith("with read\n[exit code 1]\n[the workspace is read-only for access=read")

    def test_one_that_named_its_access_is_told_what_that_does_not_include(self):
        turn = self.run({"command": self.NEEDS_WRITE, "access": "read"}, mode="full")
        assert "call again with access=write if the command must change files" in turn.values[0]
        turn = self.run({"command": "curl -s http://x; exit 6", "access": "write"}, mode="full")
        assert "there is no network for access=write; call again with access=network" in turn.values[0]

    def test_in_plan_no_other_access_is_recommended(self):
        (value,) = self.run({"command": self.NEEDS_WRITE}, mode="plan").values
        assert "no other access is offered now" in value
        assert "access=write" not in value.replace("access=write is not possible in mode plan", "")

    def test_a_command_that_fails_with_any_access_is_not_run_again(self):
        assert self.run({"command": "grep x /dev/null"}).values == ["[exit code 1]"]

    @pytest.mark.parametrize(
        "line",
        [
            "curl -s http://127.0.0.1:9/",
            "cd / && curl -s http://127.0.0.1:9/ 2>&1",
            "curl -s $(echo http://127.0.0.1:9/)",
        ],
    )
    def test_a_client_of_the_network_that_failed_there_is_not_asked_about(self, line):
        turn = self.run({"command": line})
        assert turn.approver.asked == []
        assert "[exit code 7]" in turn.values[0]
        assert "with access=network if it needs the network" in turn.values[0]

    def test_one_that_could_not_write_a_file_is(self):
        asked = self.run(
            {"command": "curl -s -o /proc/no/a file:///etc/hostname"}, answers=[Answer(False)]
        ).approver.asked
        assert len(asked) == 1

    def test_the_user_may_grant_more_once(self):
        turn = self.run(
            *[{"command": "echo $ACCESS", "access": "write"}] * 2,
            answers=[Answer(True, access="network"), Answer(False)],
        )
        assert turn.values[0] == "network\n[exit code 0]"
        assert turn.approver.asked[0].wider == ("network", "outside")
        assert len(turn.approver.asked) == 2

    def test_outside_the_sandbox_is_without_it(self):
        call = {"command": 'echo "ACCESS=$ACCESS"', "access": "write"}
        assert self.run(call, answers=[Answer(True, access="outside")]).values == ["ACCESS=\n[exit code 0]"]

    REFUSED = 'test -z "$ACCESS" && exit; echo "a: Permission denied"; exit 1'  # outside the variable is not set

    @pytest.mark.parametrize("access", [{}, {"access": "write"}, {"access": "network"}])
    def test_in_mode_full_one_that_was_refused_a_file_may_run_once_outside(self, access):
        call = {"command": self.REFUSED, **access}
        turn = self.run(call, answers=[Answer(True, access="outside")], mode="full")
        (request,) = turn.approver.asked
        assert request.reason == 'the sandbox refused it: "a: Permission denied"'
        assert (request.access, request.wider, request.rule) == ("outside", ("outside",), "")
        assert turn.values[0].startswith("[exit code 0]")
        assert turn.values[0].endswith("it failed in the sandbox, and was run again outside of it]")

    def test_that_is_asked_once_for_a_line_and_never_answered_by_yes(self):
        calls = [{"command": self.REFUSED, "access": "network"}] * 2
        turn = self.run(*calls, answers=[Answer(False)], mode="full")
        assert [value.split("\n")[1] for value in turn.values] == ["[exit code 1]"] * 2
        (request,) = turn.approver.asked
        assert AutoApprover(REFUSE_ALL).approve(request).allowed is False

    def test_in_other_modes_it_is_not_offered_without_a_question(self):
        assert self.run({"command": self.REFUSED, "access": "write"}, mode="auto").approver.asked == []

    def test_a_command_that_the_user_changes_before_it_runs_again_is_the_one_that_runs(self):
        changed = {"command": "echo changed with $ACCESS", "access": "write"}
        turn = self.run({"command": self.NEEDS_WRITE}, answers=[Answer(True, arguments=changed)])
        assert "changed with write" in turn.values[0]
        assert "with read" not in turn.values[0]

    def test_a_rule_may_hold_in_this_chat(self):
        calls = [{"command": f"git version{option}", "access": "write"} for option in ("", " --build-options")]
        turn = self.run(*calls, calls[0], answers=[Answer(True, for_chat=True)])
        assert [value.startswith("git version ") for value in turn.values] == [True] * 3

    def test_a_rule_grants_its_access(self):
        rule = {"tool": "exec", "command": "printenv", "action": "allow", "access": "network"}
        turn = self.run({"command": "printenv ACCESS"}, rules=[rule])
        assert turn.values == ["network\n[exit code 0]"]

    def test_the_tools_that_could_not_run_are_not_offered_and_exec_only_reads(self):
        gate = PermissionGate(REGISTRY, REFUSE_ALL, Policy(Path("/"), "plan"), None)
        offered = {each.name: each for each in gate.list_offered()}
        assert {"write", "edit"}.isdisjoint(offered)
        assert offered["exec"].parameters["properties"]["access"]["enum"] == ["read"]
        gate.policy = replace(gate.policy, mode="ask")
        assert [each.name for each in gate.list_offered()] == [each.name for each in REGISTRY.definitions]


def test_a_call_that_cannot_succeed_is_answered_and_nobody_is_asked(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    turn = Turn()
    turn.registry = REGISTRY
    turn.policy = Policy(tmp_path)
    turn.run(("edit", {"path": "a.txt", "oldText": "two", "newText": "2"}), workspace=tmp_path)
    assert turn.approver.asked == []
    assert turn.results[0].kind == "error"
    assert "Error executing tool" in turn.values[0]
    assert not turn.results[0].is_denied


def test_where_nothing_enforces_the_first_question_tells_how_to_get_a_sandbox():
    turn = Turn(Answer(False), Answer(False))
    turn.registry = REGISTRY
    turn.run(("exec", {"command": "ls"}), ("exec", {"command": "ls -l"}))
    assert ["bubblewrap" in each.advice for each in turn.approver.asked] == [True, False]
    assert [each.wider for each in turn.approver.asked] == [(), ()]


def test_where_the_user_switched_the_sandbox_off_no_question_advises_one(tmp_path):
    turn = Turn(Answer(False))
    turn.registry = REGISTRY
    choice = choose("off", SandboxView(tmp_path), ResourceLimits(), {})
    turn.policy = Policy(tmp_path, sandbox=choice.sandbox)
    turn.run(("exec", {"command": "ls"}))
    assert [each.advice for each in turn.approver.asked] == [""]


def test_with_nobody_to_ask_the_result_says_what_may_have_been_the_cause():
    turn = Turn()
    turn.registry, turn.approver = REGISTRY, REFUSE_ALL
    sandbox = LabelledSandbox()
    turn.policy = Policy(Path("/"), sandbox=sandbox)
    (value,) = turn.run(("exec", {"command": TestCommands.NEEDS_WRITE}), sandbox=sandbox).values
    assert "the workspace is read-only for access=read; call again with access=write" in value
    assert value.endswith("access=write was refused: nobody is there to be asked.]")


SECRET = "HOST=a\nAPI_KEY=0123456789\n"


@pytest.mark.parametrize("action", ["deny", "ask"])
@pytest.mark.parametrize(
    "call",
    [
        ("write", {"path": ".env", "content": SECRET}),
        ("edit", {"path": ".env", "oldText": "API_KEY=0123456780", "newText": ""}),
    ],
)
def test_no_answer_without_a_question_tells_what_is_in_a_file_that_the_model_may_not_read(tmp_path, action, call):
    (tmp_path / ".env").write_text(SECRET)
    turn = Turn(Answer(False))
    turn.registry = REGISTRY
    turn.policy = Policy(tmp_path, rules=parse_rules([{"tool": "read", "path": ".env", "action": action}]))
    (value,) = turn.run(call, workspace=tmp_path).values
    assert value.startswith("Not run: ")
    assert "0123456789" not in value
