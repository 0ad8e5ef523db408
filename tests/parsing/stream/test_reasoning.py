"""Reasoning in the text: neither shown nor searched, unless nothing follows it; and the envelope of the answer."""

import pytest

from src.parsing import Answered, ParsedCall, Reasoned, StreamParser, extract_tool_calls, gathered
from src.parsing.formats.envelopes import ENVELOPES, REASONING
from src.parsing.stream.reasoning import MAX_CUT_CHARS
from src.types.events import ReasoningDelta, TextDelta
from tests.each import check_each, check_rows
from tests.parsing.laws import TOOLS, events_of, join_all, join_text, summarize

CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
OWN_CLOSERS = [pair.closer for pair in REASONING if pair.ends_only_reasoning]


def list_calls(events):
    return [event.call for event in events if isinstance(event, ParsedCall)]


def join_reasoning(events):
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


class TestReasoning:
    @check_each(pair=REASONING)
    def test_reasoning_of_every_pair_is_neither_shown_nor_searched(self, pair):
        text = f"{pair.opener}I could {CALL}{pair.closer}Hello."
        for cuts in ((), range(1, len(text))):
            events = events_of(text, cuts)
            assert (list_calls(events), join_text(events)) == ([], "Hello.")
            assert join_reasoning(events) == f"I could {CALL}"

    @check_each(pair=REASONING)
    def test_empty_reasoning_leaves_the_answer(self, pair):
        assert gathered(events_of(f"{pair.opener}\n{pair.closer}Hello", range(1, 10))).content == "Hello"

    @pytest.mark.parametrize("text", [f"<think>So:\n{CALL}</think>\n", f"<think>So:\n{CALL}"])
    def test_a_call_at_the_end_of_reasoning_counts_where_nothing_was_answered(self, text):
        found = extract_tool_calls(text, TOOLS)
        assert [call.name for call in found.calls] == ["read"]
        assert found.content.strip() == ""

    @check_each(pair=REASONING)
    def test_a_call_at_the_end_of_a_thought_is_guessed_unless_the_model_is_known_to_write_it_there(self, pair):
        for text in (f"{pair.opener}So:\n{CALL}", f"{pair.opener}So:\n{CALL}{pair.closer}"):
            for is_known in (False, True):
                parser = StreamParser(TOOLS, calls_in_thoughts=is_known)
                calls = list_calls([*parser.feed(text), *parser.close()])
                assert [call.guessed for call in calls] == [not is_known]
                assert parser.has_calls_in_thought

    def test_a_call_in_the_middle_of_reasoning_does_not(self):
        assert not extract_tool_calls(f"<think>{CALL}\nNo, not that.</think>", TOOLS).calls

    def test_a_marker_directly_behind_a_sentence_opens_reasoning(self):
        text = "Before.<|inner_prefix|>Hm.<|inner_suffix|>After."
        for cuts in ((), range(1, len(text))):
            found = gathered(events_of(text, cuts))
            assert (found.content, found.reasoning) == ("Before.After.", "Hm.")

    def test_a_marker_in_the_middle_of_a_line_is_text_and_so_is_the_one_that_closes_it(self):
        for text in ("The tag <think> opens a thought.", "Write <think>so</think> and nothing else."):
            assert join_text(events_of(text)) == text


