"""Blocks become calls, malformed calls or text."""

from src.parsing import StreamParser, gathered
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.classify import BlockText, CallClassifier, make_id_source
from src.parsing.decode.call_shapes import DecodedBlock, RawCall
from src.types.messages import MalformedCall, ToolCall
from tests.each import check_rows
from tests.parsing.laws import TOOLS, events_of


def make_classifier(given=(), max_calls=32):
    return CallClassifier(ToolIndex(TOOLS), make_id_source(), given, max_calls, lambda: StreamParser(TOOLS))


def classify(call, *, explicit=True, repairs=(), after_text=False, classifier=None, raw="raw"):
    block = BlockText(raw, "text", explicit, after_text=after_text)
    classification = (classifier or make_classifier()).classify(DecodedBlock([call], repairs), block)
    return classification[0] if classification else None


def test_a_call_says_what_was_repaired_in_it_in_its_name_and_in_its_arguments():
    call = classify(RawCall("functions.get_weather:0", {"city": "Oslo", "days": "3"}, []), repairs=("quotes",))
    assert call == ToolCall(
        "000000001", "get_weather", {"city": "Oslo", "days": 3}, "text", ("quotes", "name", "days string to integer")
    )


def test_what_asks_by_name_and_does_not_fit_is_malformed_and_says_why():
    classification = classify(RawCall("get_weather", {}, []))
    assert classification == MalformedCall(
        "000000001", "get_weather", "raw", "get_weather: the required parameter 'city' (string) is missing.", "text"
    )


def test_what_merely_looks_like_a_call_and_does_not_fit_is_text():
    assert classify(RawCall("get_weather", {}, []), explicit=False) is None
    assert classify(RawCall("unknown", {"city": "Oslo"}, []), explicit=False) is None


def test_what_looks_like_a_call_made_before_is_text_after_text_and_a_call_otherwise():
    classifier = make_classifier()
    call = RawCall("read", {"path": "a"}, [])
    assert classify(call, classifier=classifier)
    assert classify(call, explicit=False, after_text=True, classifier=classifier) is None
    assert classify(call, explicit=False, after_text=False, classifier=classifier)


def test_a_reserved_id_is_the_next_call_s():
    classifier = make_classifier()
    reserved = classifier.reserve_id()
    assert classify(RawCall("read", {}, []), classifier=classifier).id == reserved
    assert classify(RawCall("read", {}, []), classifier=classifier).id != reserved


def test_beyond_the_limit_the_classifier_has_overflowed():
    classifier = make_classifier(max_calls=1)
    call = RawCall("read", {"path": "a"}, [])
    assert isinstance(classify(call, classifier=classifier), ToolCall)
    assert not classifier.has_overflowed
    assert isinstance(classify(call, classifier=classifier), MalformedCall)
    assert classifier.has_overflowed


def test_ids_are_nine_digits_and_differ():
    new_id = make_id_source()
    ids = [new_id() for _ in range(5_000)]
    assert len(set(ids)) == len(ids)
    assert all(len(each) == 9 and each.isascii() and each.isalnum() for each in ids)


def test_two_sources_give_the_same_ids():
    assert make_id_source()() == make_id_source()()


@check_rows(
    "lead",
    [
        "Use it like this:\n\n",
        "For example:\n",
        "It looks like this:\n```python\n",
        "Never run this: ",
        "Usage: ",
    ],
)
def test_a_call_that_prose_presents_as_an_example_is_guessed(lead):
    for call in ('get_weather(city="Oslo")', 'TOOL_CALL: {"name": "get_weather", "args": {"city": "Oslo"}}'):
        text = f"{lead}{call}\n"
        for cuts in ((), range(1, len(text))):
            assert [call.guessed for call in gathered(events_of(text, cuts)).calls] in ([True], [])
    assert gathered(events_of(f"{lead}{call}\n")).calls


@check_rows(
    "lead",
    [
        "",
        "```json\n",
        "I'll look at what the file says:\n\n",
        "Let me check the example file.\n",
        "The README says so. Now the weather:\n",
        "First I need to see what it contains:\n```tool_code\n",
        "Here is the call:\n",
        "Use it like this: first look.\n\n",
    ],
)
def test_a_call_that_prose_announces_is_not(lead):
    text = f'{lead}TOOL_CALL: {{"name": "get_weather", "args": {{"city": "Oslo"}}}}\n'
    for cuts in ((), range(1, len(text))):
        assert [call.guessed for call in gathered(events_of(text, cuts)).calls] == [False]


def test_a_call_directly_after_an_example_is_one_too_but_not_one_after_more_text():
    call = 'TOOL_CALL: {"name": "get_weather", "args": {"city": "%s"}}'
    text = f"For example:\n{call % 'Oslo'}\n{call % 'Rome'}\nNow really.\n{call % 'Bonn'}"
    assert [call.guessed for call in gathered(events_of(text)).calls] == [True, True, False]


@check_rows(
    "text, guessed",
    [
        ('get_weather("Oslo")', True),
        ('[get_weather({"city": "Oslo"})]', False),
        ('Get_Weather(city="Oslo")', True),
        ('functions.get_weather(city="Oslo")', False),
        ('get\\_weather(city="Oslo")', False),
        ('<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Oslo"}', False),
        ("[get_weather(city=Oslo)]", True),
        ('TOOL_CALL: {"name": "get_weather", "args": {"city": "a "b" c"}}', True),
    ],
)
def test_values_without_names_a_changed_name_and_lossy_repairs_are_guesses(text, guessed):
    assert [call.guessed for call in gathered(events_of(text)).calls] == [guessed]


@check_rows(
    "text",
    [
        "The parser looks for `<tool_call>{broken}</tool_call>`.",
        'It writes "TOOL_CALL: {" + text and so on.',
        'In the middle <tool_call>{"name": "other_tool", "arguments": {}}</tool_call> of a sentence.',
        'Write it like this:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
        "The template:\n```jinja\n{%- if tools %}\n<tool_call>{{ call | tojson }}\n{%- endif %}\n```\n",
        'In docs <tool_call>\n{"name": "tool-name-1", "arguments": {}}\n</tool_call> is a call.',
    ],
)
def test_a_block_that_cannot_be_read_is_text_where_it_stands_as_a_mention(text):
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert (found.content, found.calls, found.malformed) == (text, (), ())


@check_rows(
    "text",
    [
        'Now <tool_call>{"name": "read", "arguments": {"path": }</tool_call>',
        'Now TOOL_CALL: {"name": "raed", "args": {}}',
        '<tool_call>\n{"name": "other_tool", "arguments": {}}\n</tool_call>',
        'TOOL_CALL: {"path": "a.txt"}',
        'TOOL_CALL: {"name": "read", "args": {"path": "{name} {% if %}"',
    ],
)
def test_a_block_that_cannot_be_read_is_malformed_where_it_stands_as_a_call(text):
    assert len(gathered(events_of(text)).malformed) == 1


def test_a_call_in_quotes_is_guessed():
    text = 'It prints "TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}"'
    assert [call.guessed for call in gathered(events_of(text)).calls] == [True]
