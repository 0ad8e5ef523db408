"""Subagents: what they may do, whom they ask, and what comes back of their work."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from src.agent.compaction import Compactor
from src.agent.loop import AgentLoop
from src.agent.subagents import INSTRUCTIONS, MAX_TASK_TURNS, CallGroup, SubagentModel
from src.errors import BotError
from src.security.permissions.approval import Answer
from src.security.permissions.policy import Policy
from src.security.permissions.rules import Rule
from src.tools import ToolContext
from src.tools.builtin.task import MAX_REPORT_BYTES, task
from src.tools.sdk.wiring import Inbox
from src.transport.driver import drive
from src.types.call_results import NOT_FINISHED
from src.types.events import CallFinished, CallStarted, Completed, SubagentStep
from src.types.messages import (
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from tests.doubles import ScriptedApprover, ScriptedClient, ScriptedModel, perform, press_ctrl_c, says, toolbox
from tests.each import check_rows
from tests.waiting import PATIENCE_S, wait_until

SYSTEM = SystemMessage("You help.")


def delegate(prompt: str, number: int = 0, **more) -> ToolCall:
    return ToolCall(f"t{number}", "task", {"prompt": prompt, **more})


def look(path: str) -> ToolCall:
    return ToolCall(f"l-{path}", "look", {"path": path})


def change(path: str) -> ToolCall:
    return ToolCall(f"c-{path}", "change", {"path": path})


class Delegation:
    """An agent whose subagents answer from a script each, chosen by their prompt."""

    def __init__(self, *calls: ToolCall, mode="ask", answers=(), rules=(), **scripts):
        self.registry, self.ran = toolbox()
        self.registry.add(task)
        self.approver = ScriptedApprover(*answers)
        self.parent = ScriptedModel(says("", *calls), says("Done."))
        self.models = {prompt: ScriptedModel(*script) for prompt, script in scripts.items()}
        self.opened = []
        self.conversation = [SYSTEM, UserMessage("go")]
        self.events = []
        self.loop = AgentLoop(
            self.parent,
            self.registry,
            ToolContext(Path("/")),
            self.approver,
            Policy(Path("/"), mode=mode, rules=rules),
            open_subagent=self.open,
        )

    @contextmanager
    def open(self, server, opening, cancelled):
        self.opened.append((server, opening))
        client = ScriptedClient()
        client.is_cancelled = cancelled.is_set
        model = self.models[opening[-1].text]
        yield SubagentModel(
            model, list(opening), partial(drive, client=client), Compactor(model, at=None), lambda: 10_000
        )

    def run(self):
        for event in perform(self.loop.run(self.conversation)):
            self.events.append(event)
        return self

    @property
    def results(self):
        return [result for each in self.conversation if isinstance(each, ToolResults) for result in each.results]


def test_a_call_that_ends_while_the_inbox_is_emptied_is_not_waited_for():
    class Late(Inbox):
        def take(self):
            if not future.done():
                future.set_result(ToolResult("t0", "task", "text", "Found."))
            return super().take()

    future: Future[ToolResult] = Future()
    steps = CallGroup([future], Late(), pytest.fail).wait_for(delegate("find"), future)
    assert next(steps).future is future


def test_tokens_that_a_result_has_already_are_kept():
    future: Future[ToolResult] = Future()
    future.set_result(ToolResult("t0", "ask", "text", "Found.", usage=Usage(10, 2)))
    group = CallGroup([future], Inbox(), pytest.fail)
    assert group.get_result(delegate("find"), future).usage == Usage(10, 2)


class TestTheReport:
    def test_the_last_words_of_a_subagent_are_all_that_its_parent_gets(self):
        done = Delegation(delegate("find"), find=[says("Let me look.", look("a")), says("It is in a.")]).run()
        assert [result.value for result in done.results] == ["It is in a."]
        assert done.ran == ["look a"]
        assert len(done.conversation) == 5

    def test_a_subagent_has_a_conversation_of_its_own(self):
        done = Delegation(delegate("find"), find=[says("Found.")]).run()
        (asked,) = done.models["find"].asked
        assert asked.messages == [SystemMessage(f"{SYSTEM.text}\n\n{INSTRUCTIONS}"), UserMessage("find")]

    def test_the_tokens_of_a_subagent_are_in_the_result(self):
        turns = [says("", look("a"), usage=Usage(100, 5)), says("Found.", usage=Usage(200, 7, 50))]
        done = Delegation(delegate("find"), find=turns).run()
        assert done.results[0].usage == Usage(300, 12, 50)

    def test_what_it_does_is_told_while_it_works(self):
        done = Delegation(delegate("find"), find=[says("", look("a")), says("Found.")]).run()
        steps = [event for event in done.events if isinstance(event, SubagentStep)]
        assert [type(each.step) for each in steps] == [Completed, CallStarted, CallFinished, Completed]
        assert {each.call.id for each in steps} == {"t0"}
        started, finished = (
            done.events.index(next(each for each in done.events if isinstance(each, kind)))
            for kind in (CallStarted, CallFinished)
        )
        assert all(started < done.events.index(each) < finished for each in steps)

    def test_a_parent_grows_by_less_than_2000_tokens_for_a_subagent_of_50_calls(self):
        turns = [says("I read on. " * 50, look(f"file {number}" * 20)) for number in range(50)]
        done = Delegation(delegate("find"), find=[*turns, says("说" * 40_000)]).run()
        assert len(done.ran) == 50
        grown = sum(len(result.text.encode()) for result in done.results)
        assert grown < MAX_REPORT_BYTES + 200  # at most 3 bytes a token in any language: fewer than 2,000
        assert "[cut: 5,000 of 120,000 bytes are shown" in done.results[0].text

    def test_a_subagent_that_never_ends_must_report(self):
        turns = [says("", look(f"{number}")) for number in range(MAX_TASK_TURNS)]
        done = Delegation(delegate("find"), find=[*turns, says("So far: nothing.")]).run()
        assert done.results[0].value == "So far: nothing."
        assert len(done.ran) == MAX_TASK_TURNS

    def test_an_error_of_its_server_is_the_result_of_the_call(self):
        turns = [says("Half done.", look("a")), BotError("The server is gone.")]
        done = Delegation(delegate("find"), find=turns).run()
        assert done.results[0].kind == "error"
        assert "the subagent failed: The server is gone. Its last words were: Half done." in done.results[0].text

    def test_words_before_a_call_are_no_report(self):
        turns = [says("Let me look.", look("a")), Response((Reasoning("I am done."),)), Response((Reasoning("Yes."),))]
        done = Delegation(delegate("find"), find=turns).run()
        assert done.results[0].kind == "error"
        assert "ended without a report. The model ended its turn without saying anything." in done.results[0].text
        assert "Let me look" not in done.results[0].text

    @check_rows("fields, why", [
        ({"stop_reason": "max_tokens"}, "The answer was cut off at its limit of tokens."),
        ({"stop_reason": "other", "provider_stop_reason": "abort"}, "The server stopped the answer: abort."),
    ])  # fmt: skip
    def test_a_report_that_was_cut_says_so(self, fields, why):
        done = Delegation(delegate("find"), find=[says("It is in", **fields)]).run()
        assert done.results[0].value == f"[This report is not complete. {why}]\nIt is in"

    def test_the_end_of_a_report_without_a_word_is_told(self):
        done = Delegation(delegate("find"), find=[says("", stop_reason="max_tokens")]).run()
        assert "ended without a report. The answer was cut off at its limit of tokens." in done.results[0].text

    def test_one_without_a_word_is_an_error(self):
        done = Delegation(delegate("find"), find=[Response(()), Response(())]).run()
        assert "ended without a report" in done.results[0].text


class TestWhatItMayDo:
    def test_it_is_offered_no_subagent_and_in_mode_plan_nothing_that_changes(self):
        done = Delegation(delegate("find"), mode="full", find=[says("Found.")]).run()
        assert done.models["find"].asked[0].tools == ["look", "wait"]
        assert "task" in done.parent.asked[0].tools

    def test_a_call_of_task_by_a_subagent_is_an_error(self):
        done = Delegation(delegate("find"), find=[says("", delegate("more")), says("Found.")]).run()
        (_, _, results) = done.models["find"].asked[1].messages[1:]
        assert 'There is no tool "task"' in results.results[0].text
        assert len(done.opened) == 1

    def test_what_changes_is_denied_even_where_its_parent_may(self):
        done = Delegation(delegate("fix"), mode="full", fix=[says("", change("a")), says("No.")]).run()
        assert done.ran == []

    def test_with_may_change_it_may_what_its_parent_may(self):
        done = Delegation(delegate("fix", may_change=True), mode="full", fix=[says("", change("a")), says("Ok.")]).run()
        assert done.ran == ["change a"]

    @pytest.mark.parametrize("allowed", [True, False])
    def test_its_questions_go_to_the_approver_of_its_parent_in_the_thread_of_its_parent(self, allowed):
        threads = []
        made = Delegation(
            delegate("fix", may_change=True), answers=[allowed], fix=[says("", change("a")), says("Tried.")]
        )
        answer = made.approver.approve
        made.approver.approve = lambda request: threads.append(threading.current_thread()) or answer(request)
        made.run()
        assert [call.arguments["path"] for call in made.approver.asked] == ["a"]
        assert made.ran == (["change a"] if allowed else [])
        assert threads == [threading.main_thread()]

    def test_the_mode_of_its_parent_is_the_upper_bound_also_when_it_is_lowered_meanwhile(self):
        made = Delegation(
            delegate("fix", may_change=True), mode="full", fix=[says("", change("a")), says("", change("b")), says("!")]
        )
        for event in perform(made.loop.run(made.conversation)):
            if isinstance(event, SubagentStep) and isinstance(event.step, CallFinished):
                made.loop.set_mode("plan")
        assert made.ran[:1] == ["change a"]
        assert len(made.ran) < 3
        assert made.loop.tools  # still those of the parent

    def test_a_rule_that_the_user_adds_for_a_subagent_holds_for_its_parent(self):
        made = Delegation(
            delegate("fix", may_change=True),
            answers=[Answer(True, for_chat=True)],
            fix=[says("", change("a")), says("Ok.")],
        )
        made.parent.turns.insert(1, says("", change("a")))
        made.run()
        assert made.ran == ["change a", "change a"]

    @pytest.mark.parametrize("summary", ["That was all.", ""])
    def test_its_list_of_things_to_do_and_its_end_are_its_own(self, summary):
        made = Delegation(delegate("find"))

        @made.registry.tool(risk="low")
        def finish(ctx: ToolContext) -> str:
            """End the run."""
            ctx.wiring.todos.append(("mine", "pending"))
            ctx.end_run(summary)
            return "ok"

        made.models["find"] = ScriptedModel(says("", ToolCall("f", "finish", {})))
        made.run()
        assert (made.results[0].kind, made.results[0].value) == ("text", summary)
        assert made.conversation[-1].text == "Done."
        assert made.loop._context.wiring.todos == []


class TestSeveral:
    def test_they_work_at_the_same_time(self):
        made = Delegation(*[delegate(name, place) for place, name in enumerate("abc")])
        both = threading.Barrier(3)

        @made.registry.tool(risk="low")
        def meet() -> str:
            """Wait for the others."""
            both.wait(PATIENCE_S)
            return "met"

        for name in "abc":
            made.models[name] = ScriptedModel(says("", ToolCall("m", "meet", {})), says(f"{name} met them."))
        made.run()
        assert [result.value for result in made.results] == ["a met them.", "b met them.", "c met them."]

    def test_calls_that_must_run_alone_run_one_at_a_time_in_all_of_them(self):
        made = Delegation(*[delegate(name, place) for place, name in enumerate("abc")], rules=(Rule("build", "allow"),))
        now, most = [], []

        @made.registry.tool(risk="high")
        def build() -> str:
            """Count who builds."""
            now.append(1)
            most.append(len(now))
            threading.Event().wait(0.01)
            now.pop()
            return "built"

        for name in "abc":
            made.models[name] = ScriptedModel(says("", ToolCall("b", "build", {})), says("Built."))
        made.run()
        assert most == [1, 1, 1]

    def test_ctrl_c_ends_all_of_them_and_the_conversation_can_go_on(self):
        made = Delegation(delegate("a", 0), delegate("b", 1))
        ended, both = [], threading.Barrier(2)

        @made.registry.tool(risk="low")
        def hang(ctx: ToolContext) -> str:
            """Wait for the end."""
            if both.wait(PATIENCE_S) == 0:
                press_ctrl_c()
            ended.append(ctx.cancelled.wait(PATIENCE_S))
            return "over"

        made.models |= {name: ScriptedModel(says("", ToolCall("h", "hang", {})), says("?")) for name in "ab"}
        with pytest.raises(KeyboardInterrupt):
            made.run()
        wait_until(lambda: len(ended) == 2, "a call goes on")
        assert ended == [True, True]
        assert [len(model.asked) for model in made.models.values()] == [1, 1]
        assert [result.value for result in made.results] == [NOT_FINISHED, NOT_FINISHED]


def test_without_a_model_for_subagents_a_call_is_an_error():
    registry, _ = toolbox()
    registry.add(task)
    loop = AgentLoop(
        ScriptedModel(says("", delegate("x")), says("Ok.")),
        registry,
        ToolContext(Path("/")),
        ScriptedApprover(),
        Policy(Path("/")),
    )
    conversation = [UserMessage("go")]
    list(perform(loop.run(conversation)))
    assert "no subagent can be started here" in conversation[2].results[0].text
    assert conversation[-1].content == (Text("Ok."),)
