"""The calls in a value, in the many shapes that models write."""

import pytest

from src.parsing.decode.call_shapes import find_calls
from src.parsing.decode.json_repair import RepairReader
from src.parsing.decode.nodes import CallNode
from tests.each import check_rows

WAYS = {
    "name and arguments": '{"name": "f", "arguments": {"a": 1}}',
    "arguments as a string": '{"name": "f", "arguments": "{\\"a\\": 1}"}',
    "arguments encoded twice": '{"name": "f", "arguments": "\\"{\\\\\\"a\\\\\\": 1}\\""}',
    "arguments beside the name": '{"name": "f", "a": 1}',
    "tool and tool_input": '{"tool": "f", "tool_input": {"a": 1}}',
    "action and action_input": '{"action": "f", "action_input": {"a": 1}}',
    "a function object": '{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
    "function_call": '{"function_call": {"name": "f", "arguments": {"a": 1}}}',
    "tool_calls": '{"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\\"a\\": 1}"}}]}',
    "functionCall": '{"functionCall": {"name": "f", "args": {"a": 1}}}',
    "the name as key": '{"f": {"a": 1}}',
    "a list": '[{"name": "f", "arguments": {"a": 1}}]',
    "a name and an object": '["f", {"a": 1}]',
    "a tuple": "[('f', {'a': 1})]",
    "a name and pairs": "['f', a=1]",
    "python": "f(a=1)",
    "python in a list": "[f(a=1)]",
    "python with a quoted name": "['f'(a=1)]",
    "python in strings": "['f(a=1)']",
    "python around it": "print(f(a=1))",
}


def list_calls(text):
    return [
        (call.name, call.arguments) for call in find_calls(RepairReader(text).read_value(), {"f", "g"}.__contains__)
    ]


@check_rows("text", WAYS.values())
def test_each_way_says_the_same_call(text):
    assert list_calls(text) == [("f", {"a": 1})]


def test_several_calls_keep_their_order():
    assert list_calls("[f(a=1), g(b=2)]") == [("f", {"a": 1}), ("g", {"b": 2})]
    assert list_calls('{"f": {"a": 1}, "g": {"b": 2}}') == [("f", {"a": 1}), ("g", {"b": 2})]


def test_several_calls_in_one_string_keep_their_order():
    assert list_calls("['f(a=1), g(b=2)']") == [("f", {"a": 1}), ("g", {"b": 2})]
    assert list_calls("['f(a=1), and so on)']") == [("f", {"a": 1})]


def test_a_list_of_arguments_is_as_many_calls():
    assert list_calls('{"name": "f", "arguments": [{"a": 1}, {"a": 2}]}') == [("f", {"a": 1}), ("f", {"a": 2})]


@pytest.mark.parametrize("arguments", ["null", '""', "{}"])
def test_no_arguments_are_an_empty_object(arguments):
    assert list_calls(f'{{"name": "f", "arguments": {arguments}}}') == [("f", {})]


@pytest.mark.parametrize("arguments", ["42", "true"])
def test_what_cannot_be_arguments_is_a_problem(arguments):
    call = next(
        iter(find_calls(RepairReader(f'{{"name": "f", "arguments": {arguments}}}').read_value(), {"f"}.__contains__))
    )
    assert call.arguments is None
    assert call.problem


@check_rows("text", ['["f", "g"]', '{"city": "Oslo"}', "[1, 2]", '"f"', "3", '{"unknown": {"a": 1}}'])
def test_what_says_no_call_is_none(text):
    assert list_calls(text) == []


def nest(text, times):
    return "print(" * times + text + ")" * times


@check_rows(
    "text, calls",
    [
        ("['f', 1, 2]", [("f", {}, [1, 2])]),
        ('{"name": "f", "arguments": "{\\"a\\": 1} {"}', [("f", {"a": 1}, [])]),
        ('{"name": "f", "arguments": "{\\"a\\": "}', [("f", {}, ['{"a": '])]),
        ('{"name": "f", "arguments": "{\\"a\\": 1"}', [("f", {}, ['{"a": 1'])]),
        ('{"name": "f", "arguments": g(1)}', [("f", {}, [CallNode("g", {}, [1], "g(1)")])]),
        (nest("f(a=1)", 6), [("f", {"a": 1}, [])]),
        (nest("f(a=1)", 7), []),
    ],
)
def test_arguments_in_other_shapes_are_kept_as_they_are(text, calls):
    found = find_calls(RepairReader(text).read_value(), {"f", "g"}.__contains__)
    assert [(call.name, call.arguments, call.positional) for call in found] == calls
