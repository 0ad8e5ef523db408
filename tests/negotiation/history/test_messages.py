"""A client's history as the server reads it: it never begins otherwise than in the request before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.negotiation import CallPath
from src.negotiation.history.messages import name_thoughts, place_late_system
from src.serve.chat_request import ChatBody
from tests.serve.test_gateway import BODY, ask, drive, say

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
SYSTEM = {"role": "system", "content": "Be brief."}
LATE = {"role": "system", "content": "Late."}
USER = {"role": "user", "content": "Go."}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "x"}
ANSWER = {"role": "assistant", "content": "Done."}
WRAPPED = "<system-reminder>\nLate.\n</system-reminder>"


def roles(messages):
    return [each["role"] for each in messages]


@pytest.mark.parametrize(
    ("before", "place", "expected"),
    [
        ([SYSTEM, USER], 1, f"Go.\n\n{WRAPPED}"),
        ([SYSTEM, USER, CALLS, RESULT], 3, f"x\n\n{WRAPPED}"),
        ([SYSTEM, USER, ANSWER], 3, WRAPPED),
    ],
)
def test_a_late_system_message_stays_at_its_place_in_a_wrapper(before, place, expected):
    placed = place_late_system([*before, LATE])
    assert placed[place]["content"] == expected
    assert placed[:place] == before[:place]


def test_no_message_of_the_user_comes_between_a_result_and_its_answer():
    assert roles(place_late_system([SYSTEM, USER, CALLS, RESULT, LATE, ANSWER])) == [
        *("system", "user", "assistant", "tool", "assistant")
    ]


def test_between_calls_and_their_results_it_waits_for_the_first_result():
    placed = place_late_system([USER, CALLS, LATE, RESULT])
    assert placed == [USER, CALLS, {**RESULT, "content": f"x\n\n{WRAPPED}"}]


def test_a_history_with_one_stays_as_it_is():
    messages = [{**SYSTEM, "name": "house"}, USER, CALLS, RESULT, ANSWER]
    assert place_late_system(messages) == messages


def test_several_at_the_beginning_are_one():
    assert place_late_system([SYSTEM, LATE, USER])[0] == {"role": "system", "content": "Be brief.\n\nLate."}


def test_parts_stay_parts():
    parts = [{"type": "text", "text": "Go."}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    placed = place_late_system([{"role": "user", "content": parts}, LATE])
    assert placed[0]["content"] == [*parts, {"type": "text", "text": WRAPPED}]


TURNS = st.lists(
    st.sampled_from(
        [(USER,), (LATE,), (USER, LATE), (USER, ANSWER), (CALLS, RESULT), (CALLS, RESULT, LATE), (ANSWER,)]
    ),
    max_size=8,
).map(lambda turns: [message for turn in turns for message in turn])


@given(TURNS, st.sampled_from([(ANSWER, USER), (CALLS, RESULT), (CALLS, RESULT, LATE), (ANSWER, USER, LATE)]))
def test_a_longer_conversation_begins_with_what_the_shorter_one_was(messages, more):
    before, now = place_late_system(messages), place_late_system([*messages, *more])
    assert now[: len(before)] == before


@given(TURNS)
def test_nothing_is_lost_and_no_system_message_is_late(messages):
    placed = place_late_system(messages)
    assert "system" not in roles(placed[1:])
    text = "".join(str(each["content"]) for each in placed)
    assert text.count("Late.") == messages.count(LATE)


class TestThoughts:
    def edit(self, message, **path):
        body = {"model": "m", "messages": [USER, message, USER], "tools": [TOOL]}
        edited = ChatBody(body).edit(CallPath(**path))["messages"]
        return next(each for each in edited if each["role"] == "assistant")

    def test_under_the_older_name_get_the_one_that_vllm_reads(self):
        assert self.edit({**ANSWER, "reasoning_content": "Hm."})["reasoning"] == "Hm."

    def test_under_both_names_stay(self):
        message = {**ANSWER, "reasoning_content": "old", "reasoning": "new"}
        assert self.edit(message) == message

    def test_of_an_answer_that_has_none_are_not_made_up(self):
        assert self.edit(ANSWER) == ANSWER

    @pytest.mark.parametrize("shows", [True, None, False])
    def test_in_the_text_are_moved_where_the_template_shows_thoughts(self, shows):
        message = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nDone."}
        moved = {"role": "assistant", "content": "Done.", "reasoning": "Hm."}
        assert self.edit(message, shows_thoughts=shows) == (moved if shows else message)

    def test_that_are_only_mentioned_stay_in_the_text(self):
        message = {"role": "assistant", "content": "Write <think>x</think> for a thought."}
        assert name_thoughts(message, moves_inline=True) == message

    def test_stay_beside_calls_that_become_text(self):
        assert self.edit({**CALLS, "reasoning": "Hm."}, mode="text")["reasoning"] == "Hm."


class TestBlanksBeforeACall:
    def edit(self, message, **path):
        return ChatBody({"model": "m", "messages": [USER, message], "tools": [TOOL]}).edit(CallPath(**path))[
            "messages"
        ][1]

    @pytest.mark.parametrize(("text", "sent"), [("\n\n", ""), ("Look.\n", "Look."), ("Look.", "Look.")])
    def test_are_left_out_where_the_template_writes_them(self, text, sent):
        assert self.edit({**CALLS, "content": text}, call_gap="\n") == {**CALLS, "content": sent}

    @pytest.mark.parametrize("path", [{}, {"call_gap": ""}])
    def test_stay_where_it_writes_none_or_does_not_tell(self, path):
        assert self.edit({**CALLS, "content": "\n\n"}, **path)["content"] == "\n\n"

    def test_of_an_answer_without_calls_stay(self):
        assert self.edit({**ANSWER, "content": "Hm.\n"}, call_gap="\n")["content"] == "Hm.\n"

    def test_have_the_template_asked_once(self, tmp_path):
        async def use(client, fake):
            fake.tells_tokens, fake.written = True, "That is easy to look up.\n<tool_call>"
            for _ in range(2):
                await ask(client, {**BODY, "messages": [USER, {**CALLS, "content": "\n\n"}, RESULT]})
                assert fake.bodies[-1]["messages"][1]["content"] == ""
            assert fake.rendered == 1

        drive(tmp_path, lambda _: say("Yes."), use)
