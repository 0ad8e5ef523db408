"""The order of a turn's calls, which of them run in parallel, and what an interrupt leaves."""

from __future__ import annotations

import json
import threading

import pytest
from msgspec.structs import replace

from src.agent.dispatch import TOO_MANY, TOO_MANY_NOTICE
from src.errors import ToolError
from src.security.permissions.approval import Answer
from src.tools import REGISTRY, ToolContext
from src.tools.process.jobs import Jobs
from src.tools.process.output import Output
from src.tools.sdk.tool import tool as make_tool
from src.tools.sdk.tool_search import call_tool
from src.types.call_results import NOT_FINISHED
from src.types.events import CallFinished, Notice
from src.types.messages import MAX_CALLS
from tests.doubles import press_ctrl_c

from .turns import Turn

WAIT = 5.0  # seconds, so that a test which fails ends


class TestNamedTools:
    """Tools whose definition the prompt leaves out, called as `call_tool` or by their name."""

    @staticmethod
    def name_only(risk="low", **given):
        def merge(id: int) -> str:
            """Merge a branch."""
            return f"merged {id}"

        turn = Turn(*given.pop("answers", ()), **given)
        made = make_tool(merge, risk=risk)
        turn.registry.add(replace(made, definition=replace(made.definition, named_by="hub")))
        turn.registry.add(call_tool)
        return turn

    @staticmethod
    def wrap(**arguments):
        return "call_tool", {"tool": "merge", "args": arguments}

    def test_the_tool_that_it_names_runs_and_the_result_has_the_name_of_the_call(self):
        turn = self.name_only().run(self.wrap(id=3), ("merge", {"id": 4}))
        assert [(result.name, result.value) for result in turn.results] == [
            ("call_tool", "merged 3"),
            ("merge", "merged 4"),
        ]
        assert {event.call.name for event in turn.events} == {"merge"}

    @pytest.mark.parametrize("call", [("merge", {}), ("call_tool", {"tool": "merge", "args": {}})])
    def test_a_call_that_does_not_fit_is_answered_with_the_definition_and_asks_nobody(self, call):
        turn = self.name_only(risk="high").run(call)
        assert turn.results[0].text.startswith("Wrong arguments for merge: id is missing")
        assert json.loads(turn.results[0].text.splitlines()[1])["name"] == "merge"
        assert turn.approver.asked == []

    def test_approval_is_about_the_tool_that_it_names(self):
        turn = self.name_only(risk="high", answers=[Answer(True)]).run(self.wrap(id=3))
        assert [request.call.name for request in turn.approver.asked] == ["merge"]
        assert turn.values == ["merged 3"]

    def test_a_rule_for_the_tool_holds(self):
        rules = [{"tool": "merge", "action": "deny"}]
        (result,) = self.name_only(rules=rules).run(self.wrap(id=3)).results
        assert (result.is_denied, result.name) == (True, "call_tool")

    def test_a_rule_holds_for_the_other_names_of_a_tool(self):
        turn = self.name_only(rules=[{"tool": "todo_write", "action": "deny"}])
        turn.registry.add(REGISTRY["todo_write"])
        (result,) = turn.run(("call_tool", {"tool": "write_todos", "args": {"todos": []}})).results
        assert result.is_denied

    def test_a_tool_of_the_users_that_has_the_name_runs_itself(self):
        def call_tool(tool: str) -> str:
            """Call for a tool in the workshop."""
            return f"called for a {tool}"

        assert Turn().tool(call_tool).run(("call_tool", {"tool": "hammer"})).values == ["called for a hammer"]

    @pytest.mark.parametrize("name", ["marge", "call_tool"])
    def test_a_name_that_is_no_such_tool_is_told(self, name):
        (result,) = self.name_only().run(("call_tool", {"tool": name, "args": {}})).results
        assert (result.kind, result.name) == ("error", "call_tool")
        assert name in result.text


