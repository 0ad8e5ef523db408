"""One answer as a client of vLLM gets it, whatever the pieces it came in."""

from __future__ import annotations

import itertools
import json
from functools import partial
from typing import Any, NamedTuple

import pytest

from src.parsing.formats.table import FORMATS
from src.types.events import TextDelta
from src.vllm_plugin.call_stream import CallStream
from src.vllm_plugin.forced_call_stream import ForcedCallStream
from tests.each import check_each, check_rows
from tests.thorough import take_turns

STRING = {"type": "string"}


def make_tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [make_tool("get_weather", city=STRING), make_tool("write", path=STRING, content=STRING)]
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
LONG = "\n".join(f'line {number}: "quoted" \\ é' for number in range(50))


class Answer(NamedTuple):
    text: str
    calls: list[tuple[str, Any]]
    pieces: int  # of calls


def read(
    text: str, size: int = 7, *, tools=TOOLS, is_closed: bool = True, forced: str | None = None, **options: Any
) -> Answer:
    ids = itertools.count()
    begin = partial(CallStream, tools, lambda: f"call_{next(ids)}", **options)
    stream = begin() if forced is None else ForcedCallStream(forced, begin)
    deltas = [delta for at in range(0, len(text), size) for delta in stream.feed(text[at : at + size])]
    deltas += stream.close() if is_closed else []
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        if not isinstance(delta, TextDelta):
            assert (delta.call_index in calls) == (delta.name is None)  # the name comes once, and first
            call = calls.setdefault(delta.call_index, ["", ""])
            call[0] += delta.name or ""
            call[1] += delta.arguments_delta
    shown = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    read_calls = [(name, load(arguments)) for name, arguments in calls.values()]
    return Answer(shown, read_calls, sum(not isinstance(delta, TextDelta) for delta in deltas))


def load(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@check_each(row=FORMATS, size=[1, 3, 1_000_000])
def test_each_format_is_read_in_any_pieces(row, size):
    answer = read(row.example, size)
    assert answer.calls == [("get_weather", {"city": "Oslo"})]
    assert not answer.text.strip()


@pytest.mark.thorough
@check_each(case=take_turns(FORMATS, [1, 9, 1_000_000]))
def test_a_long_argument_is_exact_in_any_pieces(case):
    row, size = case
    written = row.write("write", {"path": "a.txt", "content": LONG})
    whole = read(written, 1_000_000, streams_arguments=False)
    assert read(written, size).calls == whole.calls


@check_rows("name", ["hermes", "mistral_v11", "kimi_k2", "deepseek_v31", "text"])
def test_a_long_argument_in_json_is_given_while_it_is_written(name):
    row = next(row for row in FORMATS if row.name == name)
    answer = read(row.write("write", {"path": "a.txt", "content": LONG}))
    assert answer.calls == [("write", {"path": "a.txt", "content": LONG})]
    assert answer.pieces > len(LONG) / 20


def test_a_short_call_comes_whole():
    assert read(HERMES, 1).pieces == 1


def test_a_call_is_given_before_the_answer_ends():
    assert read(HERMES, 1, is_closed=False).calls == [("get_weather", {"city": "Oslo"})]


def test_three_calls_in_a_row_leave_no_text():
    answer = read("I look.\n" + "\n".join([HERMES] * 3))
    assert answer.calls == [("get_weather", {"city": "Oslo"})] * 3
    assert answer.text == "I look.\n"


def test_text_about_a_tag_is_text():
    text = "A call begins with <tool_call> and ends with </tool_call>."
    assert read(text) == Answer(text, [], 0)


def test_text_after_a_call_is_given():
    assert read(HERMES + "\nDone.").text == "\nDone."


def test_a_thought_in_the_text_is_given_as_it_is():
    text = "<think>I should not call.</think>Hello."
    assert read(text).text == text


def test_a_call_that_only_repeats_a_result_is_text():
    assert read(HERMES, results=[f"The page says: {HERMES}"]) == Answer(HERMES, [], 0)


def test_a_long_call_that_repeats_a_result_is_text():
    written = FORMATS[0].write("write", {"path": "a.txt", "content": LONG})
    assert read(written, results=[f"The page says: {written}"]).calls == []


def test_a_call_that_was_cut_off_is_text():
    written = HERMES[:40]
    assert read(written) == Answer(written, [], 0)


def test_a_long_call_that_was_cut_off_stays_open_so_that_no_client_runs_it():
    written = FORMATS[0].write("write", {"path": "a.txt", "content": LONG})[:-100]
    ((name, arguments),) = read(written).calls
    assert name == "write"
    assert isinstance(arguments, str)


def test_a_call_of_a_tool_that_is_not_offered_is_text():
    text = HERMES.replace("get_weather", "launch_rocket")
    assert read(text) == Answer(text, [], 0)


def test_without_tools_each_marked_call_counts_as_vllm_s_own_parsers_have_it():
    assert read(HERMES, tools=[]).calls == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_calls_that_a_grammar_forced_are_read_without_marks(size):
    calls = [{"name": "get_weather", "parameters": {"city": city}} for city in ("Oslo", "Rome")]
    answer = read(json.dumps(calls), size, forced="")
    assert answer == Answer("", [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})], 2)


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_the_arguments_of_a_named_tool_are_read_without_marks(size):
    answer = read('{"city": "Oslo"}', size, forced="get_weather")
    assert answer == Answer("", [("get_weather", {"city": "Oslo"})], 1)


