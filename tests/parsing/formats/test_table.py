"""Every row of the table is found, whole and split at every character, and none of it is shown as text."""

import pytest

from src.parsing import Malformed, ParsedCall, StreamParser, extract_tool_calls, gathered
from src.parsing.formats.table import FORMATS, list_parsers, mentions_call
from src.types.messages import ToolDefinition
from tests.each import check_each, check_rows
from tests.parsing import format_table
from tests.parsing.laws import events_of, join_all, join_text, summarize
from tests.thorough import sample

LEAD = "Let me look.\n"


@check_each(row=FORMATS)
def test_the_example_is_one_call_of_its_format(row):
    events = events_of(LEAD + row.example)
    assert [(event.call.name, event.call.arguments) for event in events if isinstance(event, ParsedCall)] == [
        ("get_weather", {"city": "Oslo"})
    ]
    assert [event.call.origin for event in events if isinstance(event, ParsedCall)] == [row.call_origin]
    assert not [event for event in events if isinstance(event, Malformed)]


@check_each(row=FORMATS)
def test_nothing_of_the_example_is_shown(row):
    assert join_text(events_of(LEAD + row.example)).rstrip("\n") == LEAD.rstrip("\n")


@pytest.mark.thorough
@check_each(row=FORMATS)
def test_the_example_split_at_any_character_is_the_same_call(row):
    text = LEAD + row.example
    whole = summarize(events_of(text))
    for cut in sample(range(1, len(text)), 6, start=FORMATS.index(row)):
        assert summarize(events_of(text, [cut])) == whole, text[:cut]


@check_each(row=FORMATS)
def test_two_examples_one_character_at_a_time_are_the_same_calls(row):
    text = f"{row.example}\n{row.example}\nDone."
    events = events_of(text, range(1, len(text)))
    assert summarize(events) == summarize(events_of(text))
    assert join_all(events) == text


@pytest.mark.thorough
@check_each(row=FORMATS)
def test_the_example_cut_off_anywhere_by_max_tokens_runs_nothing_half(row):
    for cut in sample(range(1, len(row.example)), 6, start=FORMATS.index(row)):
        for event in events_of(row.example[:cut], truncated=True):
            if isinstance(event, ParsedCall):
                assert event.call.arguments == {"city": "Oslo"}


def test_names_are_unique_and_shared_origins_exist():
    names = [row.name for row in FORMATS]
    assert len(set(names)) == len(names)
    assert {row.call_origin for row in FORMATS} <= set(names)


def test_further_markers_of_a_row_repeat_no_marker_of_any_row():
    for more, others in (
        ([marker for row in FORMATS for marker in row.more_openers], {row.opener for row in FORMATS}),
        ([marker for row in FORMATS for marker in row.more_closers], {row.closer for row in FORMATS}),
    ):
        markers = [marker.casefold() for marker in (*more, *others)]
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


@check_rows(
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
        '<tool_call>{"name": "get_weather", "arguments": {"arguments": {"city": "Oslo"}}}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}}</tool_call>',
        '[Calling tool="get_weather" city="Oslo"]',
        "<tool>get_weather</tool><tool_input>Oslo</tool_input>",
        "<tool>get_weather</tool>\n<tool_input>\n<city>Oslo</city>\n</tool_input>",
        "<tool: get_weather>\nOslo\n</tool>",
        "```tool\nget_weather\nBEGIN_ARG: city\nOslo\nEND_ARG\n```",
        '```tool\nget_weather\nBEGIN_ARG: city\n"Oslo"\nEND_ARG\n```',
        ' to=functions.get_weather<|channel|>analysis<|message|>{"city": "Oslo"}<|call|>',
        'to=functions.get_weather<|channel|>commentary<|message|>{"city": "Oslo"}<|call|>',
        '<|start|>\n<|channel|>commentary to=functions.get_weather\n<|message|>{"city": "Oslo"}<|call|>',
        '<|tool▁call▁begin|>function<|tool▁sep|>get_weather\n```json\n{"city": "Oslo"}\n```<|tool▁call▁end|>',
        "<ifm|tool_calls><ifm|tool_call>get_weather\n<ifm|arg_key>city</ifm|arg_key>\n<ifm|arg_type>string</ifm|arg_type>"
        "\n<ifm|arg_value>Oslo</ifm|arg_value>\n</ifm|tool_call></ifm|tool_calls>",
        '<｜DSML｜r:tool_calls>\n<｜DSML｜r:invoke name="get_weather">\n<｜DSML｜r:parameter name="city" string="true">'
        "Oslo</｜DSML｜r:parameter>\n</｜DSML｜r:invoke>\n</｜DSML｜r:tool_calls>",
        '<tool_call>\n<function=get_weather>\n<parameter=city>\n "Oslo"\n</parameter>\n</function>\n</tool_call>',
        'get_weather(params_city="Oslo")',
        "[{'get_weather(city=\"Oslo\")'}]",
        '```python\nreturn get_weather(city="Oslo")\n```',
    ],
)
def test_what_models_vary_in_a_format_is_the_same_call(text):
    whole = summarize(events_of(text))
    assert [event.call.arguments for event in events_of(text) if isinstance(event, ParsedCall)] == [{"city": "Oslo"}]
    assert summarize(events_of(text, range(1, len(text)))) == whole
    assert not join_text(events_of(text)).strip()


