"""Answers of a given form, through the whole program; only the server is scripted."""

from __future__ import annotations

import json

import pytest

from src.cli.main import main
from tests.doubles import ScriptedServer

SCHEMA = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}
READ = [{"content": 'TOOL_CALL: {"name": "read", "args": {"path": "notes.txt"}}'}, {"finish": "stop"}]


def says(text, finish="stop"):
    return [{"content": text}, {"finish": finish}]


@pytest.fixture
def ask(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("two files\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))

    def run(*answers, schema=str(tmp_path / "schema.json"), options=()):
        with ScriptedServer(*answers) as server:
            words = ["-u", server.url, "-m", "tiny", "-w", str(tmp_path), "-p", "How many?", "--json-schema", schema]
            code = main([*words, *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err, server.requests

    return run


def test_the_json_alone_is_on_standard_output(ask):
    code, out, err, requests = ask(says('```json\n{"files": 2}\n```'))
    assert (code, out, err) == (0, '{"files": 2}\n', "")
    assert json.dumps(SCHEMA) in requests[0]["messages"][-1]["content"]
    assert "response_format" not in requests[0]  # a grammar would let it call no tool


def test_a_wrong_answer_gets_one_turn_with_the_servers_grammar(ask):
    code, out, _, requests = ask(READ, says("There are two."), says('{"files": 2}'))
    assert (code, out) == (0, '{"files": 2}\n')
    assert requests[2]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "That answer does not have the form" in requests[2]["messages"][-1]["content"]
    assert requests[2]["tool_choice"] == "none"


def test_where_none_comes_nothing_is_printed_and_the_exit_code_is_1(ask):
    code, out, err, requests = ask(says("Two."), says('{"files": "two"}'))
    assert (code, out, len(requests)) == (1, "", 2)
    assert err.startswith("vllm-bot: The answer does not fit the schema: data.files must be integer")


def test_an_answer_that_was_cut_off_is_not_printed(ask):
    code, out, _, requests = ask(says('{"files": 2}', "length"))
    assert (code, out, len(requests)) == (3, "", 1)


def test_a_value_shows_no_control_characters_and_no_numbers_that_json_lacks(ask):
    schema = '{"type": "array"}'
    assert ask(says('["a\x9b2J"]'), schema=schema)[1] == '["a\\u009b2J"]\n'
    code, out, err, _ = ask(says("[NaN]"), schema=schema)
    assert (code, out) == (1, "")
    assert "not JSON" in err


def test_with_json_output_the_answer_is_a_member_and_the_exit_code_the_same(ask):
    code, out, _, _ = ask(says('{"files": 2}'), options=["--output", "json"])
    assert (code, json.loads(json.loads(out)["answer"])) == (0, {"files": 2})
    code, out, _, _ = ask(says("no"), says("no"), options=["--output", "json"])
    assert (code, json.loads(out)["exit_code"]) == (1, 1)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nowhere.json", "--json-schema: nowhere.json: No such file or directory."),
        ("{", "--json-schema: this is no JSON: "),
        ("{}", "--json-schema: this is no JSON Schema: it has no `type`"),
        ('{"type": "objekt"}', "--json-schema: this is no JSON Schema: "),
    ],
)
def test_what_is_no_schema_is_bad_usage_before_anything_is_asked(schema, said, ask):
    code, out, err, requests = ask(schema=schema)
    assert (code, out, requests) == (2, "", [])
    assert err.startswith(f"vllm-bot: {said}")
