"""One run of a case: the model is asked as in the chat, tools are played, and what came is sorted by who is to blame."""

from __future__ import annotations

import json

import pytest

from src.app.endpoint import make_settings
from src.errors import ConfigError
from src.eval.arms import Arm
from src.eval.cases import read_cases
from src.eval.running import CaseRunner
from tests.doubles import ScriptedServer

from .server import CASES, open_model, write_cases

NATIVE, TEXT = (Arm(name, {"vllm.paths": [name]}) for name in ("native", "text"))
CALL = {"index": 0, "id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": '{"at": "0"}'}}
RIGHT = [{"tool_calls": [CALL], "finish": "tool_calls"}]


def run(url: str, path, arm: Arm = NATIVE, seed: int = 0, at: int = 0):
    return CaseRunner(make_settings(url), "tiny").run(arm, read_cases(path)[at], seed)


def run_scripted(tmp_path, *answers, arm: Arm = NATIVE, cases: str = ""):
    path = tmp_path / "own.yaml"
    path.write_text(CASES + (cases or "- {id: a, ask: Look at 0., expect: [{look: {at: '0'}}]}"))
    with ScriptedServer(*answers) as server:
        return run(server.url, path, arm), server.requests


def test_a_native_call_that_is_right_is_clean(tmp_path):
    with open_model("native") as (url, _):
        outcome = run(url, write_cases(tmp_path / "own.yaml"))
    assert outcome.is_clean
    assert outcome.origins == ("native",)
    assert (outcome.requests, outcome.input_tokens, outcome.cached_tokens, outcome.output_tokens) == (1, 100, 50, 20)
    assert outcome.exchanges == ()


def test_another_call_is_the_models_fault_and_can_be_opened(tmp_path):
    with open_model("native", frozenset({0})) as (url, _):
        outcome = run(url, write_cases(tmp_path / "own.yaml"))
    assert (outcome.passed, outcome.kind) == (False, "model")
    assert outcome.why == 'expected look(at="0"), got look(at="elsewhere")'
    assert json.loads(outcome.exchanges[0].request)["tools"]
    assert "elsewhere" in outcome.exchanges[0].answer
    assert outcome.read[0]["content"][0]["name"] == "look"


def test_a_call_that_the_servers_parser_lost_is_right_and_recovered(tmp_path):
    with open_model("leaking") as (url, _):
        outcome = run(url, write_cases(tmp_path / "own.yaml"))
    assert (outcome.passed, outcome.kind, outcome.is_clean) == (True, "server", False)
    assert outcome.origins == ("qwen3_coder",)
    assert outcome.exchanges


def test_a_refused_path_is_no_fault_of_the_model(tmp_path):
    with open_model("refusing") as (url, _):
        outcome = run(url, write_cases(tmp_path / "own.yaml"))
    assert (outcome.passed, outcome.kind) == (False, "refused")


def test_a_broken_call_that_was_repaired_is_a_fault_of_the_format(tmp_path):
    broken = [{"content": 'TOOL_CALL: {"name": "look", "args": {"at": "0",}}', "finish": "stop"}]
    outcome, _ = run_scripted(tmp_path, broken, arm=TEXT)
    assert (outcome.passed, outcome.kind) == (True, "format")
    assert outcome.why.startswith("repaired: ")


def test_a_call_that_cannot_be_read_is_lost(tmp_path):
    cut = [{"content": 'TOOL_CALL: {"name": "look", "args": {"at"', "finish": "stop"}]
    outcome, _ = run_scripted(tmp_path, cut, arm=TEXT)
    assert (outcome.passed, outcome.kind) == (False, "lost")


def test_a_server_that_is_gone_says_nothing_of_the_model(tmp_path):
    settings = make_settings("http://127.0.0.1:9/v1", retries=0)
    case = read_cases(write_cases(tmp_path / "own.yaml"))[0]
    outcome = CaseRunner(settings, "tiny").run(NATIVE, case, 0)
    assert (outcome.kind, outcome.counts) == ("harness", False)


def test_a_server_that_has_no_time_refuses_nothing(tmp_path):
    with open_model("busy") as (url, _):
        case = read_cases(write_cases(tmp_path / "own.yaml"))[0]
        outcome = CaseRunner(make_settings(url, retries=0), "tiny").run(NATIVE, case, 0)
    assert outcome.kind == "harness"


