"""The word that ends a text."""

import pytest

from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.stream.lookback import find_hold, iter_words
from tests.parsing.laws import TOOLS


def list_names(text, floor=0):
    return [(word.name, word.start, word.previous) for word in iter_words(text, len(text), floor)]


def test_the_last_word_is_offered_whole_and_then_after_each_joint():
    assert list_names("this integral.calculate") == [("integral.calculate", 5, " "), ("calculate", 14, ".")]


def test_decoration_belongs_to_the_word_and_a_gap_may_follow():
    word = next(iter_words("say **read**:\n", 14, 0))
    assert (word.name, word.start, word.mark, word.gap) == ("read", 4, "**:", "\n")


def test_nothing_before_the_floor_is_looked_at():
    assert list_names("get_weather", 4) == []
    assert list_names("say read", 4) == [("read", 4, "")]


def test_text_that_ends_in_no_word_has_none():
    assert list_names("what? (") == []
    assert list_names("") == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("say TOOL_C", "TOOL_C"),
        ("say get_wea", "get_wea"),
        ("say **Tool Call:", "**Tool Call:"),
        ("hello", ""),
        ("read ", "read "),
    ],
)
def test_the_end_of_a_text_is_held_back_where_a_block_may_begin_in_it(text, kept):
    assert text[find_hold(ToolIndex(TOOLS), text, 0) :] == kept
