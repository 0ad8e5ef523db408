"""The commands other than the chat, with options before and after the command's name."""

import json

import pytest

from src.cli.main import COMMANDS, main, make_parser
from src.tools import TOOL_DEFINITIONS
from tests.doubles import ScriptedServer


@pytest.fixture
def run(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")

    def run(*words):
        code = main([*words, "-c", str(tmp_path / "config.json")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_takes_the_common_options(name):
    needed = ["codex"] if name == "launch" else []
    given = make_parser((name,)).parse_args(["-u", "http://a:1/v1", name, *needed, "-m", "tiny"])
    assert (given.command, given.base_url, given.model) == (name, "http://a:1/v1", "tiny")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: vllm-bot {name} ")


def test_an_unknown_command_is_bad_usage(capsys):
    with pytest.raises(SystemExit) as left:
        main(["modles"])
    assert left.value.code == 2
    assert "models" in capsys.readouterr().err


class TestTools:
    def test_they_are_the_definitions_as_they_are_sent(self, run):
        code, out, err = run("tools")
        assert (code, json.loads(out), err) == (0, TOOL_DEFINITIONS, "")


class TestModels:
    def test_one_a_line(self, run):
        with ScriptedServer(models=("big", "small")) as server:
            assert run("models", "-u", server.url) == (0, "big\nsmall\n", "")

    def test_a_server_that_is_not_there_is_one_message(self, run):
        code, out, err = run("models", "-u", "http://127.0.0.1:9/v1")
        assert (code != 0, out) == (True, "")
        assert err.startswith("vllm-bot: No server at http://127.0.0.1:9/v1")


class TestConfig:
    def test_each_setting_says_where_it_came_from(self, run, tmp_path, monkeypatch):
        (tmp_path / "config.json").write_text('{"vllm": {"timeout": 5}}')
        monkeypatch.setenv("VLLM_MODEL", "tiny")
        lines = run("config", "-u", "http://a:1/v1")[1].splitlines()
        assert f"vllm.timeout = 5.0  ({tmp_path}/config.json: vllm.timeout)" in lines
        assert 'vllm.model = "tiny"  (environment variable VLLM_MODEL)' in lines
        assert 'vllm.base_url = "http://a:1/v1"  (command line: vllm.base_url)' in lines
        assert "vllm.retries = 2  (default)" in lines

    def test_the_key_is_never_shown(self, run, monkeypatch):
        monkeypatch.setenv("VLLM_API_KEY", "sekret")
        for form in ([], ["--json"]):
            _, out, _ = run("config", *form)
            assert "sekret" not in out
            assert "(set)" in out

    def test_as_json(self, run):
        settings = json.loads(run("config", "--json")[1])
        assert settings["vllm.retries"] == {"value": 2, "from": "default"}


def test_in_plan_the_tools_that_could_not_run_are_not_listed(capsys):
    assert main(["tools", "--mode", "plan"]) == 0
    tools = {each["function"]["name"]: each["function"] for each in json.loads(capsys.readouterr().out)}
    assert {"write", "edit"}.isdisjoint(tools)
    assert tools["exec"]["parameters"]["properties"]["access"]["enum"] == ["read"]
