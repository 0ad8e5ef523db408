"""Broken JSON, Python and JavaScript literals: their values, the repairs that are noted, and what is refused."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.parsing.decode.json_repair import RepairReader, read_whole
from src.parsing.decode.nodes import CallNode, Source, UnreadableValue, parse_strict
from tests.each import check_rows


def read(text):
    reader = RepairReader(text)
    return reader.read_value(), tuple(reader.repairs)


REPAIRS = {
    "single quotes": ("{'a': 'b'}", {"a": "b"}),
    "mixed quotes": ("""{"a": 'b', 'c': "d"}""", {"a": "b", "c": "d"}),
    "python literals": ('{"a": True, "b": False, "c": None}', {"a": True, "b": False, "c": None}),
    "unquoted keys": ("{a: 1, b_c: 2}", {"a": 1, "b_c": 2}),
    "trailing commas": ('{"a": [1, 2,],}', {"a": [1, 2]}),
    "comments": ('{"a": 1, // one\n "b": 2 /* two */, "c": 3 # three\n}', {"a": 1, "b": 2, "c": 3}),
    "missing closers": ('{"a": {"b": [1, 2', {"a": {"b": [1, 2]}}),
    "a closer of the wrong kind": ('{"a": [1, 2}', {"a": [1, 2]}),
    "raw newlines and tabs": ('{"a": "x\n\ty"}', {"a": "x\n\ty"}),
    "windows path": ('{"path": "C:\\Users\\new\\table.txt"}', {"path": r"C:\Users\new\table.txt"}),
    "markdown underscores": ('{"get\\_x": "a\\_b"}', {"get_x": "a_b"}),
    "regular expression": ('{"re": "\\d+\\.x"}', {"re": r"\d+\.x"}),
    "smart quotes": ("{“a”: “b”}", {"a": "b"}),
    "special tokens": ('{"a": 1}<|im_end|>', {"a": 1}),
    "gemma's quotes": ('{city:<|"|>Oslo, {x}<|"|>}', {"city": "Oslo, {x}"}),
    "escape tags": ("{city:<escape>Oslo<escape>}", {"city": "Oslo"}),
    "arithmetic": ('{"a": 2*5, "b": 10**3, "c": -(1+2)/4}', {"a": "2*5", "b": "10**3", "c": "-(1+2)/4"}),
    "unquoted text with commas": (
        "{a: San Francisco, CA, b: May 5, 2024, c: 3}",
        {"a": "San Francisco, CA", "b": "May 5, 2024", "c": 3},
    ),
    "tuples": ("(1, 'a')", [1, "a"]),
    "triple quotes": ('{"a": """x "y" z"""}', {"a": 'x "y" z'}),
    "quotes not escaped": ('{"a": "print("x", "y")", "b": 1}', {"a": 'print("x", "y")', "b": 1}),
    "an apostrophe in single quotes": ("{'a': 'it's here', 'b': 1}", {"a": "it's here", "b": 1}),
    "newlines written out between members": ('{\\n"a": 1,\\n"b": 2}', {"a": 1, "b": 2}),
    "underscores in numbers": ("[1_000, 0x1f]", [1000, 31]),
}


@check_rows("text, value", REPAIRS.values())
def test_what_is_broken_is_read_as_it_was_meant(text, value):
    found, _ = read(text)
    assert found == value


@check_rows("name", [name for name in REPAIRS if name not in ("special tokens", "underscores in numbers")])
def test_every_liberty_is_noted(name):
    assert read(REPAIRS[name][0])[1]


keys = st.text(st.characters(categories=["L", "N", "Zs"]), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_characters='"\\<', exclude_categories=["Cs", "Cc"])),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
)


@given(json_values)
def test_the_reader_agrees_with_json_on_what_json_writes(value):
    assert RepairReader(json.dumps(value, ensure_ascii=False)).read_value() == value


@check_rows("text", ['{"a": "x', '{"a":', '{"a": NaN}', "{" * 200, "9" * 5000, ""])
def test_what_is_no_value_is_refused_with_a_sentence(text):
    with pytest.raises(UnreadableValue) as refusal:
        RepairReader(text).read_value()
    assert str(refusal.value).endswith(".")


@given(st.text(alphabet="{}[]()\"',:=\\ab1.#/*<|>\n"))
def test_no_text_raises_anything_else(text):
    with contextlib.suppress(UnreadableValue):
        RepairReader(text).read_value()


@check_rows(
    "text",
    [
        '{"a": 1, "a": 2}',
        "{'a': [1], 'a': [2],}",
        "f(a=1, a=2)",
        '{"b": {"a": "x\ny", "a": "z"}}',
        '{"a": "x", "a": "x"}',
        "f(a=1, a=1)",
        "{'a': 1, 'a': 1}",
    ],
)
def test_of_a_key_that_stands_twice_no_value_is_chosen(text):
    with pytest.raises(UnreadableValue, match="The key 'a' stands twice"):
        RepairReader(text).read_value()


def test_a_call_is_read_with_its_arguments_and_its_source():
    call, _ = read("f(1, a='x', b=[g(2)])")
    assert isinstance(call, CallNode)
    assert (call.name, call.positional, call.keywords["a"], call.source) == ("f", [1], "x", "f(1, a='x', b=[g(2)])")


def test_a_bare_word_is_source_text_and_no_string():
    value, _ = read('{"city": Oslo}')
    assert isinstance(value["city"], Source)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"path": "a.js", "content": "let x = "b";\nreturn x;\n"}', 'let x = "b";\nreturn x;\n'),
        ('{"content": "x = "b"  # why\ny = "c"", "path": "a.py"}', 'x = "b"  # why\ny = "c"'),
    ],
)
def test_a_string_with_quotes_that_were_not_escaped_is_read_to_its_end(text, content):
    value, _ = read(text)
    assert (set(value), value["content"]) == ({"path", "content"}, content)


@pytest.mark.parametrize("command", ["python -c \"print(f(x, sep='\\\\,'))\"", "echo 'a' 'b'", "git commit -m 'x, y'"])
def test_a_quote_in_an_argument_of_a_call_is_followed_by_more_than_closers(command):
    value, _ = read(f"[f(a='{command}'), g(1)]")
    assert [call.keywords.get("a") for call in value] == [command.replace("\\\\", "\\"), None]


def test_a_comma_may_be_missing_before_a_key_in_quotes():
    assert read('{"a": 1 "b": 2.5 "c": "x" "d": true}')[0] == {"a": 1, "b": 2.5, "c": "x", "d": True}


def test_an_object_is_not_read_without_the_part_that_makes_no_sense():
    with pytest.raises(UnreadableValue, match="neither a key nor its value"):
        read('{"a": ' + "(" * 50 + "1" + ")" * 50 + "*2}")


def test_strict_is_json_without_its_constants():
    assert parse_strict('{"a": 1} rest') == ({"a": 1}, 8)
    with pytest.raises(ValueError, match="not a JSON value"):
        parse_strict("NaN")


@given(json_values, st.sampled_from([("", ",}"), (" // note\n", "}"), ("", ""), ("'x': 1, ", "}")]))
def test_what_is_whole_in_a_broken_value_is_read_as_json_reads_it(value, broken):
    before, end = broken
    read = RepairReader("{" + before + '"a": ' + json.dumps(value, ensure_ascii=False) + end).read_value()
    assert isinstance(read, dict)
    assert read["a"] == value


def test_backslashes_in_a_broken_value_are_not_taken_for_escapes_of_json():
    path = "C:" + chr(92) + "temp" + chr(92) + "new.txt"
    assert RepairReader('{"args": {"path": "' + path + '"}').read_value() == {"args": {"path": path}}


def test_two_slashes_before_a_digit_divide_and_others_begin_a_comment():
    assert RepairReader("f(a=10//3)").read_value().keywords == {"a": "10//3"}
    assert RepairReader('{"a": 10 // 3 of them\n}').read_value() == {"a": 10}


@check_rows(
    "text, reason",
    [
        ("<escape>Oslo", "A string is not closed."),
        ('["' + '" x ' * 3_000, "Quotes inside a string are not escaped."),
        ('{"a", 1: 2}', "Some of it is neither a key nor its value: are the quotes inside a string escaped?"),
        ("[<|", "It cannot be read from '<|' on."),
        ("f(<|x", "It cannot be read from '<|x' on."),
        ("{'a", "A string is not closed."),
    ],
)
def test_a_value_that_cannot_be_read_says_why(text, reason):
    with pytest.raises(UnreadableValue) as refusal:
        RepairReader(text).read_value()
    assert str(refusal.value) == reason


def test_quotes_of_several_characters_keep_or_read_escapes():
    assert read('<|"|>a\\nb<|"|>')[0] == "a\\nb"
    assert read('"""a\\nb"""')[0] == "a\nb"
    assert read("r'a\\nb'")[0] == "a\\nb"


def test_a_comma_before_what_is_no_key_belongs_to_a_bare_value():
    assert read_whole("{at: meet at 10:00, 11:00 tomorrow, who: me}") == {
        "at": "meet at 10:00, 11:00 tomorrow",
        "who": "me",
    }
    assert read_whole("{a: x, b: y}") == {"a": "x", "b": "y"}
