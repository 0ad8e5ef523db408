"""BlockSplitter as lines for a terminal: no wider than it is, nothing lost, and no escape but colours."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from src.cli.render.blocks import Block, BlockSplitter
from src.cli.render.colours import DARK, LIGHT, NONE
from src.cli.render.markdown import MarkdownRenderer
from src.cli.render.text_width import measure_width
from tests.each import check_rows

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("colours", "code", "keyword"), [(DARK, "36", "94"), (LIGHT, "34", "34"), (NONE, None, None)], ids=str
)
def test_colours_follow_the_background_and_none_leaves_bold_and_layout(colours, code, keyword):
    text = "**bold** and `code` and [link](http://a)\n\n```python\nreturn 1  # why\n```\n"
    splitter, renderer = BlockSplitter(), MarkdownRenderer("standard", colours)
    lines = [line for block in [*splitter.feed(text), *splitter.close()] for line in renderer.render_block(block, 60)]
    drawn = "\n".join(lines)
    assert "\x1b[1mbold\x1b[0m" in drawn
    assert "\x1b[2m# why\x1b[0m" in drawn
    if code:
        assert f"\x1b[{code}mcode\x1b[0m" in drawn
        assert f"\x1b[{keyword}mreturn\x1b[0m" in drawn
    else:
        assert not re.search("\x1b\\[[0-9;]*[349][0-7]", drawn)


def render(text, width=40, colours="standard"):
    splitter, renderer = BlockSplitter(), MarkdownRenderer(colours)
    return [line for block in [*splitter.feed(text), *splitter.close()] for line in renderer.render_block(block, width)]


def bare(text, width=40):
    return [COLOUR.sub("", line) for line in render(text, width)]


@check_rows(
    "text, lines",
    [
        ("**bold** and `code`", ["bold and code"]),
        ("# Title", ["Title"]),
        ("- a\n- b", [" • a", " • b"]),
        ("1. a\n2. b", ["1. a", "2. b"]),
        ("42.", ["42."]),
        ("> said", ["▌ said"]),
        ("[text](http://a/b)", ["text (http://a/b)"]),
        ('[a](u "why")', ['a (u "why")']),
        ('- [a](u "why")', [' • a (u "why")']),
        ("| a |\n|---|\n| %s |" % ("x" * 50), [" a", " " + "─" * 38, " " + "x" * 38, " " + "x" * 12]),
        ("| a | b |\n|---|---|\n| 1 | 2 | c |", ["| a | b |", "|---|---|", "| 1 | 2 | c |"]),
        ("> | a | b |\n> |---|---|\n> | 1 | 1 | 1 |", ["> | a | b |", "> |---|---|", "> | 1 | 1 | 1 |"]),
        ("- | a |\n  |---|\n  | 1 |", [" •", "    a", "    ─", "    1"]),
        ("| a |\n|---|\n| x \\| y |", [" a", " ─────", " x | y"]),
        ("![alt](http://a/b)", ["!alt (http://a/b)"]),
        ("<b>x</b> &amp; &#x202e;", ["<b>x</b> &amp; &#x202e;"]),
        ("[a]: http://b", ["[a]: http://b"]),
        ("```py\nx = 1\n```", ["```py", "x = 1", "```"]),
        ("```\n\tx  \n```", ["```", "    x", "```"]),
    ],
)
def test_what_is_shown(text, lines):
    assert bare(text) == lines


def test_a_table_is_in_columns_whatever_the_script():
    lines = bare("| 名前 | n |\n|---|---|\n| 日本語 | 1 |\n| abc | 22 |")
    starts = {measure_width(line[: line.rindex(number)]) for line, number in zip(lines[-2:], ("1", "22"), strict=True)}
    assert len(starts) == 1


def test_code_is_coloured_by_what_is_before_it():
    renderer = MarkdownRenderer("standard")
    renderer.render_block(Block("opener", "```python", language="python"), 40)
    renderer.render_code([Block("code", 'text = """', language="python")])
    inside = renderer.render_code([Block("code", "def f(): pass", language="python")])
    renderer.render_block(Block("closer", ""), 40)
    renderer.render_block(Block("opener", "```python", language="python"), 40)
    assert inside != renderer.render_code([Block("code", "def f(): pass", language="python")])


def test_code_is_not_wrapped():
    assert bare(f"```\n{'x' * 100}\n```")[1] == "x" * 100


def test_without_colours_there_is_no_escape_at_all():
    assert "\x1b" not in "".join(render("# a\n**b** `c`\n```py\nx\n```", colours=None))


def test_what_is_nested_too_deep_is_shown_as_it_is_written():
    assert "word" in "".join(bare("> " * 60 + "word"))


PIECES = ["a", "b ", "\n", "\n\n", "# ", "- ", "1. ", "  ", "```", "```py\n", "| ", "|---|---|\n", "> ", "**", "`", "[x](y)",
          "日本", "&#x1b;", "<b>", "\\", "!", "~~", "\x1b[31m", "\u202e", "\r"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.integers(12, 60))
def test_nothing_breaks_it_nothing_steers_and_nothing_is_too_wide(text, width):
    splitter, renderer = BlockSplitter(), MarkdownRenderer("standard")
    for block in [*splitter.feed(text), *splitter.close()]:
        for line in renderer.render_block(block, width):
            rest = COLOUR.sub("", line)
            assert not re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202e]", rest)
            assert block.kind in ("code", "opener") or measure_width(rest) <= width


@example("- ```a", 200)
@example("> |a|\n> |---|\n> |a|b|", 40)
@example("|a" * 12 + "\n" + "|---" * 12 + "\n" + "|abababa" * 12, 40)
@example("|a" * 6 + "\n" + "|---" * 6 + "\n" + "|abababa" * 6, 40)
@given(st.lists(st.sampled_from(PIECES[:12]), max_size=30).map("".join), st.integers(12, 200))
def test_every_word_is_shown(text, width):
    words = re.findall("[ab]", text)
    assert len(re.findall("[ab]", "".join(bare(text, width)))) >= len(words)
