"""Cases are read from YAML and JSON, what is wrong in a file is named, and calls are compared as people would."""

from __future__ import annotations

import pytest

from src.errors import ConfigError
from src.eval.cases import BUILT_IN, Turn, fits_value, read_cases
from src.types.messages import ToolCall
from tests.each import check_each, check_rows

TOOLS = "tools: {look: {description: Looks., parameters: {type: object, properties: {at: {type: string}}}}}\n"


def read(tmp_path, text: str):
    path = tmp_path / "own.yaml"
    path.write_text(TOOLS + text)
    return read_cases(path)


def call(name: str, **arguments) -> ToolCall:
    return ToolCall("1", name, arguments)


class TestTheBuiltInCases:
    def test_are_40_and_some_have_several_turns(self):
        cases = read_cases(BUILT_IN)
        assert len(cases) == 40
        assert sum(len(case.turns) > 1 for case in cases) >= 5
        assert any(not turn.expect for case in cases for turn in case.turns)

    def test_have_a_result_for_each_call_that_another_turn_follows(self):
        for case in read_cases(BUILT_IN):
            for turn in case.turns[:-1]:
                assert len(turn.results) == len(turn.expect or ()), case.id


@check_each(
    wanted_and_value=[
        ("Oslo", " oslo "),
        (50, 50.0),
        (0.1, 0.1),
        ([1, "A"], [1, "a"]),
        ({"contains": "free"}, "Are you FREE?"),
        ({"matches": "^a+$"}, "aaa"),
        ({"one_of": ["x", "y"]}, "Y"),
        ({"any": True}, None),
        ({"city": "Oslo"}, {"city": "oslo", "unit": "celsius"}),
        (True, True),
    ]
)
def test_a_value_fits(wanted_and_value):
    wanted, value = wanted_and_value
    assert fits_value(value, wanted)


@check_each(
    wanted_and_value=[
        ("Oslo", "Bergen"),
        (50, "50"),
        (1, True),
        (True, 1),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"contains": "free"}, "busy"),
        ({"one_of": ["x"]}, "z"),
        ({"city": "Oslo"}, {}),
    ]
)
def test_a_value_does_not_fit(wanted_and_value):
    wanted, value = wanted_and_value
    assert not fits_value(value, wanted)


class TestAnAnswer:
    def test_may_have_its_calls_in_any_order_and_more_arguments(self, tmp_path):
        (case,) = read(tmp_path, "cases: [{id: a, ask: Look., expect: [{look: {at: x}}, {look: {at: y}}]}]")
        assert case.turns[0].judge([call("look", at="y", far=True), call("look", at="x")], "") == ""

    def test_needs_a_call_of_its_own_for_each_expected_one(self, tmp_path):
        (case,) = read(tmp_path, "cases: [{id: a, ask: Look., expect: [{look: {}}, {look: {}}]}]")
        assert case.turns[0].judge([call("look")], "") == "expected look(), got look()"

    def test_may_have_no_other_call(self, tmp_path):
        (case,) = read(tmp_path, "cases: [{id: a, ask: Hello., expect: []}]")
        assert case.turns[0].judge([call("look", at="x")], "") == 'expected no calls, got look(at="x")'

    @check_rows(
        "check, why",
        [
            ("call.arguments['at'] == 'x'", ""),
            ("len(calls) == 2", "it does not hold: len(calls) == 2"),
            ("re.search('fine', text)", ""),
            ("call.arguments['no']", "call.arguments['no']: KeyError: 'no'"),
        ],
    )
    def test_may_be_judged_by_an_expression(self, check, why):
        assert Turn("Look.", None, check=check).judge([call("look", at="x")], "fine") == why


def test_a_tool_answers_what_the_case_says(tmp_path):
    text = "cases: [{id: a, ask: Look., expect: [{look: {at: x}}, {look: {at: y}}], results: [one, two]}]"
    turn = read(tmp_path, text)[0].turns[0]
    assert [turn.pick_result(call("look", at=at)) for at in ("y", "x", "z")] == ["two", "one", "done"]


def test_the_only_tool_of_a_case_needs_no_list(tmp_path):
    (case,) = read(tmp_path, "cases: [{id: a, ask: Look., tools: look, expect: []}]")
    assert [tool.name for tool in case.tools] == ["look"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases: []", "own.yaml: it holds no cases."),
        ("case: []", "own.yaml: expected `tools` and a list of `cases`."),
        ("cases: [{ask: Look., expect: []}]", "own.yaml: case 1: it has no id."),
        ("cases: [{id: a, ask: Look.}]", "own.yaml: case 1 (a), turn 1: it needs `expect`, `assert`, or both."),
        ("cases: [{id: a, expect: []}]", "own.yaml: case 1 (a): its first turn has no question: `ask`."),
        (
            "cases: [{id: a, ask: Look., expect: [{lok: {}}]}]",
            "own.yaml: case 1 (a), turn 1: it expects the tool 'lok', which is not among `tools`.",
        ),
        ("cases: [{id: a, ask: Look., tools: [other], expect: []}]", "own.yaml: case 1 (a): there is no tool 'other'"),
        (
            "cases: [{id: a, ask: Look., tools: [[look]], expect: []}]",
            "own.yaml: case 1 (a): there is no tool ['look']",
        ),
        (
            "cases: [{id: a, ask: Look., expect: 5}]",
            "own.yaml: case 1 (a), turn 1: `expect` is a list of calls, got 5.",
        ),
        (
            f"cases: [{{id: a, ask: Look., assert: '{'-' * 20_000}1'}}]",
            "own.yaml: case 1 (a), turn 1: assert: it is nested too deep.",
        ),
        ("cases: [{id: a, ask: Look., expekt: []}]", "own.yaml: case 1 (a), turn 1: there is no key 'expekt'."),
        ("cases: [{id: a, ask: Look., assert: 'call ='}]", "own.yaml: case 1 (a), turn 1: assert: invalid syntax"),
        (
            "cases: [{id: a, ask: Look., expect: [{look: {at: {matches: '('}}}]}]",
            "own.yaml: case 1 (a), turn 1: look.at: matches: missing )",
        ),
        (
            "cases: [{id: a, ask: x, expect: []}, {id: a, ask: x, expect: []}]",
            "own.yaml: two cases have the id 'a'.",
        ),
        (
            "cases: [{id: a, turns: [{ask: x, expect: []}, {expect: []}]}]",
            "own.yaml: case 1 (a), turn 2: it needs a question, since no call comes before it.",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message):
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    assert message in str(raised.value)
