"""Streamed Markdown in blocks: the same whatever the chunks, and nothing of it lost."""

import re

from hypothesis import given
from hypothesis import strategies as st

from src.cli.render.blocks import BlockSplitter
from tests.each import check_rows


def blocks(text, size=10_000):
    splitter = BlockSplitter()
    out = [block for start in range(0, len(text), size) for block in splitter.feed(text[start : start + size])]
    return [*out, *splitter.close()]


def kinds(text):
    return [(block.kind, block.text.rstrip("\n")) for block in blocks(text)]


CASES = {
    "paragraphs": ("a\nb\n\nc", [("text", "a\nb"), ("text", "c")]),
    "a heading ends at its line": ("# A\nb", [("text", "# A"), ("text", "b")]),
    "an underlined heading": ("A\n===\nb", [("text", "A\n==="), ("text", "b")]),
    "a rule": ("a\n\n---\nb", [("text", "a"), ("text", "---"), ("text", "b")]),
    "items": ("- a\n- b\n  more\n\n- c", [("item", "- a"), ("item", "- b\n  more"), ("item", "- c")]),
    "numbers go on": ("1. a\n1. b\n\n1. c", [("item", "1. a"), ("item", "2. b"), ("item", "3. c")]),
    "numbers begin where the list does": ("7) a\n8) b", [("item", "7) a"), ("item", "8) b")]),
    "a nested list is part of its item": ("- a\n  - b\n- c", [("item", "- a\n  - b"), ("item", "- c")]),
    "code in an item": ("- a\n  ```\n- b\n  ```\n- c", [("item", "- a\n  ```\n- b\n  ```"), ("item", "- c")]),
    "a paragraph after a list": ("- a\n\nb", [("item", "- a"), ("text", "b")]),
    "a number in a paragraph": ("In\n1984. Yes.", [("text", "In\n1984. Yes.")]),
    "a list interrupts a paragraph": ("Here:\n- a", [("text", "Here:"), ("item", "- a")]),
    "code": ("```py\nx\n\n# y\n```\nz", [("opener", "```py"), ("code", "x"), ("code", ""), ("code", "# y"),
                                         ("closer", ""), ("text", "z")]),
    "code that never ends": ("~~~\nx", [("opener", "~~~"), ("code", "x"), ("closer", "")]),
    "a longer fence": ("````\n```\n````", [("opener", "````"), ("code", "```"), ("closer", "")]),
    "a table": ("| a |\n|---|\n| 1 |\n\nb", [("text", "| a |\n|---|\n| 1 |"), ("text", "b")]),
    "nothing": ("\n\n", []),
}  # fmt: skip


@check_rows("text, expected", CASES.values())
def test_what_is_a_block(text, expected):
    assert kinds(text) == expected


MARKDOWN = st.lists(
    st.sampled_from(
        ["a", "b ", "\n", "\n\n", "# ", "- ", "1. ", "  ", "```", "```py\n", "| x |", "---", "> ", "===", "~~~"]
    ),
    max_size=40,
).map("".join)


@given(MARKDOWN, st.integers(1, 7))
def test_any_chunks_give_the_same(text, size):
    assert blocks(text, size) == blocks(text)


@given(MARKDOWN)
def test_every_word_is_in_a_block(text):
    said = "".join(block.text for block in blocks(text))
    assert re.findall("[ab]", said) == re.findall("[ab]", re.sub(r"(```|~~~)py", r"\1", text))


@given(MARKDOWN)
def test_what_is_open_is_what_is_finished_next(text):
    splitter = BlockSplitter()
    splitter.feed(text)
    shown = splitter.open
    finished = splitter.close()
    if shown and shown.kind != "code":
        assert finished[0].text.startswith(shown.text.split("\n")[0][:1])
