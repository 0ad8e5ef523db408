"""Some lines of a text of any size."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools.fs.line_window import MAX_LINE_CHARS, MAX_WINDOW_BYTES, READ_BYTES, Window, read_window
from tests.each import check_rows


def look(text: str, first: int = 1, limit: int | None = None, codec: str = "utf-8") -> Window:
    return read_window("it", io.BytesIO(text.encode(codec)), codec, first, limit)


@check_rows("codec", ["utf-8", "latin-1", "utf-16-le", "utf-16-be"])
def test_lines_come_with_their_numbers(codec):
    assert look("grün\nb\nc\n", codec=codec) == ("1\tgrün\n2\tb\n3\tc\n", None, True)
    assert look("grün\nb\nc\n", 2, 1, codec) == ("2\tb\n", 3, True)
    assert look("grün\nb\nc", 2, 2, codec) == ("2\tb\n3\tc\n", None, False)


@check_rows("codec", ["utf-8", "utf-16-le"])
@check_rows("text, last", [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\n", 2)])
def test_a_line_that_is_not_there_is_told_with_the_last(text, last, codec):
    assert look(text, codec=codec).next is None
    for first in (last + 1, last + 2, last + 99):
        if first > 1:
            with pytest.raises(ToolError, match=f"it has no line {first}: its last is {last}"):
                look(text, first, codec=codec)


def test_a_long_line_is_cut_and_its_rest_counted():
    assert look("x" * MAX_LINE_CHARS + "\ny").text == "1\t" + "x" * MAX_LINE_CHARS + "\n2\ty\n"
    assert (
        look("x" * (MAX_LINE_CHARS + 1) + "\ny").text
        == "1\t" + "x" * MAX_LINE_CHARS + " [... 1 more characters]\n2\ty\n"
    )
    assert look("é" * 3_000_000 + "\r\n").text == "1\t" + "é" * MAX_LINE_CHARS + " [... 2,998,001 more characters]\n"


def test_what_is_shown_at_once_is_bounded_in_bytes_and_ends_with_a_whole_line():
    for text in ("short line\n" * 20_000, "é" * 99 + "\n", ("é" * 5_000 + "\n") * 99):
        seen = look(text)
        assert len(seen.text.encode()) <= MAX_WINDOW_BYTES
        assert seen.text.endswith("\n")
    assert look("é" * 5_000 + "\n" * 99).next is None


def test_what_no_terminal_and_no_text_holds_is_replaced():
    seen = read_window("it", io.BytesIO(b"a\0b\xff\n"), "utf-8", 1, None)
    assert seen.text == "1\ta\ufffdb\ufffd\n"


@given(st.text(st.sampled_from("aé\n\r"), max_size=60), st.integers(1, 5), st.sampled_from(["utf-8", "utf-16-le"]))
def test_following_the_hints_shows_every_line_once(text, limit, codec):
    lines, first = [], 1
    while text and first:
        seen = look(text, first, limit, codec)
        lines += seen.text.splitlines(keepends=True) if "\r" not in text else seen.text.split("\n")[:-1]
        first = seen.next
    assert len(lines) == len(text.split("\n")) - (text.endswith("\n") or not text)
    assert [int(line.partition("\t")[0]) for line in lines] == list(range(1, len(lines) + 1))


@given(
    st.text(st.sampled_from("aé\n\n\r\0"), max_size=60),
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(1, 5)),
    st.sampled_from(["", "x" * MAX_LINE_CHARS, "a\n" * (MAX_WINDOW_BYTES // 6), "é" * 1_990 + "\n" * 24]),
)
def test_a_short_text_is_shown_as_one_that_is_streamed(text, first, limit, more):
    text = f"{'a' + chr(10) * first}{more}{text}"
    assert look(text, first, limit) == look(text, first, limit, "utf-16-le")


def test_a_line_far_inside_is_reached_with_flat_memory(tmp_path: Path):
    file = tmp_path / "big.txt"
    line = b"x" * 99 + b"\n"
    with file.open("wb") as out:
        for _ in range(40):
            out.write(line * 10_000)
        out.write(b"the end\n")
    tracemalloc.start()
    try:
        assert read_window("it", file.open("rb"), "utf-8", 400_001, None).text == "400001\tthe end\n"
        assert tracemalloc.get_traced_memory()[1] < 3 * READ_BYTES
    finally:
        tracemalloc.stop()
