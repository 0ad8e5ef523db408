"""The law of streaming for texts that are about calls: any pieces give the same."""

import random

import pytest

from tests.benchmarks.chunking import TOOLS, differs, write_text
from tests.thorough import sample


@pytest.mark.thorough
@pytest.mark.parametrize("tools", TOOLS, ids=["plain names", "names with punctuation", "common names"])
def test_a_random_text_gives_the_same_in_any_pieces(tools):
    for seed in sample(range(600), 24):
        text = write_text(random.Random(f"{len(tools)} {seed}"), tools)
        assert not differs(text, tools), text


SHAPES = [
    ("two closers in one", 0, "<toolcall></tool_call></tool_calls>"),
    ("a sign within a quoted key", 1, '<invoke name=invoke\n<parameter="o="\n</invoke>'),
    (
        "a special token in a name",
        0,
        "<invoke name=run\n<parametername=command></parameter><parametername=m<|d|>\n</invoke>",
    ),
    (
        "and in a call within a value",
        0,
        "<invoke name=d\n<parametername=h\n<invokename=&<|e|>\n</invoke></ax:tool_call>",
    ),
]


@pytest.mark.parametrize(("tools", "text"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_a_tag_that_more_text_changes_waits_for_it(tools, text):
    assert not differs(text, TOOLS[tools])