def test_a_forced_call_that_no_grammar_held_is_read_in_its_format():
    assert read(HERMES, forced="").calls == [("get_weather", {"city": "Oslo"})]


FORCED = '[{"name": "get_weather", "parameters": {"city": "Oslo"}}'


@check_each(size=[1, 7, 1_000_000], streams=[True, False])
def test_of_a_forced_list_that_was_cut_off_the_whole_calls_are_given_and_the_rest_is_text(size, streams):
    answer = read(FORCED + ', {"name": "get_wea', size, forced="", streams_arguments=streams)
    assert answer == Answer(', {"name": "get_wea', [("get_weather", {"city": "Oslo"})], 1)
    assert read(FORCED + ", ", size, forced="", streams_arguments=streams).text == ""


@check_each(
    case=[
        ("get_weather", '{"city": "Os'),
        ("get_weather", '{"city": "Os\\'),
        ("get_weather", '{"town": 3}'),
        ("", FORCED[:-5]),
        ("", FORCED.replace("get_weather", "launch_rocket") + "]"),
        ("", "["),
        ("", "[]"),
        ("", "\n"),
    ],
    size=[1, 1_000_000],
    streams=[True, False],
)
def test_a_forced_answer_that_is_no_call_is_text_as_it_is(case, size, streams):
    forced, text = case
    assert read(text, size, forced=forced, streams_arguments=streams) == Answer(text, [], 0)


def test_a_forced_call_is_given_before_the_next_one_ends():
    assert read(FORCED + ", {", 1, forced="", is_closed=False).calls == [("get_weather", {"city": "Oslo"})]


def test_of_forced_calls_that_are_long_the_one_that_was_cut_off_stays_open():
    calls = json.dumps([{"name": "write", "parameters": {"path": "a.txt", "content": LONG}}] * 2)
    whole, (name, arguments) = read(calls[:-100], forced="").calls
    assert whole == ("write", {"path": "a.txt", "content": LONG})
    assert name == "write"
    assert isinstance(arguments, str)


@check_each(size=[1, 1_000_000])
def test_no_blank_comes_before_a_forced_call(size):
    answer = read('\n {"city": "Oslo"}\n', size, forced="get_weather")
    assert answer == Answer("", [("get_weather", {"city": "Oslo"})], 1)


def test_text_behind_a_forced_call_is_given():
    assert read(FORCED + "] Done.", forced="").text == "] Done."
