"""Every row of the table is found, whole and split at every character, and none of it is shown as text."""

import pytest

from src.parsing import Malformed, ParsedCall
from src.parsing.formats.table import FORMATS, MORE_CLOSERS, MORE_OPENERS, list_parsers, mentions_call
from tests.parsing import format_table
from tests.parsing.laws import events_of, join_all, join_text, summarize

ROWS = pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])
LEAD = "Let me look.\n"


@ROWS
def test_the_example_is_one_call_of_its_format(row):
    events = events_of(LEAD + row.example)
    assert [(event.call.name, event.call.arguments) for event in events if isinstance(event, ParsedCall)] == [
        ("get_weather", {"city": "Oslo"})
    ]
    assert [event.call.origin for event in events if isinstance(event, ParsedCall)] == [row.call_origin]
    assert not [event for event in events if isinstance(event, Malformed)]


@ROWS
def test_nothing_of_the_example_is_shown(row):
    assert join_text(events_of(LEAD + row.example)).rstrip("\n") == LEAD.rstrip("\n")


@ROWS
def test_the_example_split_at_any_character_is_the_same_call(row):
    text = LEAD + row.example
    whole = summarize(events_of(text))
    for cut in range(1, len(text)):
        assert summarize(events_of(text, [cut])) == whole, text[:cut]


@ROWS
def test_the_example_one_character_at_a_time_is_the_same_call(row):
    text = LEAD + row.example
    events = events_of(text, range(1, len(text)))
    assert summarize(events) == summarize(events_of(text))
    assert join_all(events) == text


@ROWS
def test_the_example_cut_off_anywhere_by_max_tokens_runs_nothing_half(row):
    for cut in range(1, len(row.example)):
        for event in events_of(row.example[:cut], truncated=True):
            if isinstance(event, ParsedCall):
                assert event.call.arguments == {"city": "Oslo"}


def test_all_sixty_three_shapes_of_the_catalogue_are_there():
    assert {row.number for row in FORMATS} >= set(range(1, 64))


def test_names_are_unique_and_shared_origins_exist():
    names = [row.name for row in FORMATS]
    assert len(set(names)) == len(names)
    assert {row.call_origin for row in FORMATS} <= set(names)


def test_further_markers_repeat_no_marker_of_a_row():
    for more, rows in (
        (MORE_OPENERS, [row.opener for row in FORMATS]),
        (MORE_CLOSERS, [row.closer for row in FORMATS]),
    ):
        markers = [marker.casefold() for marker in (*more, *{row for row in rows if row})]
        assert [marker for marker in more if markers.count(marker.casefold()) > 1] == []


def test_the_document_has_the_table_as_it_is():
    assert format_table.documented() == format_table.table()


def test_a_text_that_quotes_a_marker_mentions_a_call():
    assert mentions_call("What does <tool_call> mean?")
    assert mentions_call("Write TOOL_CALL: yourself.")
    assert not mentions_call("Which tool calls are there?")


def test_the_parsers_of_an_origin_are_those_of_all_its_rows():
    assert list_parsers("hermes") == ["hermes", "qwen3_json", "granite4", "ernie45"]
    assert list_parsers("anthropic") == []


@pytest.mark.parametrize(
    "text",
    [
        '<|start|>assistant to=functions.get_weather<|channel|>analysis<|message|>{"city": "Oslo"}<|call|>',
        '<function name="get_weather"><param name="city"><![CDATA[Oslo]]></param></function>',
        '<functionname="get_weather"><paramname="city">Oslo</param></function>',
        "```tool\ntool_name: get_weather\nbegin_arg: city\nOslo\nend_arg\n```",
        "<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n"
        "<arg_value:opensource>Oslo</arg_value:opensource><end_of_tool_call:opensource>",
        "<tool_call>get_weather city=Oslo</tool_call>",
        '<tool_call>{"name": "get_weather", "arguments": {"input": {"city": "Oslo"}}}</tool_call>',
    ],
)
def test_what_models_vary_in_a_format_is_the_same_call(text):
    whole = summarize(events_of(text))
    assert [event.call.arguments for event in events_of(text) if isinstance(event, ParsedCall)] == [{"city": "Oslo"}]
    assert summarize(events_of(text, range(1, len(text)))) == whole