class TestOrder:
    def test_calls_of_low_risk_run_at_the_same_time(self):
        both = threading.Barrier(2)

        def meet(name: str) -> str:
            """Wait for the other."""
            both.wait(WAIT)
            return name

        turn = Turn().tool(meet).run(("meet", {"name": "a"}), ("meet", {"name": "b"}))
        assert turn.values == ["a", "b"]

    def test_events_and_results_come_in_the_order_of_the_calls_whichever_ends_first(self):
        second_is_done = threading.Event()

        def first() -> str:
            """Wait for the second."""
            return str(second_is_done.wait(WAIT))

        def second() -> str:
            """Be quick."""
            second_is_done.set()
            return "quick"

        turn = Turn().tool(first).tool(second).run(("first", {}), ("second", {}))
        assert turn.values == ["True", "quick"]
        assert turn.order() == ["start c0", "start c1", "finish c0", "finish c1"]

    @pytest.mark.parametrize("risk", ["low", "high"])
    def test_of_more_calls_than_an_answer_may_hold_the_first_ones_run(self, risk):
        ran = []

        def note(number: int) -> str:
            """Note that it ran."""
            ran.append(number)
            return str(number)

        yes = [Answer(True)] * MAX_CALLS
        turn = Turn(*yes).tool(note, risk).run(*[("note", {"number": number}) for number in range(10_000)])
        assert sorted(ran) == list(range(MAX_CALLS))
        assert turn.values == [*map(str, range(MAX_CALLS)), *[TOO_MANY] * (10_000 - MAX_CALLS)]
        assert {result.kind for result in turn.results[MAX_CALLS:]} == {"error"}
        assert [result.tool_call_id for result in turn.results] == [f"c{place}" for place in range(10_000)]
        assert [event for event in turn.events if isinstance(event, Notice)] == [Notice(TOO_MANY_NOTICE)]

    def test_as_many_calls_as_an_answer_may_hold_run_without_a_notice(self):
        def note(number: int) -> str:
            """Say the number."""
            return str(number)

        turn = Turn().tool(note).run(*[("note", {"number": number}) for number in range(MAX_CALLS)])
        assert turn.values == list(map(str, range(MAX_CALLS)))
        assert not any(isinstance(event, Notice) for event in turn.events)

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
        assert turn.values == list(range(6))
        assert max(most) <= 2

    def test_one_at_a_time_needs_no_threads(self):
        def where() -> str:
            """Name the thread."""
            return threading.current_thread().name

        def there(x: int) -> str:
            """Name the thread."""
            return threading.current_thread().name

        turn = Turn(at_most=1).tool(where).tool(there).run(("where", {}), ("there", {"x": 1}))
        assert set(turn.values) == {threading.current_thread().name}

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
        assert (turn.values[0], turn.values[2]) == ("a", "b")
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

        def interrupted(ctx: ToolContext) -> str:
            """Press Ctrl-C."""
            others_run.wait(WAIT)
            press_ctrl_c()
            ctx.cancelled.wait(WAIT)
            raise ToolError("it was cancelled")

        turn = Turn().tool(look_again, "high")
        for tool in (quick, interrupted, long, saved):
            turn.tool(tool)
        with pytest.raises(KeyboardInterrupt):
            turn.run(("quick", {}), ("interrupted", {}), ("long", {}), ("saved", {}), ("look_again", {}))
        assert turn.values == ["quick", NOT_FINISHED, NOT_FINISHED, "saved", NOT_FINISHED]

    def test_what_has_not_begun_never_does(self):
        begun = []

        def interrupted() -> str:
            """Press Ctrl-C."""
            press_ctrl_c()

        def later(number: int, ctx: ToolContext) -> str:
            """Note it, and hold the thread."""
            begun.append(number)
            ctx.cancelled.wait(WAIT)
            return "later"

        turn = Turn(at_most=2).tool(interrupted).tool(later)
        with pytest.raises(KeyboardInterrupt):
            turn.run(("interrupted", {}), *[("later", {"number": number}) for number in range(50)])
        assert len(begun) <= 2
        assert turn.values[-1] == NOT_FINISHED


class TestChecks:
    """What the project's checkers say of changed files; `write` is a tool of the test."""

    def run(self, *calls, diagnose, answers=4):
        def write(path: str) -> str:
            """Write a file."""
            if path == "broken":
                raise ToolError("the disk is full")
            return f"Wrote {path}"

        turn = Turn(*[Answer(True)] * answers).tool(write, "high").tool(look_again)
        return turn.run(*calls, diagnose=diagnose)

    def test_they_are_asked_once_behind_the_last_change_of_a_turn(self):
        asked = []

        def diagnose(files, ctx):
            asked.append(files)
            yield from ()
            return "a: wrong"

        turn = self.run(("write", {"path": "a"}), ("write", {"path": "b"}), ("look_again", {}), diagnose=diagnose)
        assert asked == [["a", "b"]]
        assert turn.values == ["Wrote a", "Wrote b\n[a: wrong]", "never"]

    def test_without_a_change_they_are_not_asked(self):
        def diagnose(*_):
            raise AssertionError

        turn = self.run(("write", {"path": "broken"}), ("look_again", {}), diagnose=diagnose)
        assert "the disk is full" in turn.values[0]

    def test_a_change_before_one_that_fails_is_checked(self):
        def diagnose(files, ctx):
            yield from ()
            return str(files)

        turn = self.run(("write", {"path": "a"}), ("write", {"path": "broken"}), diagnose=diagnose)
        assert turn.values[1].endswith("the disk is full\n[['a']]")

    def test_a_change_is_told_if_the_user_interrupts_them(self):
        def diagnose(*_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            turn = Turn(Answer(True)).tool(write_file, "high", name="write")
            turn.run(("write", {"path": "a"}), diagnose=diagnose)
        assert turn.values == ["Wrote a"]

    def test_a_command_that_would_ask_may_not_be_run_for_them(self):
        told = []

        def diagnose(files, ctx):
            told.append((yield "ruff"))
            return ""

        self.run(("write", {"path": "a"}), diagnose=diagnose)
        assert told == [False]  # there is no sandbox, and no tool exec


def write_file(path: str) -> str:
    """Write a file."""
    return f"Wrote {path}"


def test_the_next_result_tells_of_a_command_in_the_background_that_ended():
    jobs = Jobs()
    job = jobs.open("make serve", Output(100))
    job.feed(b"port taken\n")
    job.exit_code = 1
    job.run(lambda: "exit code 1")
    job.has_ended.wait(WAIT)
    turn = Turn().tool(look_again).run(("look_again", {}), ("look_again", {}), chat_jobs=jobs)
    first, second = turn.values
    told = "background job 1 ended (exit code 1, after 0 s): make serve\nthe end of its output:\nport taken"
    assert (first, second) == (f"never\n[{told}]", "never")
    assert [each.result.own_text for each in turn.events if isinstance(each, CallFinished)] == ["never", "never"]
    assert [each.text for each in turn.events if isinstance(each, Notice)] == [
        "Background job 1 ended (exit code 1, after 0 s): make serve\nport taken"
    ]


def look_again() -> str:
    """Look again."""
    return "never"
