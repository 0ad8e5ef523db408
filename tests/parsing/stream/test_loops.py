"""Text that repeats itself is passed at once, and nothing is found otherwise for it."""

from itertools import product

import pytest

from tests.parsing.laws import events_of, join_all, summarize
from tests.parsing.stream.test_parser import count_calls
from tests.thorough import sample

CALL = '{"name": "read", "arguments": {"path": "a"}}'
LOOPS = {
    "objects that say no call": '{"id": 1,} ',
    "empty brackets": "{}",
    "a name and no arguments": "read\n{a}\n",
    "small tags": "<a>",
    "tags of a table": "<td>x</td>\n",
    "fences": "```python\nx = 1\n```\n",
    "fences with a name": "```read(",
    "half a marker": "<|",
    "quoted names": "`read`",
    "numbered calls": "@read(1): ",
    "labels": "Action: read\n",
}


BEFORE = ["", f"TOOL_CALL: {CALL}\n", "```\n"]
AFTER = ["", f"\n{CALL}\n", "\nread(path='a')\n", "```\nread"]


@pytest.mark.thorough
@pytest.mark.parametrize("at", sample(range(len(LOOPS)), 5), ids=sample(list(LOOPS), 5))
def test_a_loop_four_times_as_long_takes_hardly_more_calls(at):
    loop = list(LOOPS.values())[at]
    for before in sample(BEFORE[:2], 2, at):
        short, long = (before + loop * (size // len(loop)) for size in (96_000, 384_000))
        events_of(short)  # patterns are compiled once, and not counted
        assert count_calls(long, len(long)) <= 1.2 * count_calls(short, len(short))


@pytest.mark.thorough
@pytest.mark.parametrize("at", range(len(LOOPS)), ids=LOOPS)
def test_a_loop_changes_nothing_of_what_stands_round_it(at):
    """Pieces are shorter than a repetition that is passed, so that the text is examined as a whole when it comes in pieces."""
    loop = list(LOOPS.values())[at]
    for before, after in sample(list(product(BEFORE, AFTER)), len(BEFORE) * len(AFTER), at):
        text = before + loop * (24_000 // len(loop)) + after
        whole = events_of(text)
        assert summarize(whole) == summarize(events_of(text, range(2_000, len(text), 2_000)))
        assert join_all(whole) == text


def test_a_loop_that_changes_is_looked_at_where_it_does():
    text = "{}" * 8_000 + CALL + "{}" * 8_000 + CALL.replace("a", "b")
    assert summarize(events_of(text)) == summarize(events_of(text, range(500, len(text), 500)))