class TestUnopenedReasoning:
    @check_each(closer=OWN_CLOSERS)
    def test_a_closing_marker_alone_makes_the_text_before_it_reasoning(self, closer):
        text = f"Let me see.{closer}Hello."
        for cuts in ((), range(1, len(text))):
            events = events_of(text, cuts)
            assert [event.closer for event in events if isinstance(event, Reasoned)] == [closer]
            assert (gathered(events).content, gathered(events).reasoning) == ("Hello.", "Let me see.")

    def test_a_second_closing_marker_directly_behind_it_is_cut(self):
        text = "<thinking>Hm.</thinking>\n</think>\nHello."
        for cuts in ((), range(1, len(text))):
            assert gathered(events_of(text, cuts)).content == "\n\nHello."

    def test_a_closing_marker_counts_once(self):
        found = extract_tool_calls("First.</think>Second.</think>Third.", TOOLS)
        assert (found.content, found.reasoning) == ("Second.</think>Third.", "First.")

    @check_rows(
        "text",
        [
            "The text up to </think> is stripped.",
            "The text up to `</think>` is stripped.",
            "It ends with `a </think> b`.",
            'He wrote "so it is </think> then" to me.',
            "It is '</think>', in quotes.",
            "It is the last (</think>).",
            "```\n<think>\nHm.\n</think>\n```\n",
        ],
    )
    def test_a_marker_that_is_mentioned_quoted_or_in_code_is_text_and_the_calls_around_it_run(self, text):
        for whole in (text, f"{CALL}\n{text}", f"{text}\n{CALL}"):
            for cuts in ((), range(1, len(whole))):
                found = gathered(events_of(whole, cuts))
                assert found.content.strip() == text.strip()
                assert [call.guessed for call in found.calls] == [False] * whole.count(CALL)

    def test_after_a_call_it_makes_the_call_a_guess_if_anything_follows(self):
        assert [call.guessed for call in extract_tool_calls(f"{CALL}\n</think>\nHello.", TOOLS).calls] == [True]
        assert [call.guessed for call in extract_tool_calls(f"{CALL}\n</think>\n{CALL}", TOOLS).calls] == [True, False]
        assert [call.guessed for call in extract_tool_calls(f"{CALL}\n</think>\n", TOOLS).calls] == [False]


class TestOpenedInThePrompt:
    def events(self, text, **options):
        return events_of(text, range(1, len(text)), thought_closer="</think>", **options)

    def test_the_text_is_thought_from_the_first_character_on(self):
        events = self.events(f"I could {CALL}\n</think>\nHello.")
        assert not any(isinstance(event, Reasoned) for event in events)
        assert (join_reasoning(events), join_text(events)) == (f"I could {CALL}\n", "\nHello.")
        assert list_calls(events) == []

    def test_an_opening_marker_that_the_model_writes_as_well_is_cut(self):
        assert gathered(self.events("\n<think>Hm.</think>Hello.")).reasoning == "Hm."

    def test_without_a_closer_all_of_it_was_the_answer(self):
        events = self.events(f"Hello.\n{CALL}")
        found = gathered(events)
        assert any(isinstance(event, Answered) for event in events)
        assert (found.content, found.reasoning, len(found.calls)) == ("Hello.\n", "", 1)

    def test_a_call_in_it_that_text_follows_is_a_guess(self):
        assert [call.guessed for call in gathered(self.events(f"{CALL}\nNo, not that.")).calls] == [True]

    @pytest.mark.parametrize("closing", ["", "</thinking>"])
    def test_a_thought_within_it_that_nothing_follows_gives_its_last_calls(self, closing):
        parser = StreamParser(TOOLS, thought_closer="</think>")
        found = gathered([*parser.feed(f"<thinking>So:\n{CALL}{closing}"), *parser.close()])
        assert [(call.name, call.guessed) for call in found.calls] == [("read", True)]
        assert (found.content, found.reasoning) == ("", f"So:\n{CALL}")
        assert parser.has_calls_in_thought

    def test_an_answer_that_was_cut_off_stays_a_thought(self):
        found = gathered(self.events("Let me", truncated=True))
        assert (found.content, found.reasoning) == ("", "Let me")


