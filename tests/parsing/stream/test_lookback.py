"""The word that ends a text."""

import random

import pytest

from src.parsing import StreamParser
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.stream.lookback import find_hold, iter_words
from src.types.events import TextDelta
from tests.each import check_rows
from tests.parsing.laws import TOOLS, events_of, join_all, summarize


def list_names(text, floor=0):
    return [(word.name, word.start, word.previous) for word in iter_words(text, len(text), floor)]


def test_the_last_word_is_offered_whole_and_then_after_each_joint():
    assert list_names("this integral.calculate") == [("integral.calculate", 5, " "), ("calculate", 14, ".")]


def test_decoration_belongs_to_the_word_and_a_gap_may_follow():
    word = next(iter_words("say **read**:\n", 14, 0))
    assert (word.name, word.start, word.mark, word.gap) == ("read", 4, "**:", "\n")


def test_nothing_before_the_floor_is_looked_at():
    assert list_names("get_weather", 4) == []
    assert list_names("say read", 4) == [("read", 4, " ")]


def test_text_that_ends_in_no_word_has_none():
    assert list_names("what? (") == []
    assert list_names("") == []


@check_rows(
    "text, kept",
    [
        ("say TOOL_C", "TOOL_C"),
        ("say get_wea", "get_wea"),
        ("say **Tool Call:", "**Tool Call:"),
        ("hello", ""),
        ("read ", "read "),
        ("read \n", "read \n"),
        ("a Tool Na", "Tool Na"),
        ("a function name: ", "function name: "),
        ("the final t", "final t"),
        ("get_wea:ther", "get_wea:ther"),
    ],
)
def test_the_end_of_a_text_is_held_back_where_a_block_may_begin_in_it(text, kept):
    assert text[find_hold(ToolIndex(TOOLS).names, text, 0) :] == kept


WORDS = (
    "tool", "Tool", "TOOL", "call", "calls", "assistant", "commentary", "to", "read", "get", "weather", "get_weather",
    "a", "the", "action", "final", " ", " ", "  ", "\n", ",", ". ", "-", "*", "x", "functions.", "\t", "_", "**", "@",
    '"', "'", "]", "\xa0", "é",
)  # fmt: skip


def make_prose_parser():
    parser = StreamParser(TOOLS)
    parser.feed("So. ")
    return parser


@check_rows("text", ["a <", "a <think>", "get_weather(", "- `a", "a\n`", "a [", "[THI", '{"name": "read"', ""])
def test_text_in_which_something_may_begin_is_not_passed(text):
    assert make_prose_parser().count_held(text) == -1


@check_rows(
    "text, held",
    [("a `b", 0), ("{ +", 0), ("x: y", 0), ("f(", 0), ("[a](b", 0), ('a {"', 2), ("a [w", 2), ("so [read](x", 0)],
)
def test_text_in_which_nothing_begins_is_passed_up_to_what_may_yet_be_a_beginning(text, held):
    assert make_prose_parser().count_held(text) == held


def test_a_backtick_is_passed_by_what_was_shown_before_it():
    parser = make_prose_parser()
    assert parser.feed("see the ") == [TextDelta("see the ")]
    assert parser.feed("`x is") == [TextDelta("`x is")]


@check_rows("text", [
    'Tool Name: read\nArguments: {"path": "a"}', 'Function Call: read\nArguments: {"path": "a"}',
    'get_wea:ther\n{"city": "Oslo"}', 'ecommentary to=read\n{"path": "a"}', "[            f'get_weather(city=\"Oslo\")']", "['weather.now.get_weather', city='Oslo']",
    "```tool\nTOOL_NAME: read\nBEGIN_ARG: a: b\nx\nEND_ARG\n```",
])  # fmt: skip
def test_names_and_labels_of_several_parts_are_found_in_any_pieces(text):
    whole = summarize(events_of(text))
    for size in (1, 2, 7):
        assert summarize(events_of(text, range(size, len(text), size))) == whole


def test_behind_a_marker_a_name_begins_anew_wherever_the_text_is_split():
    text = 'read {"path": "a"}x<|begin|>assistantapi::get_weather\n{"city": "Oslo"}'
    whole = summarize(events_of(text))
    assert [cut for cut in range(1, len(text)) if summarize(events_of(text, [cut])) != whole] == []


def test_a_word_that_may_begin_a_block_is_decided_on_where_it_ends():
    parser = make_prose_parser()
    assert [parser.feed(piece) for piece in ("see [lin", "k", "/to", "](")] == [
        [TextDelta("see ")],
        [],
        [],
        [TextDelta("[link/to](")],
    ]


def test_prose_is_shown_as_it_comes():
    parser = StreamParser(TOOLS)
    pieces = ["Hello", ", the", " quick", " brown", " fox", ".\n", "It's", " done", "."]
    assert [parser.feed(piece) for piece in pieces] == [[TextDelta(piece)] for piece in pieces]


@pytest.mark.parametrize("seed", range(20))
def test_prose_between_calls_gives_the_same_events_in_any_pieces(seed):
    source = random.Random(seed)
    parts = [
        'TOOL_CALL: {"name": "read", "args": {"path": "a"}}\n',
        "\nObservation: x",
        "`read`(",
        " ",
        ", and more. " * 9,
    ]
    text = "So. " + "".join(source.choice(parts if source.random() < 0.2 else WORDS) for _ in range(60))
    cuts = sorted(source.sample(range(1, len(text)), len(text) // 3))
    assert summarize(events_of(text, cuts)) == summarize(events_of(text))
    assert join_all(events_of(text, cuts)) == text