def test_tools_are_played_and_the_next_answer_is_judged_too(tmp_path):
    cases = """\
- id: a
  turns:
  - {ask: Look at 0 and at what is there., expect: [{look: {at: '0'}}], results: [a door]}
  - {expect: [{look: {at: door}}]}
"""
    again = {**CALL, "function": {"name": "look", "arguments": '{"at": "door"}'}}
    outcome, requests = run_scripted(tmp_path, RIGHT, [{"tool_calls": [again], "finish": "tool_calls"}], cases=cases)
    assert outcome.is_clean
    assert requests[1]["messages"][-1]["content"] == "a door"


def test_a_wrong_answer_ends_the_case(tmp_path):
    cases = "- {id: a, turns: [{ask: Hello., expect: []}, {ask: Look at 0., expect: [{look: {at: '0'}}]}]}"
    outcome, requests = run_scripted(tmp_path, RIGHT, cases=cases)
    assert outcome.kind == "model"
    assert len(requests) == 1


def test_the_arms_settings_and_the_seed_are_sent(tmp_path):
    with open_model("native") as (url, answers):
        run(url, write_cases(tmp_path / "own.yaml"), NATIVE.vary("stream off", vllm__stream=False), seed=7)
        run(url, write_cases(tmp_path / "own.yaml"), NATIVE.vary("temperature 0", vllm__temperature=0.0))
    first, second = answers.chats
    assert (first["seed"], first.get("stream", False)) == (7, False)
    assert (second["seed"], second["temperature"], second["stream"]) == (0, 0.0, True)


def test_a_path_is_pinned_whatever_another_arm_has_learned(tmp_path):
    path = write_cases(tmp_path / "own.yaml")
    with open_model("leaking") as (url, answers):
        for arm in (TEXT, NATIVE, TEXT):
            run(url, path, arm)
    assert [bool(chat.get("tools")) for chat in answers.chats] == [False, True, False]


def test_copilot_cannot_be_measured():
    with pytest.raises(ConfigError, match="cannot measure Copilot"):
        CaseRunner(make_settings("http://localhost:1/v1", "copilot"), "gpt")


@pytest.mark.parametrize(
    "written",
    [
        "<tool_call>\n<function=look>\n<parameter=at>\n0\n</parameter>\n<parameter=far>\n3\n</parameter>\n</function>\n</tool_call>",
        "[look(at='0', far=3)]",
    ],
    ids=["numbers as text between tags", "single quotes in Python"],
)
def test_what_a_format_always_writes_is_no_repair(tmp_path, written):
    path = tmp_path / "own.yaml"
    far = "{type: object, properties: {at: {type: string}, far: {type: integer}}}"
    path.write_text(
        f"tools: {{look: {{description: Looks., parameters: {far}}}}}\n"
        "cases: [{id: a, ask: Look at 0., expect: [{look: {at: '0', far: 3}}]}]"
    )
    with ScriptedServer([{"content": written, "finish": "stop"}]) as server:
        assert run(server.url, path, TEXT).is_clean


def test_a_template_that_leaves_the_tools_out_refuses_the_path(tmp_path):
    error = {"error": {"message": "jinja2.exceptions.UndefinedError: 'tools' is undefined", "code": 400}}
    outcome, _ = run_scripted(tmp_path, *[(400, error)] * 4)
    assert outcome.kind == "refused"


class TestThoughts:
    CALL_IN_THOUGHT = '<tool_call>\n{"name": "look", "arguments": {"at": "0"}}\n</tool_call>'

    def test_that_hold_the_call_are_told(self, tmp_path):
        swallowed = [{"reasoning": f"I look. {self.CALL_IN_THOUGHT}", "finish": "stop"}]
        outcome, _ = run_scripted(tmp_path, swallowed)
        assert (outcome.passed, outcome.kind, outcome.in_thoughts) == (True, "server", True)
        assert outcome.why == "the call was recovered from a thought"

    def test_that_are_cut_off_get_more_room_once(self, tmp_path):
        cut = [{"reasoning": "Well, well", "finish": "length"}]
        outcome, requests = run_scripted(tmp_path, cut, RIGHT)
        assert outcome.is_clean
        assert [request.get("max_tokens") or request.get("max_completion_tokens") for request in requests] == [
            512,
            4096,
        ]

    def test_answers_that_are_cut_off_without_one_get_none(self, tmp_path):
        outcome, requests = run_scripted(tmp_path, [{"content": "Well, well", "finish": "length"}])
        assert outcome.kind == "model"
        assert len(requests) == 1
