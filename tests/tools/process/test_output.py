"""Output in pieces: its head and its tail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.tools.process.output import Output


def fed(most: int, chunks: list[bytes]) -> str:
    output = Output(most)
    for chunk in chunks:
        output.feed(chunk)
    return output.text()


@given(st.lists(st.binary(max_size=8), max_size=20), st.integers(2, 40))
def test_output_does_not_depend_on_how_it_came(chunks, most):
    assert fed(most, chunks) == fed(most, [b"".join(chunks)])


@given(st.text(max_size=60).filter(lambda text: "\0" not in text), st.integers(2, 40))
def test_output_within_bounds_is_whole_and_beyond_them_says_what_is_missing(text, most):
    shown = fed(most, [text.encode()])
    if len(text) <= most:
        assert shown == text
    else:
        head, tail = text[: most // 2], text[len(text) - (most - most // 2) :]
        assert shown == f"{head}\n[... {len(text) - most:,} characters cut out of the middle ...]\n{tail}"


@pytest.mark.parametrize("size", [1, 7, 500])
def test_what_is_held_is_bounded_by_the_output_kept(size):
    output = Output(100)
    for _ in range(1000):
        output.feed(b"x" * size)
        assert sum(map(len, output._head)) <= 50
        assert sum(map(len, output._tail)) <= 50 + size
