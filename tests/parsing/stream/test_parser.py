"""The stream parser: what is shown, what is a call, and the laws that hold for any text and any chunking."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from src.parsing import Cut, Malformed, ParsedCall, StreamParser, extract_tool_calls, gathered
from src.types.events import TextDelta
from src.types.messages import ToolDefinition
from tests.each import check_each, check_rows
from tests.parsing.laws import OPENERS, PIECES, READ, TOOLS, events_of, join_all, join_text, summarize
from tests.thorough import sample

CUT_CLOSER = (
    "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>\nObservation: </arg_value> x"
)
CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
BLOCKS = {
    "plain": CALL,
    "nested braces": 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt", "o": {"p": {"q": {}}}}}',
    "braces and quotes in strings": r'TOOL_CALL: {"name": "read", "args": {"path": "}}{\" \\"}}',
    "several lines": 'TOOL_CALL: {\n  "name": "read",\n  "args": {\n    "path": "a.txt"\n  }\n}',
    "in a fence": f"```json\n{CALL}\n```",
    "before a fence": CALL.replace(": {", ":\n```json\n{", 1) + "\n```",
    "bold, before a fence": CALL.replace("TOOL_CALL: ", "**Tool Call:**\n```\n") + "\n```",
    "other case and hyphen": CALL.replace("TOOL_CALL", "tool-call"),
    "bold": CALL.replace("TOOL_CALL:", "**TOOL_CALL:**"),
    "without a colon": CALL.replace(":", "", 1),
    "single quotes": CALL.replace('"', "'"),
}


def list_calls(events):
    return [(event.call.name, event.call.arguments) for event in events if isinstance(event, ParsedCall)]


def list_malformed(events):
    return [event.malformed for event in events if isinstance(event, Malformed)]


class TestBlocks:
    @check_each(block=BLOCKS.values(), size=[1, 2, 3, 7, 10_000])
    def test_a_block_is_one_call_and_only_the_prose_around_it_is_shown(self, block, size):
        text = f"Let me look.\n{block}\nDone."
        events = events_of(text, range(size, len(text), size))
        assert join_text(events) == "Let me look.\n\nDone."
        assert [name for name, _ in list_calls(events)] == ["read"]

    def test_several_blocks_are_several_calls(self):
        events = events_of(f"{CALL}\n{CALL.replace('a.txt', 'b.txt')}")
        assert list_calls(events) == [("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})]

    def test_several_objects_in_one_block_are_several_calls(self):
        objects = '{"name": "read", "args": {"path": "a"}}\n{"name": "read", "args": {"path": "b"}}'
        assert [arguments["path"] for _, arguments in list_calls(events_of("TOOL_CALL: " + objects))] == ["a", "b"]

    def test_a_list_of_calls_is_several_calls(self):
        text = 'TOOL_CALL: [{"name": "read", "args": {"path": "a"}}, {"name": "read", "args": {"path": "b"}}]'
        assert len(list_calls(events_of(text))) == 2

    def test_text_is_shown_as_soon_as_it_can_belong_to_no_block(self):
        parser = StreamParser(TOOLS)
        assert parser.feed("Hello ") == [TextDelta("Hello ")]
        assert parser.feed("world. ") == [TextDelta("world. ")]

    def test_what_may_become_a_block_is_held_back_and_no_more(self):
        assert StreamParser(TOOLS).feed("I will now TOOL_CA") == [TextDelta("I will now ")]
        assert StreamParser(TOOLS).feed("see <tool_c") == [TextDelta("see ")]


class TestNothingImagined:
    @check_rows(
        "text",
        [
            "The tag <tool_call> starts a call and </tool_call> ends it.",
            'Write it like this: TOOL_CALL: {"name": "tool_name", "args": {"parameter": "value"}}',
            'Write `<tool_call>{"name": "get_weather", ...}</tool_call>` for that.',
            "You could use get_weather(city='Oslo') to find out.",
            'Your file holds {"name": "John", "city": "Oslo"}.',
            "```python\ndef f():\n    return 1\n\nread(path='a')\n```",
            "A {maybe} in braces, [a link](http://x), f(x) and 1 < 2.",
            "file.read(path='a')",
        ],
    )
    def test_what_explains_or_quotes_a_call_is_shown_and_runs_nothing(self, text):
        events = events_of(text)
        assert (list_calls(events), join_text(events)) == ([], text)

    def test_a_result_made_up_after_a_call_is_cut_with_all_that_follows(self):
        events = events_of(f"{CALL}\nObservation: the file says hi\nTOOL_CALL: {{}}")
        assert len(list_calls(events)) == 1
        assert join_text(events) == "\n"
        assert isinstance(events[-1], Cut)

    def test_a_call_that_repeats_what_the_model_was_given_is_an_echo(self):
        assert extract_tool_calls(CALL, TOOLS, given=[f"The file says:\n{CALL}\n"]).calls[0].echo
        other_blanks = CALL.replace("\n", "\r\n").replace(": ", ":  ")
        assert extract_tool_calls(CALL, TOOLS, given=[f"The file says:\r\n{other_blanks}"]).calls[0].echo
        assert not extract_tool_calls(CALL, TOOLS, given=["The file is empty, and long enough."]).calls[0].echo

    def test_an_explanation_well_after_the_calls_holds_no_more_of_them(self):
        text = (
            "[read(path='a')]\n\n"
            + "This reads the file, as was asked for, and then some more of it. " * 2
            + "\nread(path='b')"
        )
        assert list_calls(events_of(text)) == [("read", {"path": "a"})]

    def test_calls_beyond_the_limit_are_refused_at_once(self):
        events = events_of("".join(CALL.replace("a.txt", f"{n}.txt") + "\n" for n in range(40)))
        assert len(list_calls(events)) == 32
        assert [each.reason for each in list_malformed(events)] == [
            "More than 32 calls in one answer: nothing from here on was read."
        ]

    def test_blocks_that_cannot_be_read_count_as_calls(self):
        events = events_of("<|tool_call|> [" * 100)
        assert len(list_malformed(events)) == 33
        assert list_malformed(events)[-1].reason.startswith("More than 32 calls")

    def test_an_unknown_tool_is_answered_with_the_nearest_names(self):
        event = list_malformed(events_of('TOOL_CALL: {"name": "get_wether", "args": {}}'))[0]
        assert event.reason == "There is no tool named 'get_wether'; on offer: get_weather."


texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=8).map("".join)


@st.composite
def split_texts(draw):
    text = draw(texts)
    return text, sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))


LEADS = ["", "foo-", "$", "x\\", "word", "a ", '{"a": ', "1. ", "\n", "| A | ", "1. As: ", "~~~\n"]
DECORATIONS = ["", "**", "`", "```", "@", '"', "to=", "call:", "TOOL_CALL: ", "Tool name: ", "print(", "<tool_call>"]
NAMESPACES = ["functions", "tools", "tool_code", "default_api", "assistant", "my"]
JOINTS = [".", "/", ":", "::", "__", "..", "-", " ", ""]
NAMES = ["get_weather", "read", "getWeather", "reader", "get_weathers"]
SUFFIXES = ["", ":0", "()", ".run", ".call", "(call_0)", ".r"]
BODIES = [
    ' {"path": "a"}', '(path="a")', '\n{"city": "Oslo"}', " {", ': {"path": "a"}', '[ARGS]{"path": "a"}',
    ':\n```json\n{"path": "a"}\n```', '<|message|>{"path": "a"}', '\nAction Input: {"path": "a"}',
]  # fmt: skip
ENDS = ["", ")", "**", "`", "\n```", " and so on.", "</tool_call>", ".", " |", "\n2. Or", "\n~~~\n"]


@st.composite
def split_names(draw):
    """Texts about names with namespaces, and where they are cut."""
    pick = lambda choices: draw(st.sampled_from(choices))  # noqa: E731
    calls = []
    for _ in range(draw(st.integers(1, 3))):
        spaces = "".join(pick(NAMESPACES) + pick(JOINTS) for _ in range(draw(st.integers(0, 2))))
        calls.append(
            pick(LEADS) + pick(DECORATIONS) + spaces + pick(NAMES) + pick(SUFFIXES) + pick(BODIES) + pick(ENDS)
        )
    text = "".join(calls)
    return text, sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))


class TestLaws:
    @given(split_names())
    @example(('tool/get_weather {"city": "Oslo"}', [6]))
    @example(('foo-to=functions.read<|message|>{"path": "a"}', [5]))
    @example(('foo-functions.read: {"path": "a"}', [3]))
    @example(('x\\functions:getWeather:0 {"city": "Oslo"}', [1]))
    @example(('```tools.read: {"path": "a"}', [15]))
    @example(('{"a": `read(call_0):\n```json\n{"path": "a"}\n```)', [12]))
    def test_any_chunking_of_names_with_namespaces_gives_the_same_events(self, chunks):
        text, cuts = chunks
        whole = summarize(events_of(text))
        assert summarize(events_of(text, cuts)) == whole
        assert summarize(events_of(text, range(len(text)))) == whole

    @given(split_texts(), st.booleans())
    @example(("n:get_weather(city='Oslo')", [2]), False)
    @example(("tool_call{<", [10]), False)
    @example(('to=ta\x1d\x1d{"name": "read"}', [7]), True)
    @example(("read{{<tool_call>", [6]), False)
    @example(("-TOOL_NAME:", [10]), False)
    @example(("```o =read('a')", [6]), False)
    @example(("```print(read('a'))", [10]), False)
    @example(('5function.read{"path":a}', [1]), False)
    @example(('read\n```json\n{"path": "a"}', [13]), False)
    @example(('to=tagsf{"name": "read"}', [4]), True)
    @example(('```json\nfunctions.read:0tool_name[read(path="a")]', [36]), True)
    @example(('`Tool Call: {"tool_calls":', [12]), False)
    @example(('pairs4$get_weather\n{"city": "Oslo"}', [7]), True)
    @example(("TOOL_CALL[unused17]", [11]), False)
    @example((CUT_CLOSER, range(CUT_CLOSER.index(" </"), len(CUT_CLOSER))), False)
    @example(("<function=r\nBEGIN_ARG: y\n<function=o\n", [12]), False)
    @example(("<tool><request>r</request><city></city></tool><f>\n]<]minimax[>[<invoke name=e", [52]), False)
    def test_any_chunking_gives_the_same_events(self, chunks, truncated):
        text, cuts = chunks
        assert summarize(events_of(text, cuts, truncated=truncated)) == summarize(events_of(text, truncated=truncated))

    @check_rows("start", ["x = ", "return ", "print(", "await ", "call: ", "call "])
    @check_rows("call", ['read(path="a")', 'Action: read\nAction Input: {"path": "a"}', "<read><path>a</path></read>"])
    def test_the_word_that_begins_the_line_of_a_call_may_come_in_two_pieces(self, start, call):
        text = start + call
        whole = summarize(events_of(text))
        ends = range(len(start), len(text))
        assert all(summarize(events_of(text, [cut, end])) == whole for cut in range(1, len(start)) for end in ends)

    @given(split_texts())
    def test_text_shown_and_raw_blocks_joined_are_the_input(self, chunks):
        assert join_all(events_of(*chunks)) == chunks[0]

    @given(st.text())
    def test_no_text_raises(self, text):
        extract_tool_calls("TOOL_CALL: {" + text, TOOLS)
        extract_tool_calls("[read(" + text, TOOLS)
        extract_tool_calls("<tool_call><function=read>" + text, TOOLS)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        )
    )
    def test_what_json_accepts_comes_back_exactly_as_json_gives_it(self, value):
        anything = ToolDefinition("keep", "", {"type": "object"})
        body = json.dumps({"name": "keep", "args": {"value": value}})
        call = extract_tool_calls("TOOL_CALL: " + body, [anything]).calls
        assert call[0].arguments == {"value": value}
        assert call[0].repaired == ()


def count_calls(text, chunk):
    """How many Python and C functions are called while `text` is fed in pieces of `chunk` characters.

    Work that grows faster than the text calls more functions: regular expressions and `str.find` among them.
    """
    count = 0

    def count_one(_frame, kind, _function):
        nonlocal count
        count += kind in ("call", "c_call")

    extract_tool_calls(text[:2_000], [READ])  # patterns are compiled when first used, and that is not counted
    parser = StreamParser([READ])
    before = sys.getprofile()
    sys.setprofile(count_one)
    try:
        for start in range(0, len(text), chunk):
            parser.feed(text[start : start + chunk])
        parser.close()
    finally:
        sys.setprofile(before)
    return count


OWN = "TOOL_CALL: "
HOSTILE = {
    **{f"many {character!r}": character for character in '{[<"\\(:`>)]}'},
    "open braces": OWN + "{",
    "markers": OWN,
    "markers with open strings": OWN + '{"a": "',
    "hermes markers": "<tool_call>",
    "hermes blocks": '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>',
    "objects that never end": '{"name": "read", ',
    "python calls that never end": "read(",
    "lists that never end": "[read(",
    "fences": "```json\n{",
    "reasoning": "<think>",
    "names": "read\n",
    "labels": "Action: read\n",
    "tags": "<function=read><parameter=path>",
    "objects that say no call": '{"id": 1,} ',
    "calls in running text": "read(x) y\n",
    "fences never closed": '```json\n{"id":',
    **{f"{opener} alone": opener for opener in OPENERS},
}


class TestLinear:
    @pytest.mark.thorough
    @check_each(unit=sample([*HOSTILE.values()], 2))
    def test_twice_the_hostile_text_takes_at_most_twice_the_calls(self, unit):
        small, large = (count_calls(unit * (size // len(unit)), size) for size in (3_000, 6_000))
        assert large <= 2.2 * small + 2_000

    @check_each(
        opening=["[Calling tool: read", "<|python_tag|>read", "<tool_call>read\n", "read"],
        unit=[" ", "\n\n", "\t", ":", "BEGIN_ARG: a\n", "<arg_key>a</arg_key>", "<|open|>"],
    )
    def test_what_may_stand_after_a_name_is_read_in_one_way_only(self, opening, unit):
        """A pattern that could divide it in many would not come back."""
        assert join_all(events_of(opening + unit * 500)) == opening + unit * 500

    @pytest.mark.parametrize(
        "opening", [OWN + '{"name": "read", "args": {"path": "', "<tool_call>{'name': '", "read(path='"]
    )
    def test_a_long_string_costs_a_bounded_number_of_calls_a_piece(self, opening):
        text = opening + "x" * 4_000
        events_of(text, range(4, len(text), 4))  # patterns are compiled once, and not counted
        assert 0 < count_calls(text, 4) <= 10 * len(text) / 4

    @pytest.mark.parametrize("unit", ['"a":1,', '{"a":', OWN + '{"a": "'])
    def test_short_strings_in_a_broken_body_cost_few_calls_each(self, unit):
        text = OWN + "{" + unit * 1_000
        events_of(text)
        assert 0 < count_calls(text, 100_000) <= 15 * 1_000

    def test_nested_a_hundred_thousand_deep_is_malformed_and_raises_nothing(self):
        assert len(list_malformed(events_of(OWN + '{"a":' * 100_000))) == 1
        assert len(list_malformed(events_of(OWN + "[" * 100_000 + "]" * 100_000))) == 1

    @check_rows("value", ["9" * 5_000, "NaN", "-Infinity", r'"\ud800"'])
    def test_what_no_json_value_can_be_is_malformed(self, value):
        events = events_of(f'TOOL_CALL: {{"name": "read", "args": {{"path": {value}}}}}')
        assert (list_calls(events), len(list_malformed(events))) == ([], 1)


def test_a_whole_answer_is_its_stream_fed_once_and_closed():
    text = f"One.\n{CALL}\nTwo.\nTOOL_CALL: {{\n"
    parser = StreamParser(TOOLS)
    assert extract_tool_calls(text, TOOLS) == gathered(parser.feed(text) + parser.close())


def test_openai_tool_objects_will_do():
    tool = {
        "type": "function",
        "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
    }
    assert len(extract_tool_calls(CALL, [tool]).calls) == 1


def test_ids_come_from_the_caller_where_it_gives_a_source():
    assert extract_tool_calls(CALL, TOOLS, new_id=lambda: "mine").calls[0].id == "mine"


def test_more_calls_are_found_where_more_are_allowed():
    assert len(extract_tool_calls(f"{CALL}\n" * 227, TOOLS, max_calls=1000).calls) == 227


def test_of_more_calls_in_one_block_than_are_allowed_the_first_ones_count():
    block = 'TOOL_CALL: [{"name": "read", "args": {"path": "a"}}, ' + ", ".join(
        f'{{"name": "read", "args": {{"path": "{number}"}}}}' for number in range(4)
    )
    found = extract_tool_calls(block + "]\nBye.", TOOLS, max_calls=3)
    assert [call.arguments["path"] for call in found.calls] == ["a", "0", "1"]
    assert ["More than 3 calls" in call.reason for call in found.malformed] == [True]


def test_without_tools_nothing_merely_looks_like_a_call():
    assert extract_tool_calls("read(path='a')", []).content == "read(path='a')"


SHAPES = {
    "a comment before it in its fence": "```python\n# Read the file.\nread(path='a')\n```",
    "a variable in its fence": "```python\ncontent = read(path='a')\nprint(content)\n```",
    "a list in a variable in its fence": "```python\ncontents = [read(path='a')]\n```",
    "print in its fence": "```tool_code\nprint(read(path='a'))\n```",
    "a name in bold": "**read**(path='a')",
    "a name in backticks": "`read`(path='a')",
    "arguments in a list": 'TOOL_CALL: {"name": "read", "args": [{"path": "a"}]}',
    "keywords in ReAct": "Action: read\nAction Input: path='a'\n",
    "behind thoughts in a channel": '<|channel>thought\nI need it.\n<channel|>call:read{path:<|"|>a<|"|>}',
    "a turn's end behind it": '<|tool_call>call:read{path:<|"|>a<|"|>}<turn|>',
    "words in a marker behind another": '[TOOL_CALL]<tool_call>read path="a"</tool_call>',
    "arguments encoded as a string under the name": '[{"read": "{\\"path\\": \\"a\\"}"}]',
}


@check_rows("text", SHAPES.values())
def test_a_call_in_other_shapes_is_found_whole_and_character_by_character(text):
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert [(call.name, call.arguments) for call in found.calls] == [("read", {"path": "a"})]


@check_rows(
    "text",
    [
        "```python\n# Read the file.\ndef load():\n    return read(path='a')\n```",
        "```python\ntotal = sum([1, 2])\n```",
        "```sh\n# read the file\ncat a\n```",
        "The action: look[a] or Action: find[a]\n",
        "**read**: (see below)",
        "`read` (path) reads a file.",
        "<<function>> is what Gorilla writes.",
        "<readme>see</readme>",
    ],
)
def test_what_only_looks_like_such_a_shape_is_none(text):
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert (found.calls, found.malformed, found.content) == ((), (), text)


def test_a_fence_that_follows_a_backtick_and_an_opener_is_one_in_any_pieces():
    text = "u`functools[```<|END_OF_TURN_TOKEN|>"
    assert join_text(events_of(text)) == text
    assert summarize(events_of(text)) == summarize(events_of(text, range(1, len(text))))


def test_a_backtick_near_the_end_of_a_block_begins_one_in_any_pieces():
    text = '[TOOL_CALL]{][`<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>`'
    assert summarize(events_of(text)) == summarize(events_of(text, range(1, len(text))))
    assert [call.name for call in gathered(events_of(text)).calls] == ["read"]


def test_what_follows_a_marker_without_a_body_is_decided_alike_in_any_pieces():
    text = '[tool_call:```tool_code\nread(path="a")\n```'
    assert summarize(events_of(text)) == summarize(events_of(text, range(1, len(text))))
    assert summarize(events_of("[tool_call:``read(```")) == summarize(events_of("[tool_call:``read(```", (16, 17)))


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALL]{"name": "read"}[/TOOL_CALL] Observation\n',  # a result behind a blank
        '<|begin|>assistantread{"path": "a"}',  # a name directly behind a marker
    ],
)
def test_the_end_of_a_block_begins_a_line_in_any_pieces(text):
    for cut in range(len(text)):
        assert summarize(events_of(text)) == summarize(events_of(text, (cut,)))