PAY = ToolDefinition(
    "pay",
    "Pay.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "amount": {"type": "number"},
            "rates": {"type": "array", "items": {"type": "number"}},
            "note": {"type": ["string", "null"]},
        },
    },
)


@check_rows(
    "text, arguments, guessed",
    [
        ("pay(to=Paris, France, amount=3)", {"to": "Paris, France", "amount": 3}, True),
        ("pay(rates=[5, 3])", {"rates": [5, 3]}, False),
        ("<tool_call>pay<arg_key>note</arg_key><arg_value>null</arg_value></tool_call>", {"note": None}, False),
        ('{"name": "pay", "arguments": {"note": "null"}}', {"note": "null"}, False),
        ("[pay(to='the 'old' /srv house')]", {"to": "the 'old' /srv house"}, True),
    ],
)
def test_values_as_models_write_them_are_those_of_the_schema(text, arguments, guessed):
    assert [(call.arguments, call.guessed) for call in extract_tool_calls(text, [PAY]).calls] == [(arguments, guessed)]


@check_rows(
    "text, shown",
    [
        ('So.<｜tool▁call▁begin｜>bad{"a": "b"}<｜tool▁call▁end｜>', "So."),
        ('So: {"name": "pay", "arguments": {', "So: "),
        ('<|python_tag|>{"name": "pay", "parameters": {}};{"name": "pay", "parameters": {"to": "a"}}', ""),
        (
            'Before.\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="pay">\n'
            "</steptml:invoke><｜tool_call_end｜>After.",
            "Before.\nAfter.",
        ),
        ("[unused16]a[unused17]Hi[unused10]", "Hi"),
        ("<|reasoning_thinking_start|>a<|reasoning_thinking_end|>Hi", "Hi"),
        ("Hi<|im_end|><|endoftext|>", "Hi"),
        ("<|im_start|>assistant/think\na<|im_end|>\n<|im_start|>assistant\nHi<|im_end|><|endofturn|>", "Hi"),
    ],
)
def test_markers_and_broken_calls_are_not_shown(text, shown):
    parser = StreamParser([PAY])
    assert extract_tool_calls(text, [PAY]).content == shown
    assert gathered([event for character in text for event in parser.feed(character)] + parser.close()).content == shown


KINDS = {"text": "a", "count": 3, "exact": True, "rest": None, "items": ["a"], "options": {"depth": 2}}
WITH_KINDS = ToolDefinition(
    "search",
    "Search.",
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "exact": {"type": "boolean"},
            "rest": {"type": ["string", "null"]},
            "items": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object", "properties": {"depth": {"type": "integer"}}},
        },
    },
)


@check_each(row=FORMATS)
def test_a_value_of_any_type_is_written_so_that_it_is_read_again(row):
    for name, value in KINDS.items():
        text = row.write("search", {"text": "b", name: value})
        found = extract_tool_calls(text, [WITH_KINDS])
        assert [(call.arguments, call.guessed) for call in found.calls] == [({"text": "b", name: value}, False)], text


DECLARING = [row for row in FORMATS if row.syntax and row.syntax.declares_type]
OPEN = {"any type": {}, "several types": {"type": ["string", "number", "boolean", "null", "array", "object"]}}


def read_value(text, schema):
    """The value of the call's one argument, whole and in pieces, and whether the call is guessed."""
    tool = ToolDefinition("search", "Search.", {"type": "object", "properties": {"value": schema}})
    parser = StreamParser([tool])
    pieces = gathered([event for character in text for event in parser.feed(character)] + parser.close())
    assert pieces == extract_tool_calls(text, [tool])
    (call,) = pieces.calls
    return call.arguments["value"], call.guessed


@check_each(row=DECLARING, schema=OPEN.values(), value=["5", "true", "null", "[1]", 5, 1.5, True, None, [1], {"a": 1}])
def test_where_the_schema_leaves_it_open_a_value_has_the_type_that_its_tag_declares(row, schema, value):
    read, guessed = read_value(row.write("search", {"value": value}), schema)
    assert (read, type(read), guessed) == (value, type(value), False)


@check_each(row=DECLARING)
def test_a_schema_decides_against_the_type_that_a_tag_declares(row):
    as_string, as_number = (row.write("search", {"value": value}) for value in ("007", 7))
    assert read_value(as_string, {"type": "integer"}) == (7, False)
    assert read_value(as_number.replace("7", "007"), {"type": "string"}) == ("007", False)


@check_rows("declared, value", [("array[integer]", [5]), ("Filter", "[5]"), ("any", "[5]"), ("string|null", "[5]")])
def test_of_a_declared_type_the_first_word_counts_if_it_is_a_type(declared, value):
    (row,) = (row for row in DECLARING if row.name == "k2_horizon_typed")
    text = row.write("search", {"value": "[5]"}).replace("string", declared)
    assert read_value(text, {}) == (value, False)
