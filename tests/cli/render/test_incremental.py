"""Extending the drawn lines of a growing text gives the same lines as rendering it again."""

from hypothesis import example, given
from hypothesis import strategies as st

from src.cli.render.blocks import Block
from src.cli.render.incremental import IncrementalText
from src.cli.render.markdown import MarkdownRenderer

PIECES = ["a", "Bc", " ", "  ", "word, ", "x.", "1", "2.", ")", "(", "[", "]", "](", "**", "*", " **", "_", "`", "```", "~~", "# ",
          "- ", "1. ", "> ", "|", "|---|\n", "\n", "\n\n", "    ", "\t", "\\", "!", "<", ">", "&", "=", "-", "http://a/b", "日本",
          "語。", "é", "e\u0301", "\U0001f600", "\u00a0 ", ":", "'", '"', "supercalifragilistic"]  # fmt: skip


@example(["a", " ", "b"], 12, None)
@example(["a", "\u00a0 ", "b"], 12, None)
@example(["- ", "a", "\n\n", "    ", "b"], 12, "256")
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.integers(10, 40), st.sampled_from([None, "256"]))
def test_a_block_that_grows_is_shown_as_if_drawn_anew(pieces, width, colours):
    renderer, text = MarkdownRenderer(colours), ""
    for piece in pieces:
        text += piece
        block = Block("text", text)
        assert renderer.render_block(block, width) == MarkdownRenderer(colours).render_block(block, width)


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.integers(10, 40))
def test_a_text_that_grows_is_shown_as_if_wrapped_anew(pieces, width):
    renderer, text = MarkdownRenderer(None), ""
    for piece in pieces:
        text += piece
        assert renderer.wrap(text.strip(), width) == MarkdownRenderer(None).wrap(text.strip(), width)


def test_a_word_more_is_put_behind_the_last_line():
    growing = IncrementalText()
    growing.remember("some words", 20, ["some words"])
    assert growing.extend("some words more ", 20) == ["some words more"]
    assert growing.extend("some words more and", 20) == ["some words more and"]


def test_what_may_change_what_is_before_it_is_drawn_anew():
    growing = IncrementalText()
    growing.remember("some *words", 20, ["some *words"])
    assert growing.extend("some *words*", 20) is None
    assert growing.extend("some *words and many", 19) is None
    assert growing.extend("other", 20) is None
