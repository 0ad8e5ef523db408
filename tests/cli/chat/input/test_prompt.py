"""Long pastes in the line."""

import pytest

from src.cli.chat.input.prompt import Pastes


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_long_paste_is_a_note_that_counts_its_lines_and_is_sent_in_full(end):
    pastes, text = Pastes(), "\n".join(["x"] * 30) + end
    assert pastes.shorten(text) == "[pasted text 1: 30 lines]"
    assert pastes.expand("See [pasted text 1: 30 lines].") == f"See {text}."


def test_one_long_line_counts_in_characters():
    assert Pastes().shorten("x" * 5000) == "[pasted text 1: 5,000 characters]"


def test_a_short_paste_stands_in_the_line():
    assert Pastes().shorten("a\nb\n") == "a\nb\n"
