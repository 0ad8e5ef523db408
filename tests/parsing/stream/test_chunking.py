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
