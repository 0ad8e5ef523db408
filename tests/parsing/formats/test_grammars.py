"""What ends a block, what may follow it, its origin, and how it is decoded."""

import pytest

from src.parsing.formats.format_set import FORMAT_SET
from src.parsing.formats.grammars import (
    FABRICATED,
    LINE_END,
    BlockBody,
    decode,
)
from src.parsing.stream.openers import BlockStart
from tests.each import check_rows

KNOWN = {"f"}.__contains__


def decode_body(body, kind="json", name="", *, ended=True):
    return decode(BlockStart(0, 0, kind, "", name), BlockBody(body, ended), KNOWN)


def test_what_json_accepts_is_read_without_repair():
    found = decode_body('{"name": "f", "args": {"a": 1}}')
    assert ([(call.name, call.arguments) for call in found.calls], found.repairs) == ([("f", {"a": 1})], ())


def test_raw_newlines_are_the_smallest_repair():
    assert decode_body('{"name": "f", "args": {"a": "x\ny"}}').repairs == ("raw newlines",)


def test_a_name_before_the_object_makes_it_the_arguments():
    assert [(call.name, call.arguments) for call in decode_body('{"a": 1}', "named", "f").calls] == [("f", {"a": 1})]


@check_rows(
    "line, arguments, positional",
    [
        ('a="x", b=2', {"a": "x", "b": 2}, []),
        ("x", {}, ["x"]),
        ('"x"', {}, ["x"]),
        ("x == 'y'", {}, ["x == 'y'"]),
        ("x]", {}, ["x"]),
        ("x[0]", {}, ["x[0]"]),
        ("a=open(", {}, ["a=open("]),
    ],
)
def test_a_line_of_arguments_is_keywords_or_one_value(line, arguments, positional):
    call = decode_body(f" {line}\n", "labels", "f").calls[0]
    assert ({name: str(value) for name, value in call.arguments.items()}, call.positional) == (
        {name: str(value) for name, value in arguments.items()},
        positional,
    )


@pytest.mark.parametrize("body", ['{"name": "f", "args": {"a": 1', '{"name": "f", "args": {"a": "x', '{"name": "f"'])
def test_what_ends_inside_its_arguments_is_cut_off(body):
    assert decode_body(body, ended=False).cut


def test_a_missing_brace_after_complete_arguments_is_repaired():
    assert not decode_body('{"name": "f", "args": {"a": 1}', ended=False).problem


@check_rows(
    "body",
    [
        '{"name": "f", "args": {"a": "\\ud800"}}',
        '{"name": "f", "args": {"a": "\ud800"}}',
        "{" * 5_000,
        '{"a": NaN}',
        "{}",
    ],
)
def test_what_is_no_call_has_a_problem_and_raises_nothing(body):
    assert decode_body(body).problem


@check_rows("text", ["\n</tool_call>", "<|im_end|>", " </｜DSML｜tool_calls>", "[/TOOL_CALLS]"])
def test_closing_markers_are_taken_with_the_space_before_them(text):
    assert FORMAT_SET.closing_marker.match(text, 0).end() == len(text)


@check_rows("text", ["Observation: 3", "<tool_response>", "Tool execution results:", "## Human: hi"])
def test_a_line_that_begins_a_result_or_another_turn_is_known(text):
    assert FABRICATED.match(text, 0)


@check_rows(
    "opener, kind, closer",
    [
        ("<tool_call>", "tags", "</tool_call>"),
        ("<tool_calls><tool_call>\n", "pairs", "</tool_call>"),
        ("<｜tool_call_begin｜>", "tags", "<｜tool_call_end｜>"),
        ("<|open|>tools<|sep|>", "tags", "<|close|>tools<|sep|>"),
        ("TOOL_NAME:", "tags", "```"),
    ],
)
def test_a_wrapping_is_closed_by_what_its_row_says(opener, kind, closer):
    assert closer in FORMAT_SET.find_wrappers(opener, kind)[1].closers


@check_rows("text, ends", [("\n", True), (") # why\n", True), (", g(", True), (" to find", False)])
def test_a_bare_call_ends_its_line(text, ends):
    assert bool(LINE_END.match(text, 0)) is ends


def test_a_marker_that_formats_share_is_of_the_format_with_the_block_s_grammar():
    assert [FORMAT_SET.find_origin("<tool_call>\n", kind) for kind in ("json", "tags", "pairs", "empty")] == [
        "hermes",
        "qwen3_coder",
        "glm45",
        "glm45",
    ]


def test_the_longest_marker_names_the_format():
    assert FORMAT_SET.find_origin("<tool_calls><tool_call>", "pairs") == "hunyuan3"


def test_without_a_marker_the_grammar_alone_names_it():
    assert [FORMAT_SET.find_origin("", kind) for kind in ("json", "pythonic", "named", "element")] == [
        "llama_json",
        "pythonic",
        "glm4",
        "tool_element",
    ]


def test_markers_of_no_row_are_a_wrapping():
    assert FORMAT_SET.find_origin("<s>", "json") == "llama_json"
