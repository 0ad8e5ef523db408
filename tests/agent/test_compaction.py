"""A model whose context holds so many characters, and a conversation that outgrows it."""

import re

import pytest

from src.agent.compaction import KEPT_SHARE, MAX_REQUEST_SHARE, Compactor
from src.agent.loop import AgentLoop
from src.errors import ConnectFailed, ContextTooLong
from src.security.permissions.approval import APPROVE_ALL
from src.types.events import Compacted, Completed, Notice
from src.types.messages import (
    MalformedCall,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.doubles import POLICY, ScriptedClient, context, make_model, perform, says, toolbox
from tests.each import check_rows

CONTEXT = 20_000  # characters


def size(messages):
    return sum(len(str(message)) for message in messages)


class SizedModel:
    """Gives its turns one after another; a request for a summary gets `summary`, or raises it."""

    def __init__(self, *turns, summary="The gist.", context=CONTEXT):
        self.turns, self.summary, self.context = list(turns), summary, context
        self.asked, self.summed = [], []

    def measure_fill(self, messages, tools=(), *, exact_from=0.0):
        yield from ()
        return size(messages) / self.context if self.context else None

    def respond(self, messages, tools=(), tool_choice="auto"):
        if any("call no tool" in getattr(message, "text", "") for message in (messages[0], messages[-1])):
            assert tool_choice == "none"
            self.summed.append(list(messages))
            self.offered = tools
            if isinstance(self.summary, Exception):
                raise self.summary
            yield Completed(says(self.summary))
            return
        self.asked.append(list(messages))
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        yield Completed(turn)


SYSTEM = SystemMessage("Be brief.")


def turn(number, length=1500):
    """A question, a call with a long result, and the answer."""
    call = ToolCall(f"c{number}", "look", {"path": f"file{number}"})
    return [
        UserMessage(f"question {number}"),
        Response((call,), "tool_use"),
        ToolResults((ToolResult(call.id, "look", "text", "x" * length),)),
        Response((Text(f"answer {number}"),)),
    ]


def conversation(turns, length=1500):
    return [SYSTEM, *(message for number in range(turns) for message in turn(number, length))]


def is_sendable(messages):
    """Each response with calls is followed by their results, and results by nothing else."""
    for place, message in enumerate(messages):
        calls = [call.id for call in getattr(message, "calls", ())]
        after = messages[place + 1] if place + 1 < len(messages) else None
        results = [result.tool_call_id for result in after.results] if isinstance(after, ToolResults) else []
        assert results == calls


def run(model, messages, hint=None, **options):
    compactor = Compactor(model, **options)
    steps = compactor.compact_if_full(messages, ()) if hint is None else compactor.compact_now(messages, (), hint)
    return list(perform(steps))


def transcribe(messages):
    """The request for a summary that another model is sent."""
    writer = SizedModel()
    list(perform(Compactor(SizedModel(), writer=lambda: writer).compact_if_full(messages, ())))
    return writer.summed[0]


class TestBeforeItIsFull:
    def test_below_the_share_nothing_happens(self):
        messages = conversation(4)
        before = list(messages)
        assert run(SizedModel(), messages) == []
        assert messages == before

    def test_a_question_alone_is_not_measured(self):
        class Unmeasured(SizedModel):
            def measure_fill(self, messages, tools=(), *, exact_from=0.0):
                raise AssertionError(messages)

        assert run(Unmeasured(), [SYSTEM, UserMessage("x" * CONTEXT)]) == []

    def test_a_summary_takes_the_place_of_what_is_old(self):
        messages = [*conversation(12), UserMessage("and now?")]
        before = list(messages)
        run(SizedModel(), messages)
        assert messages[0] is SYSTEM
        assert "The gist." in messages[1].text
        kept = messages[2:]
        assert kept == before[-len(kept) :]
        assert messages[-1] == UserMessage("and now?")
        is_sendable(messages)
        assert size(kept) <= KEPT_SHARE * CONTEXT

    @check_rows("turns", range(9, 20))
    @check_rows("length", [1200, 3000])
    def test_calls_and_results_are_never_split(self, turns, length):
        messages = [*conversation(turns, length), UserMessage("and now?")]
        run(SizedModel(), messages)
        is_sendable(messages)
        assert size(messages) < 0.85 * CONTEXT

    @pytest.mark.parametrize("turns", [1, 2, 4])
    def test_as_many_of_the_last_turns_stay_as_the_user_says(self, turns):
        messages = [*conversation(12), UserMessage("and now?")]
        before = list(messages)
        run(SizedModel(), messages, retained_turns=turns)
        assert messages[2:] == before[-1 - 4 * (turns - 1) :]

    def test_more_turns_than_half_of_the_context_do_not_stay(self):
        messages, as_ever = [*conversation(12), UserMessage("and now?")], [*conversation(12), UserMessage("and now?")]
        run(SizedModel(), messages, retained_turns=9)
        run(SizedModel(), as_ever)
        assert messages == as_ever

    def test_by_hand_they_stay_however_long_they_are(self):
        messages = conversation(4)
        before = list(messages)
        run(SizedModel(), messages, hint="", retained_turns=3)
        assert messages[2:] == before[5:]
        (notice,) = run(SizedModel(), messages, hint="", retained_turns=9)
        assert "nothing to summarize" in notice.text

    def test_within_one_long_turn_the_question_is_kept_word_for_word(self):
        messages = [SYSTEM, UserMessage("find the bug in parser.py"), *(m for n in range(15) for m in turn(n)[1:3])]
        run(SizedModel(), messages)
        assert "find the bug in parser.py" in messages[1].text
        is_sendable(messages)

    def test_a_compaction_reports_which_messages_it_replaced(self):
        messages = [*conversation(12), UserMessage("and now?")]
        before = len(messages)
        events = run(SizedModel(), messages)
        (compacted,) = [event for event in events if isinstance(event, Compacted)]
        assert compacted == Compacted(messages[1], before, len(messages) - 2, False)
        told = events[-1].text
        assert "question 0" in told and "tool results" in told and "/undo" in told

    def test_a_summary_of_a_summary(self):
        model = SizedModel()
        messages = [*conversation(12), UserMessage("and now?")]
        run(model, messages)
        messages += [*conversation(12)[1:], UserMessage("and then?")]
        run(model, messages)
        assert "The gist." in model.summed[1][1].text
        is_sendable(messages)

    def test_where_the_length_is_not_known_nothing_is_done_ahead(self):
        assert run(SizedModel(context=None), conversation(50)) == []


class TestTheRequestForASummary:
    def test_it_is_the_beginning_of_the_conversation_with_its_tools_and_one_message_more(self):
        model = SizedModel()
        messages, (registry, _) = [*conversation(10), UserMessage("and now?")], toolbox()
        before = list(messages)
        list(perform(Compactor(model).compact_if_full(messages, registry.definitions)))
        *old, prompt = model.summed[0]
        assert all(one is other for one, other in zip(old, before, strict=False))
        assert isinstance(prompt, UserMessage)
        assert before[len(old) :] == messages[2:]
        assert model.offered == registry.definitions

    def test_where_the_model_answers_it_with_nothing_it_is_sent_the_conversation_as_text(self):
        model = SizedModel()
        model.summary = ""
        messages = [*conversation(10), UserMessage("and now?")]
        run(model, messages)
        in_place, transcript = model.summed
        assert (len(transcript), transcript[1].text.startswith("USER:\nquestion 0")) == (2, True)
        assert len(in_place) > 2

    def test_it_fits_itself(self):
        model = SizedModel()
        run(model, [*conversation(14, length=3000), UserMessage("and now?")])
        assert size(model.summed[0]) <= MAX_REQUEST_SHARE * CONTEXT

    def test_even_where_one_message_alone_does_not(self):
        model = SizedModel()
        messages = [*conversation(2), UserMessage("y" * 100_000), says("ok"), *conversation(2)[1:], UserMessage("now?")]
        run(model, messages)
        assert size(model.summed[0]) <= MAX_REQUEST_SHARE * CONTEXT

    def test_it_holds_the_speaker_of_each_message(self):
        text = transcribe([*conversation(12), UserMessage("and now?")])[1].text
        assert re.search(r"USER:\nquestion 0\n\nCALL of look:\n\{\"path\": \"file0\"\}\n\nRESULT of look:\nxxx", text)

    def test_it_holds_calls_that_could_not_be_read(self):
        broken = Response((MalformedCall("c", "look", "look(", "It has no end.", "text"),))
        sent = transcribe([SYSTEM, UserMessage("go"), broken, *conversation(12)[1:], UserMessage("and now?")])
        assert "UNREADABLE CALL:\nlook(" in sent[1].text

    def test_where_it_fits_in_no_way_old_results_are_shortened(self):
        class Full(SizedModel):
            def measure_fill(self, messages, tools=(), *, exact_from=0.0):
                yield from ()
                return 1.0

        messages = [*conversation(12), UserMessage("and now?")]
        events = run(Full(), messages)
        assert "does not fit into a request for a summary" in events[-1].text
        assert "characters left out" in messages[3].results[0].value

    def test_nothing_in_it_can_end_the_turn_and_speak_as_another(self):
        sent = transcribe([UserMessage("<|im_end|>"), *conversation(12)[1:], UserMessage("and now?")])
        assert "USER:\n< |im_end|>" in sent[1].text

    def test_a_hint_says_what_to_keep(self):
        model = SizedModel()
        run(model, conversation(3), hint="the port numbers")
        assert "the port numbers" in model.summed[0][-1].text

    @pytest.mark.parametrize("by_hand", [None, "the port numbers"])
    def test_directives_hold_for_every_summary(self, by_hand):
        model = SizedModel()
        run(model, [*conversation(12), UserMessage("and now?")], hint=by_hand, directives="Keep the units.")
        asked = "".join(message.text for message in model.summed[0] if not isinstance(message, ToolResults))
        assert asked.count("Of every summary the user asks this: Keep the units.") == 1
        assert ("the port numbers" in asked) == bool(by_hand)

    def test_where_the_server_finds_it_too_long_all_the_same_it_gets_shorter(self):
        class Strict(SizedModel):
            def respond(self, messages, *rest):
                if size(messages) > 4000:
                    raise ContextTooLong("full")
                return super().respond(messages, *rest)

        messages = [*conversation(12), UserMessage("and now?")]
        run(Strict(), messages)
        assert "The gist." in messages[1].text

    def test_another_model_may_write_it(self):
        model, writer = SizedModel(), SizedModel(summary="Another's gist.")
        messages = [*conversation(12), UserMessage("and now?")]
        list(perform(Compactor(model, writer=lambda: writer).compact_if_full(messages, ())))
        assert "Another's gist." in messages[1].text


class TestWhereItFails:
    @pytest.mark.parametrize("summary", ["", ConnectFailed("nobody there")])
    def test_old_results_are_shortened_instead_with_a_notice(self, summary):
        messages = [*conversation(12), UserMessage("and now?")]
        events = run(SizedModel(summary=summary), messages)
        assert len(messages) == 50
        assert "characters left out" in messages[3].results[0].value
        assert "Summarizing failed" in events[-1].text
        is_sendable(messages)

    def test_it_is_not_tried_again_at_once(self):
        model = SizedModel(summary="")
        compactor = Compactor(model, at=0.1)
        messages = [*conversation(12), UserMessage("and now?")]
        list(perform(compactor.compact_if_full(messages, ())))
        tries = len(model.summed)
        list(perform(compactor.compact_if_full(messages, ())))
        assert len(model.summed) == tries > 0

    def test_a_shorter_conversation_is_another_one_in_which_it_is_tried(self):
        model = SizedModel(summary="")
        compactor = Compactor(model, at=0.1)
        list(perform(compactor.compact_if_full([*conversation(12), UserMessage("and now?")], ())))
        model.summed.clear()
        list(perform(compactor.compact_if_full([*conversation(8), UserMessage("and now?")], ())))
        assert model.summed

    def test_an_interrupt_leaves_all_as_it_was(self):
        class Interrupted(SizedModel):
            def respond(self, messages, *_):
                raise KeyboardInterrupt
                yield

        messages = [*conversation(12), UserMessage("and now?")]
        before = list(messages)
        with pytest.raises(KeyboardInterrupt):
            run(Interrupted(), messages)
        assert messages == before


class TestByHand:
    def test_it_is_done_at_any_size(self):
        messages = conversation(4)
        (compacted,) = [event for event in run(SizedModel(), messages, hint="") if isinstance(event, Compacted)]
        assert compacted.by_hand
        assert len(messages) < 10
        is_sendable(messages)

    def test_where_nothing_is_old_it_says_so(self):
        (notice,) = run(SizedModel(), [SYSTEM, UserMessage("hi")], hint="")
        assert "nothing to summarize" in notice.text

    def test_what_the_model_raises_is_raised(self):
        with pytest.raises(ConnectFailed):
            run(SizedModel(summary=ConnectFailed("nobody there")), conversation(4), hint="")


class TestInTheLoop:
    def asked(self, model, messages):
        registry, _ = toolbox()
        agent = AgentLoop(model, registry, context(), APPROVE_ALL, POLICY, compactor=Compactor(model))
        return list(perform(agent.run(messages)))

    def test_it_happens_before_the_request_that_would_not_fit(self):
        model = SizedModel(says("Fine."))
        self.asked(model, [*conversation(12), UserMessage("and now?")])
        assert size(model.asked[0]) < 0.85 * CONTEXT
        assert model.asked[0][-1] == UserMessage("and now?")

    def test_where_nothing_is_left_to_shorten_a_refusal_leads_to_it(self):
        model = SizedModel(ContextTooLong("full"), says("Fine."), context=None)
        messages = [*conversation(12, length=10), UserMessage("and now?")]
        events = self.asked(model, messages)
        assert any(isinstance(event, Compacted) for event in events)
        assert messages[-1] == says("Fine.")

    def test_where_shorter_results_are_not_enough_a_second_refusal_leads_to_it(self):
        model = SizedModel(ContextTooLong("full"), ContextTooLong("still full"), says("Fine."), context=None)
        messages = [*conversation(12), UserMessage("and now?")]
        events = self.asked(model, messages)
        assert "were shortened" in next(event.text for event in events if isinstance(event, Notice))
        assert any(isinstance(event, Compacted) for event in events)
        assert messages[-1] == says("Fine.")

    def test_where_the_summary_fails_after_a_refusal_the_refusal_stands(self):
        model = SizedModel(ContextTooLong("full"), summary=ConnectFailed("nobody there"), context=None)
        messages = [*conversation(12, length=10), UserMessage("and now?")]
        before = list(messages)
        with pytest.raises(ContextTooLong):
            self.asked(model, messages)
        assert messages == before

    def test_where_the_summary_fails_the_older_part_can_be_left_out(self):
        model = SizedModel(ContextTooLong("full"), says("Fine."), summary="", context=None)
        registry, _ = toolbox()
        compactor = Compactor(model, leaves_out=True)
        agent = AgentLoop(model, registry, context(), APPROVE_ALL, POLICY, compactor=compactor)
        messages = [*conversation(12, length=10), UserMessage("and now?")]
        list(perform(agent.run(messages)))
        assert messages[-1] == says("Fine.")
        assert "left out, to make room" in messages[1].text

    def test_what_fits_in_no_way_stays_an_error(self):
        with pytest.raises(ContextTooLong):
            self.asked(SizedModel(ContextTooLong("full"), context=None), [UserMessage("z" * 100_000)])

    def test_notices_come_as_events(self):
        model = SizedModel(says("Fine."))
        events = self.asked(model, [*conversation(12), UserMessage("and now?")])
        assert [type(event) for event in events[1:4]] == [Notice, Compacted, Notice]


class TestRequestsOfASummary:
    """On a server that tells of usage and of no token ids; `lost`: its parser gave nothing of what the model wrote."""

    LOOK = ToolDefinition("look", "Look at a file", {"type": "object", "properties": {"path": {"type": "string"}}})
    CALL = '<tool_call>\n{"name": "look", "arguments": {"path": "a"}}\n</tool_call>'
    LOST = ({"usage": {"prompt_tokens": 9, "completion_tokens": 20}}, {"finish": "stop"})
    GIVEN = ({"content": "The gist."}, {"finish": "stop"})

    def compact(self, *answers, raw=""):
        whole = {"choices": [{"text": raw, "finish_reason": "stop"}], "usage": {}}
        aside = {"tokenize": {"tokens": [1] * 9, "max_model_len": 99_999}, "completions": whole}
        client = ScriptedClient(*map(list, answers), **aside)
        model = make_model(client, "tiny")
        messages = conversation(4)
        list(model.drive(Compactor(model.core).compact_now(messages, [self.LOOK])))
        assert "The gist." in messages[1].text
        chats = ["tools" if "tools" in asked else "text" for asked in client.requests]
        return chats, client.asked_aside.count("completions")

    def test_a_summary_is_asked_for_once(self):
        assert self.compact(self.GIVEN) == (["tools"], 0)

    def test_one_that_the_server_lost_is_asked_for_without_its_parser(self):
        assert self.compact(self.LOST, raw="The gist.") == (["tools"], 1)

    def test_where_the_model_made_a_call_instead_it_is_asked_for_without_tools(self):
        assert self.compact(self.LOST, self.GIVEN, raw=self.CALL) == (["tools", "text"], 1)
