import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.agent.compaction import Compactor
from src.agent.dispatch import LoopWatch
from src.agent.loop import (
    ANNOUNCED_NOTICE,
    ANNOUNCED_PROMPT,
    EMPTY_TURN_PROMPT,
    FINAL_ANSWER_PROMPT,
    MAX_MALFORMED_TURNS,
    AgentLoop,
)
from src.errors import ContextTooLong, StreamCut, WireError
from src.negotiation import CallPath
from src.security.permissions.approval import Answer
from src.security.permissions.policy import Policy
from src.security.permissions.rules import Rule
from src.tools import Registry, ToolContext
from src.types.call_results import NOT_FINISHED
from src.types.ending import find_ending
from src.types.events import CallDenied, CallFinished, CallStarted, LimitHit, Notice, TextDelta, TurnStarted
from src.types.messages import (
    MalformedCall,
    Named,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.doubles import make_model
from tests.each import check_rows

from ..doubles import POLICY, ScriptedApprover, ScriptedClient, ScriptedModel, context, perform, says, toolbox

LOOK = ToolCall("c1", "look", {"path": "a"})
HELLO = ({"content": "Hello"}, {"finish": "stop"})
GIST = ({"content": "The gist."}, {"finish": "stop"})
CHANGE = ToolCall("c2", "change", {"path": "a"})


class Run:
    """One question put to a scripted model, and all that came of it."""

    def __init__(self, *turns, answers=(), **options):
        self.model = ScriptedModel(*turns, partial=options.pop("partial", ""))
        self.registry, self.ran = toolbox()
        policy = options.pop("policy", POLICY)
        self.approver = ScriptedApprover(*answers)
        self.agent = AgentLoop(self.model, self.registry, context(), self.approver, policy, **options)
        self.conversation = [UserMessage("go")]
        self.events = []

    def all(self):
        for event in perform(self.agent.run(self.conversation)):
            self.events.append(event)
        return self

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def results(self):
        return [
            result for message in self.conversation if isinstance(message, ToolResults) for result in message.results
        ]


def test_an_answer_without_calls_ends_the_loop():
    run = Run(says("hello")).all()
    assert run.conversation == [UserMessage("go"), says("hello")]
    assert run.of(Notice) == []


def test_a_call_is_run_and_its_result_sent():
    run = Run(says("Looking.", LOOK), says("Seen.")).all()
    result = ToolResult("c1", "look", "text", "contents of a")
    assert run.conversation == [UserMessage("go"), says("Looking.", LOOK), ToolResults((result,)), says("Seen.")]
    assert run.model.asked[1].messages == run.conversation[:3]
    assert run.of(CallStarted) == [CallStarted(LOOK)]
    assert run.of(CallFinished) == [CallFinished(LOOK, result)]
    assert run.of(TurnStarted) == [TurnStarted(1), TurnStarted(2)]


def test_the_loop_does_not_care_where_a_call_came_from():
    for origin in ("native", "text", "hermes"):
        assert Run(says("", ToolCall("c", "look", {"path": "a"}, origin)), says("ok")).all().ran == ["look a"]


def test_several_calls_are_answered_in_their_order():
    run = Run(says("", LOOK, ToolCall("c3", "look", {"path": "b"})), says("ok")).all()
    assert [(result.tool_call_id, result.value) for result in run.results()] == [
        ("c1", "contents of a"),
        ("c3", "contents of b"),
    ]


@check_rows(
    "call, help",
    [
        (ToolCall("c", "lok", {"path": "a"}), "nearest first: look(path: string)"),
        (ToolCall("c", "look", {"pth": "a"}), "look(path: string)"),
        (ToolCall("c", "look", {}), "look(path: string)"),
        (ToolCall("c", "look", {"path": 3}), "look(path: string)"),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_right_and_the_loop_goes_on(call, help):
    run = Run(says("", call), says("ok")).all()
    assert run.results()[0].kind == "error"
    assert help in run.results()[0].value
    assert run.conversation[-1] == says("ok")


def test_notices_of_the_tools_come_first_and_once():
    run = Run(says("hello"), says("again"))
    run.registry.notices.append("A server is missing.")
    assert [run.all().events[0], run.all().of(Notice)] == [
        Notice("A server is missing."),
        [Notice("A server is missing.")],
    ]


def test_a_turn_without_an_answer_is_an_error():
    run = Run()
    run.model.respond = lambda *_: (event for event in ())
    with pytest.raises(WireError, match="without an answer"):
        run.all()


class TestApproval:
    def test_what_is_approved_runs(self):
        run = Run(says("", CHANGE), says("ok"), answers=[True]).all()
        assert run.ran == ["change a"]
        assert run.approver.asked == [CHANGE]

    def test_a_refused_call_does_not_run_and_the_model_gets_the_reason(self):
        run = Run(says("", CHANGE), says("ok"), answers=[False]).all()
        assert run.ran == []
        assert run.results() == [ToolResult("c2", "change", "error", "Not run: the user said no.", is_denied=True)]
        assert run.of(CallStarted) == []
        assert run.of(CallDenied) == [CallDenied(CHANGE, "the user said no.")]

    def test_reading_runs_without_asking(self):
        assert Run(says("", LOOK), says("ok")).all().approver.asked == []

    def test_a_call_that_could_not_run_is_not_asked_about(self):
        run = Run(says("", ToolCall("c", "change", {"pat": "a"})), says("ok")).all()
        assert run.approver.asked == []


class TestMalformed:
    BROKEN = Response((MalformedCall("c1", "look", "{", "It has no end.", "text"),))

    def test_a_malformed_call_is_answered_with_its_reason_and_the_right_signature(self):
        run = Run(self.BROKEN, says("ok")).all()
        assert run.results() == [ToolResult("c1", "look", "error", "It has no end. Usage: look(path: string)")]

    def test_after_a_few_in_a_row_the_loop_stops_and_says_so(self):
        run = Run(*[self.BROKEN] * (MAX_MALFORMED_TURNS + 1)).all()
        assert "cannot be read" in run.of(Notice)[-1].text

    def test_a_good_call_between_starts_the_count_anew(self):
        turns = [*[self.BROKEN] * MAX_MALFORMED_TURNS, says("", LOOK), *[self.BROKEN] * MAX_MALFORMED_TURNS, says("ok")]
        assert Run(*turns).all().conversation[-1] == says("ok")


class TestToolChoice:
    def test_a_call_is_forced_in_the_first_turn_alone(self):
        run = Run(says("", LOOK), says("Done."))
        run.events = list(perform(run.agent.run(run.conversation, None, Named("look"))))
        assert [asked.tool_choice for asked in run.model.asked] == [Named("look"), "auto"]

    def test_with_none_a_call_is_not_run_and_the_user_is_told(self):
        run = Run(says("Let me look.", LOOK))
        run.events = list(perform(run.agent.run(run.conversation, None, "none")))
        assert run.model.asked[0].tool_choice == "none"
        assert (run.ran, run.results()[-1].kind) == ([], "error")
        assert "more tool calls (1)" in run.of(Notice)[-1].text


class TestLimits:
    def test_after_the_last_tool_turn_the_model_sums_up_and_may_call_none_of_the_tools(self):
        run = Run(says("", LOOK), says("", LOOK), says("So far."), max_tool_turns=2).all()
        assert {tuple(asked.tools) for asked in run.model.asked} == {("look", "change", "wait")}
        assert [asked.tool_choice for asked in run.model.asked] == ["auto", "auto", "none"]
        assert run.model.asked[2].messages[-1] == FINAL_ANSWER_PROMPT
        assert "Stopped after 2" in run.of(Notice)[0].text
        assert run.of(LimitHit) == [LimitHit("agent.max_tool_turns")]
        assert run.conversation[-1] == says("So far.")

    def test_at_a_limit_that_may_be_passed_it_is_asked_again_after_as_many_turns(self):
        run = Run(*(says("", replace(LOOK, arguments={"path": str(at)})) for at in range(5)), says("So far."))
        asked = []
        run.agent.set_turn_limit(2, lambda turns: bool(asked.append(turns)) or turns < 4)
        run.all()
        assert (asked, len(run.of(LimitHit)), run.model.asked[-1].tool_choice) == ([2, 4], 1, "none")

    def test_without_a_limit_only_a_call_that_repeats_itself_stops_the_model(self):
        run = Run(*(says("", replace(LOOK, arguments={"path": str(at)})) for at in range(60)), *[says("", LOOK)] * 7)
        run.agent.set_turn_limit(None, pytest.fail)
        run.all()
        assert (len(run.of(LimitHit)), len(run.of(TurnStarted))) == (0, 66)
        assert "6 times in a row" in run.of(Notice)[-1].text

    def test_calls_in_the_summary_are_not_run_and_the_user_is_told(self):
        run = Run(says("", LOOK), says("More.", CHANGE), max_tool_turns=1).all()
        assert run.ran == ["look a"]
        assert run.results()[-1].kind == "error"
        assert "more tool calls (1)" in run.of(Notice)[-1].text

    def test_an_answer_cut_at_max_tokens_is_said_so(self):
        run = Run(says("Once upon", stop_reason="max_tokens")).all()
        assert "max_tokens" in run.of(Notice)[0].text

    @pytest.mark.parametrize(
        ("reason", "notice"), [("repetition", "kept repeating itself"), ("other", "gave no reason")]
    )
    def test_an_answer_that_the_model_did_not_end_is_said_so(self, reason, notice):
        run = Run(says("Once upon", stop_reason=reason)).all()
        assert notice in run.of(Notice)[0].text

    @pytest.mark.parametrize(("reason", "calls"), [("other", ()), ("tool_use", (LOOK,))])
    def test_a_reason_of_the_providers_own_is_named(self, reason, calls):
        stopped = replace(says("Once upon", *calls, stop_reason=reason), provider_stop_reason="content_filter")
        run = Run(stopped, says("Done.")).all()
        assert run.of(Notice)[0].text == "The server stopped the answer: content_filter."
        assert len(run.ran) == len(calls)

    def test_an_empty_answer_is_reported_and_asked_about_once(self):
        run = Run(says(""), says("Here.")).all()
        assert "without saying anything" in run.of(Notice)[0].text
        assert run.model.asked[1].messages[-1] == EMPTY_TURN_PROMPT
        assert run.conversation[-1] == says("Here.")

    def test_an_unanswered_prompt_of_the_loop_is_not_left_to_the_next_question(self):
        run = Run(says(""), StreamCut("cut"))
        with pytest.raises(StreamCut):
            run.all()
        assert EMPTY_TURN_PROMPT not in run.conversation

    def test_an_empty_answer_after_more_calls_is_asked_about_again(self):
        run = Run(says(""), says("", LOOK), says(""), says("Here.")).all()
        assert run.conversation[-1] == says("Here.")

    def test_an_announcement_behind_results_is_asked_about_once_where_that_is_on(self):
        turns = (
            says("", LOOK),
            says("That is a. Now I will look at b."),
            says("", LOOK),
            says("I will look at c."),
            says("Done."),
        )
        run = Run(*turns, finishes_announced=True).all()
        assert run.of(Notice)[0].text == ANNOUNCED_NOTICE
        assert run.model.asked[2].messages[-1] == ANNOUNCED_PROMPT
        assert run.conversation[-1] == says("Done.")

    def test_one_that_stays_is_the_answer(self):
        run = Run(says("", LOOK), says("I will look at b."), says("I will look at b."), finishes_announced=True).all()
        assert len(run.model.asked) == 3

    @pytest.mark.parametrize("turns", [(says("I will look at b."),), (says("", LOOK), says("That is a."))])
    def test_an_announcement_without_results_and_an_answer_are_left_alone(self, turns):
        assert len(Run(*turns, finishes_announced=True).all().model.asked) == len(turns)

    def test_an_announcement_is_left_alone_by_default(self):
        assert len(Run(says("", LOOK), says("Now I will look at b.")).all().model.asked) == 2

    def test_two_empty_answers_end_the_loop(self):
        assert len(Run(says(""), says("")).all().model.asked) == 2


class TestInterrupts:
    def test_text_before_a_broken_stream_is_kept(self):
        run = Run(StreamCut("cut"), partial="Half an")
        with pytest.raises(StreamCut):
            run.all()
        assert run.conversation[1:] == [Response((Text("Half an"),), "other")]

    def test_text_before_ctrl_c_is_kept(self):
        run = Run(KeyboardInterrupt(), partial="Half an")
        with pytest.raises(KeyboardInterrupt):
            run.all()
        assert run.conversation[1:] == [Response((Text("Half an"),), "other")]

    def test_leaving_the_events_in_the_middle_keeps_the_text_so_far(self):
        run = Run(StreamCut("never reached"), partial="Half an")
        events = perform(run.agent.run(run.conversation))
        assert [next(events), next(events).text] == [TurnStarted(1), "Half an"]
        events.close()
        assert run.conversation[1:] == [Response((Text("Half an"),), "other")]

    def test_an_interrupted_call_and_those_behind_it_are_answered_as_not_finished(self):
        run = Run(says("", LOOK, ToolCall("c5", "wait", {}), CHANGE))
        with pytest.raises(KeyboardInterrupt):
            run.all()
        assert [result.value for result in run.results()] == ["contents of a", NOT_FINISHED, NOT_FINISHED]
        assert run.ran == ["look a"]


class TestContext:
    @staticmethod
    def too_long(excess):
        error = ContextTooLong("full")
        error.excess = excess
        return error

    def test_where_the_context_is_full_old_results_are_shortened_and_the_turn_asked_for_again(self):
        long = ToolResults((ToolResult("c0", "look", "text", "x" * 5000),))
        run = Run(self.too_long(100), says("ok"))
        run.conversation[:0] = [UserMessage("before"), says("", ToolCall("c0", "look", {"path": "b"})), long]
        run.all()
        assert run.conversation[-1] == says("ok")
        assert "characters left out" in run.model.asked[1].messages[2].results[0].value
        assert "were shortened" in run.of(Notice)[0].text

    def test_where_tool_outputs_pass_their_budget_the_oldest_are_left_out_before_the_next_request(self):
        run = Run(says("", LOOK), says("Done."))
        old = ToolResults((ToolResult("c0", "look", "text", "x" * 100_000, "o00000000"),))
        run.conversation[:0] = [UserMessage("before"), says("", ToolCall("c0", "look", {"path": "b"})), old]
        run.all()
        assert "o00000000]" in run.model.asked[1].messages[2].results[0].value
        assert "left out" in run.of(Notice)[0].text

    def test_where_nothing_can_be_shortened_the_error_stands(self):
        with pytest.raises(ContextTooLong):
            Run(self.too_long(100)).all()


class TestAlwaysSendable:
    """Whoever iterates may leave at any event: every call that is in the conversation then has its result."""

    TURNS = (says("Looking.", LOOK, CHANGE), says("", LOOK), says("More.", LOOK), says("Done."))

    @check_rows("stop_after", range(1, 20))
    def test_leaving_at_any_event_leaves_no_call_without_a_result(self, stop_after):
        run = Run(*self.TURNS, answers=[True], max_tool_turns=2)
        events = perform(run.agent.run(run.conversation))
        for _ in range(stop_after):
            next(events, None)
        events.close()
        asked = [call.id for message in run.conversation if isinstance(message, Response) for call in message.calls]
        assert [result.tool_call_id for result in run.results()] == asked

    def test_a_summary_that_failed_leaves_no_order_behind(self):
        run = Run(says("", LOOK), StreamCut("cut"), max_tool_turns=1)
        with pytest.raises(StreamCut):
            run.all()
        assert FINAL_ANSWER_PROMPT not in run.conversation


def test_a_cut_answer_with_a_call_is_reported_as_cut():
    run = Run(says("", LOOK, stop_reason="max_tokens"), says("ok")).all()
    assert "max_tokens" in run.of(Notice)[0].text


class TestThePolicyDecides:
    def test_what_is_denied_is_not_asked_and_the_model_hears_why(self):
        policy = Policy(Path("/"), rules=(Rule("change", "deny"),))
        run = Run(says("", CHANGE), says("A pity."), answers=(), policy=policy).all()
        assert (run.ran, run.approver.asked) == ([], [])
        assert "a rule denies it" in run.results()[0].value

    def test_always_is_not_asked_again(self):
        run = Run(says("", CHANGE), says("", CHANGE), says("Done."), answers=[Answer(True, always=True)]).all()
        assert run.ran == ["change a", "change a"]
        assert run.approver.asked == [CHANGE]


def test_leaving_at_the_word_that_an_answer_was_cut_leaves_no_call_without_a_result():
    run = Run(says("", LOOK, stop_reason="max_tokens"))
    events = perform(run.agent.run(run.conversation))
    next(event for event in events if isinstance(event, Notice))
    events.close()
    assert [result.value for result in run.results()] == [NOT_FINISHED]


NOTE = (
    "contents of a\n[look: the same calls gave the same results 3 times in a row. "
    "Making them again gives nothing new: use these results, do something else, or answer.]"
)


class TestALoop:
    def test_the_third_result_tells_the_model_and_only_that_one(self):
        run = Run(*[says("", LOOK)] * 5, says("ok")).all()
        assert [result.value for result in run.results()] == ["contents of a"] * 2 + [NOTE] + ["contents of a"] * 2
        assert run.of(CallFinished)[2].result.value == NOTE
        assert run.conversation[-1] == says("ok")

    def test_after_as_many_more_the_loop_ends_and_says_why(self):
        run = Run(*[says("", LOOK)] * 7).all()
        assert run.ran == ["look a"] * 6
        assert run.of(Notice)[-1].text == "Stopped: look: the same calls gave the same results 6 times in a row."
        assert len(run.results()) == 6

    def test_two_calls_in_turn_are_one_as_well(self):
        run = Run(*[says("", LOOK), says("", CHANGE)] * 8, answers=[Answer(True)] * 16, max_tool_turns=99).all()
        assert len(run.ran) == 12
        assert "Stopped: look, change: " in run.of(Notice)[-1].text

    def test_another_call_between_starts_the_count_anew(self):
        other = ToolCall("c9", "look", {"path": "b"})
        run = Run(*[says("", each) for each in (LOOK, LOOK, other, LOOK, LOOK)], says("ok")).all()
        assert not any("in a row" in str(result.value) for result in run.results())

    def test_a_result_that_changes_is_none(self):
        run = Run(*[says("", ToolCall("c", "count", {}))] * 9, says("ok"), max_tool_turns=99)
        counted = []

        @run.registry.tool(risk="low")
        def count() -> str:
            """Count on."""
            counted.append(1)
            return str(len(counted))

        run.all()
        assert [result.value for result in run.results()] == [str(number) for number in range(1, 10)]

    def test_a_stored_output_is_the_same_under_another_name(self):
        watch = LoopWatch()
        call = ToolCall("c", "count", {})
        outputs = [ToolResult("c", "count", "text", f"[cut: read on in {ref}]", ref) for ref in ("o1", "o2", "o3")]
        assert [bool(watch.add([call], [output])) for output in outputs] == [False, False, True]

    def test_a_call_that_takes_long_waits_for_something(self):
        watch = LoopWatch()
        call, result = ToolCall("c", "wait", {}), ToolResult("c", "wait", "text", "not yet", seconds=5.1)
        assert not any(watch.add([call], [result]) or watch.end for _ in range(9))

    def test_it_does_not_matter_whether_the_call_could_run(self):
        run = Run(*[says("", ToolCall("c", "nothing", {}))] * 6).all()
        assert "6 times in a row" in run.of(Notice)[-1].text


class TestATurnThatEndsTheRun:
    @staticmethod
    def finishing(*turns):
        run = Run(*turns)

        @run.registry.tool(risk="low")
        def done(summary: str, ctx: ToolContext) -> str:
            """End the run."""
            ctx.end_run(summary)
            return "ended"

        return run.all()

    def test_its_summary_is_the_answer(self):
        run = self.finishing(says("", LOOK, ToolCall("c8", "done", {"summary": "All seen."})))
        assert run.ran == ["look a"]
        assert [result.value for result in run.results()] == ["contents of a", "ended"]
        assert run.conversation[-1] == says("All seen.")
        assert run.of(TextDelta) == [TextDelta("All seen.")]

    @pytest.mark.parametrize("summary", ["", " \n"])
    def test_an_empty_summary_says_nothing_and_is_the_answer(self, summary):
        run = self.finishing(says("", ToolCall("c8", "done", {"summary": summary})))
        assert run.of(TextDelta) == []
        assert run.conversation[-1] == Response((Text(""),))
        assert find_ending(run.conversation[-1]) == "end_turn"


@pytest.mark.parametrize("arguments", [r'{"path": "a\ud800"}', '{"path": "a\udc80"}', r'{"path": "a\u0000"}'])
def test_a_path_that_no_file_can_have_is_told_to_the_model(tmp_path, arguments):
    call = {"index": 0, "id": "n1", "function": {"name": "write", "arguments": arguments}}
    client = ScriptedClient([{"tool_calls": [call]}, {"finish": "tool_calls"}], list(HELLO))
    model = make_model(client, "tiny", path=CallPath("native"))
    registry, written = Registry(), []

    @registry.tool(risk="high")
    def write(path: str) -> None:
        """Write a file."""
        written.append(path)

    conversation = [UserMessage("go")]
    agent = AgentLoop(model.core, registry, context(), ScriptedApprover(), Policy(tmp_path, "full"))
    list(model.drive(agent.run(conversation)))
    (result,) = conversation[2].results
    assert result.kind == "error"
    assert "is not a path: it contains a NUL or half of a surrogate pair" in result.value
    assert written == []
    assert conversation[3].text == "Hello"


class TestTheBeginningOfThePrompt:
    """It stays the same, so that the server has it cached: seen in the bodies of the requests."""

    MODELS = {"data": [{"id": "tiny", "max_model_len": 4000}]}  # noqa: RUF012 - as a server answers
    CALL = (  # of a tool, on every path
        {"tool_calls": [{"index": 0, "id": "n1", "function": {"name": "look", "arguments": '{"path": "a"}'}}]},
        {"finish": "tool_calls"},
    )
    TEXT_CALL = ({"content": 'TOOL_CALL: {"name": "look", "args": {"path": "a"}}'}, {"finish": "stop"})

    def ask(self, path, conversation, *answers, **options):
        """The bodies of the requests; a prompt has a token for three bytes."""
        client = ScriptedClient(
            *map(list, answers),
            models=self.MODELS,
            tokenize=lambda body: {"tokens": [1] * (len(json.dumps(body)) // 3), "max_model_len": 4000},
        )
        model = make_model(client, "tiny", path=path)
        registry, _ = toolbox()
        compactor = Compactor(model.core) if options.pop("compacts", False) else None
        loop = AgentLoop(model.core, registry, context(), ScriptedApprover(), POLICY, compactor=compactor, **options)
        list(model.drive(loop.run(conversation)))
        return client.requests

    @pytest.mark.parametrize(
        ("mode", "call"),
        [("native", CALL), ("template", CALL), ("text", TEXT_CALL)],
        ids=["native", "template", "text"],
    )
    def test_at_the_limit_of_turns_the_request_goes_on_from_the_one_before(self, mode, call):
        first, last = self.ask(CallPath(mode), [SystemMessage("s"), UserMessage("go")], call, HELLO, max_tool_turns=1)
        assert last["messages"][: len(first["messages"])] == first["messages"]
        assert last.get("tools") == first.get("tools")
        assert last.get("tool_choice") == (None if mode == "text" else "none")

    @pytest.mark.parametrize("mode", ["native", "template", "text"])
    def test_a_request_for_a_summary_is_the_beginning_of_the_one_before_and_one_message_more(self, mode):
        old = [SystemMessage("s"), *(m for n in range(8) for m in (UserMessage(f"{n}" * 500), says("ok")))]
        more = [*old, UserMessage("x" * 5200)]
        (before,) = self.ask(CallPath(mode), old, HELLO)
        summary, _ = self.ask(CallPath(mode), more, GIST, HELLO, compacts=True)
        *beginning, prompt = summary["messages"]
        assert beginning == before["messages"][: len(beginning)]
        assert len(beginning) > len(before["messages"]) / 2
        assert "summed up" in prompt["content"]
        assert summary.get("tools") == before.get("tools")
        assert summary.get("tool_choice") == (None if mode == "text" else "none")
