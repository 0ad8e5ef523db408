"""Whole blocks into raw calls."""

import pytest

from src.parsing.decode.decode import Body, decode
from src.parsing.stream.openers import Found

KNOWN = {"f"}.__contains__


def decoded(body, kind="json", name="", *, ended=True):
    return decode(Found(0, 0, kind, "", name), Body(body, ended, None), KNOWN)


def test_what_json_accepts_is_read_without_repair():
    found = decoded('{"name": "f", "args": {"a": 1}}')
    assert ([(call.name, call.arguments) for call in found.calls], found.repairs) == ([("f", {"a": 1})], ())


def test_raw_newlines_are_the_smallest_repair():
    assert decoded('{"name": "f", "args": {"a": "x\ny"}}').repairs == ("raw newlines",)


def test_a_name_before_the_object_makes_it_the_arguments():
    assert [(call.name, call.arguments) for call in decoded('{"a": 1}', "named", "f").calls] == [("f", {"a": 1})]


@pytest.mark.parametrize(
    ("line", "arguments", "positional"),
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
    call = decoded(f" {line}\n", "labels", "f").calls[0]
    assert ({name: str(value) for name, value in call.arguments.items()}, call.positional) == (
        {name: str(value) for name, value in arguments.items()},
        positional,
    )


@pytest.mark.parametrize("body", ['{"name": "f", "args": {"a": 1', '{"name": "f", "args": {"a": "x', '{"name": "f"'])
def test_what_ends_inside_its_arguments_is_cut_off(body):
    assert decoded(body, ended=False).cut


def test_a_brace_that_is_missing_behind_whole_arguments_is_no_cut():
    assert not decoded('{"name": "f", "args": {"a": 1}', ended=False).problem


@pytest.mark.parametrize(
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
    assert decoded(body).problem
