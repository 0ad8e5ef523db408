"""Text that repeats itself is passed at once, and nothing is found otherwise for it."""

import pytest

from tests.parsing.laws import events_of, join_all, summarize
from tests.parsing.stream.test_parser import count_calls

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


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def loop(request):
    return request.param


@pytest.mark.parametrize("before", ["", f"TOOL_CALL: {CALL}\n"])
def test_a_loop_four_times_as_long_takes_hardly_more_calls(before, loop):
    short, long = (before + loop * (size // len(loop)) for size in (50_000, 200_000))
    assert count_calls(long, len(long)) <= 1.5 * count_calls(short, len(short))


@pytest.mark.parametrize("before", ["", f"TOOL_CALL: {CALL}\n", "```\n"])
@pytest.mark.parametrize("after", ["", f"\n{CALL}\n", "\nread(path='a')\n", "```\nread"])
def test_a_loop_changes_nothing_of_what_stands_round_it(loop, before, after):
    """Pieces are shorter than a repetition that is passed, so that all of it is looked at where it comes in pieces."""
    text = before + loop * (24_000 // len(loop)) + after
    whole = events_of(text)
    assert summarize(whole) == summarize(events_of(text, range(2_000, len(text), 2_000)))
    assert join_all(whole) == text


def test_a_loop_that_changes_is_looked_at_where_it_does():
    text = "{}" * 20_000 + CALL + "{}" * 20_000 + CALL.replace("a", "b")
    assert summarize(events_of(text)) == summarize(events_of(text, range(500, len(text), 500)))
