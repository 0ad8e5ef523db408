"""What follows a block."""

import pytest

from src.parsing.formats.closing import closers, closing, fabricated, line_end


@pytest.mark.parametrize("text", ["\n</tool_call>", "<|im_end|>", " </｜DSML｜tool_calls>", "[/TOOL_CALLS]"])
def test_closing_markers_are_taken_with_the_space_before_them(text):
    assert closers().match(text, 0).end() == len(text)


@pytest.mark.parametrize("text", ["Observation: 3", "<tool_response>", "Tool execution results:", "## Human: hi"])
def test_a_line_that_begins_a_result_or_another_turn_is_known(text):
    assert fabricated().match(text, 0)


@pytest.mark.parametrize(
    ("kind", "block"), [("tags", "<function=f></function>"), ("pairs", "f</tool_call>"), ("labels", "Oslo\n")]
)
def test_each_kind_ends_with_its_own_marker(kind, block):
    assert closing(kind, "", block).search(block).end() == len(block)


@pytest.mark.parametrize(
    "block",
    [
        "<function=f><parameter=a><tool><call>x</call></tool></parameter></function>",
        '<|open|>call tool="f"<|sep|><|open|>argument key="a"<|sep|></tool></function><|close|>argument<|sep|><|close|>call<|sep|>',
    ],
)
def test_a_tag_of_another_name_in_a_value_ends_nothing(block):
    assert closing("tags", "", block).search(block).end() == len(block)


def test_an_element_ends_with_the_tag_of_its_name():
    assert closing("element", "read", "").search("<path>a</path></read>").group() == "</read>"


@pytest.mark.parametrize(("text", "ends"), [("\n", True), (") # why\n", True), (", g(", True), (" to find", False)])
def test_a_bare_call_ends_its_line(text, ends):
    assert bool(line_end().match(text, 0)) is ends