class TestEnvelope:
    @check_each(marker=[marker for row in ENVELOPES if row.place == "surrounds" for marker in row.markers])
    def test_every_marker_is_cut(self, marker):
        text = f"{marker}Hello.{marker}"
        for cuts in ((), range(1, len(text))):
            assert join_text(events_of(text, cuts)) == "Hello."
            assert join_all(events_of(text, cuts)) == text

    @pytest.mark.parametrize("unit", ["<|eot_id|>", "<|end|>[", "<think></think>"])
    def test_markers_beyond_a_limit_are_text(self, unit):
        text = unit * (2 * MAX_CUT_CHARS // len(unit))
        whole = events_of(text)
        assert MAX_CUT_CHARS / 2 < len(join_text(whole)) < len(text) - MAX_CUT_CHARS / 2
        assert summarize(whole) == summarize(events_of(text, range(7, len(text), 7)))
        assert join_all(whole) == text

    @pytest.mark.parametrize("lead", ["t", "is-", "is$"])
    def test_the_end_of_another_word_is_no_recipient(self, lead):
        text = f"So {lead}to=user<|message|>Hello."
        for cuts in ((), range(1, len(text))):
            assert join_text(events_of(text, cuts)) == text

    @check_rows(
        "text, content",
        [
            ("<think>Hm.</think>\n<response>\nHello.</response>\n", "\n\nHello.\n"),
            ("Hm.\n</think>\n<answer>Hello.", "\nHello."),
            ("<think>Hm.</think>\n<answer>a</answer> and <answer>b</answer>", "\na</answer> and <answer>b"),
            ("Write <answer>Hello.</answer>", "Write <answer>Hello.</answer>"),
            ("<response>Hello.</response>", "<response>Hello.</response>"),
        ],
    )
    def test_a_word_that_wraps_an_answer_is_cut_directly_behind_reasoning_and_at_the_end(self, text, content):
        for cuts in ((), range(1, len(text))):
            assert gathered(events_of(text, cuts)).content == content
            assert join_all(events_of(text, cuts)) == text

    @check_rows(
        "text, content",
        [
            ("Hello.</s>", "Hello."),
            ("Hello.<eos>\n", "Hello.\n"),
            ("In HTML <s>old</s>", "In HTML <s>old</s>"),
            ("</s> closes <s>.", "</s> closes <s>."),
        ],
    )
    def test_an_end_token_is_cut_at_the_end_only(self, text, content):
        for cuts in ((), range(1, len(text))):
            assert join_text(events_of(text, cuts)) == content

    @pytest.mark.parametrize(
        "role", ["<|im_start|>assistant\n", "<|assistant|>", "<|start_header_id|>assistant<|end_header_id|>"]
    )
    def test_the_role_before_an_answer_is_cut_and_the_one_before_a_call_is_its_marker(self, role):
        for cuts in ((), range(1, 60)):
            assert join_text(events_of(f"{role}Hello.", cuts)) == "Hello."
            found = gathered(events_of(f'{role}{{"name": "read", "arguments": {{"path": "a"}}}}', cuts))
            assert ([call.name for call in found.calls], found.content) == (["read"], "")

    @pytest.mark.parametrize("ahead", ["", " ", "<|start|>assistant "])
    def test_a_recipient_that_is_the_user_or_the_model_itself_is_no_text(self, ahead):
        text = f"{ahead}to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Hello.<|eot|>"
        for cuts in ((), range(1, len(text))):
            found = gathered(events_of(text, cuts))
            assert (found.content.strip(), found.reasoning) == ("Hello.", "Hm.")

    def test_a_marker_that_is_mentioned_is_text(self):
        for text in ("Turns end with <|im_end|>, always.", "Write `<|im_end|>`.", "```\n<|im_end|>\n```"):
            assert join_text(events_of(text, range(1, len(text)))) == text

    def test_any_chunking_gives_the_same(self):
        text = "Hi<|message_sep|>\n\nfunction call<|role_sep|>\n<|im_end|>\n<|im_start|>user <|im_end|> [unused1] [unused11]"
        assert summarize(events_of(text, range(1, len(text)))) == summarize(events_of(text))
        assert all(event.text for event in events_of(text) if isinstance(event, TextDelta))


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_the_same_marker_many_times_in_a_row_is_cut(size):
    text = "Done." + "<|end|>" * 50 + " is how a turn ends."
    whole = summarize(events_of(text))
    assert summarize(events_of(text, range(size, len(text), size))) == whole
    assert join_text(events_of("Done." + "<|end|>" * 50)) == "Done."
