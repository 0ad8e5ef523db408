"""The commands other than the chat, with options before and after the command's name."""

import json

import pytest

from src.cli.main import COMMANDS, main, make_parser
from src.config import load
from src.errors import ConfigError
from src.tools import TOOL_DEFINITIONS
from tests.doubles import ScriptedServer
from tests.each import check_rows


@pytest.fixture
def run(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")

    def run(*words):
        code = main([*words, "-c", str(tmp_path / "config.json")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@check_rows("name", COMMANDS)
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
    @pytest.mark.parametrize("mode", ["ask", "plan"])
    @pytest.mark.parametrize("provider", ["vllm", "openai"])
    def test_what_is_printed_is_what_is_sent(self, run, tmp_path, mode, provider):
        (tmp_path / "config.json").write_text(json.dumps({"vllm": {"provider": provider}}))
        options = "--workspace", str(tmp_path), "-m", "tiny", "--mode", mode
        with ScriptedServer([{"content": "Hello."}, {"finish": "stop"}]) as server:
            assert run("-p", "Hi", "-u", server.url, *options)[0] == 0
        code, out, err = run("tools", *options)
        assert (code, json.loads(out), err) == (0, server.requests[0]["tools"], "")

    def test_without_strict_tools_they_are_the_definitions_and_task(self, run, tmp_path):
        (tmp_path / "config.json").write_text('{"vllm": {"strict_tools": false}}')
        *listed, task = json.loads(run("tools")[1])
        assert listed == TOOL_DEFINITIONS
        assert task["function"]["name"] == "task"  # it is made of the settings


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

    def test_secrets_in_commands_and_addresses_are_never_shown(self, run, tmp_path):
        rows = [
            {"name": "a", "command": "x", "args": ["--api-key=sk-CANARYabcdefghijklmn", "--token", "CANARY"]},
            {"name": "b", "url": "https://me:CANARY1234@h/mcp?token=CANARY5678"},
        ]
        (tmp_path / "config.json").write_text(json.dumps({"tools": {"mcp": rows}}))
        for form in ([], ["--json"]):
            _, out, _ = run("config", *form)
            assert "[redacted]@h/mcp" in out
            assert "CANARY" not in out

    def test_a_bad_rule_is_named_with_its_file_before_any_server_is_asked(self, run, tmp_path):
        (tmp_path / "config.json").write_text('{"security": {"rules": [{"cmd": "ls"}]}}')
        code, out, err = run("models", "-u", "http://127.0.0.1:9/v1")
        assert (code, out) == (2, "")
        assert err.startswith(
            f"vllm-bot: {tmp_path}/config.json: security.rules[0]: there is no key 'cmd'; a rule has "
        )

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"review": {"models": [{"model": "m"}]}}, "review.models[0]: a reviewer has a base_url and a model"),
            (
                {"review": {"models": [{"server": "x"}]}},
                "review.models[0]: there is no server 'x'; there is no section",
            ),
            ({"tools": {"mcp": [{"name": "a"}]}}, "tools.mcp[0]"),
            (
                {"vllm": {"provider": "anthropic", "min_p": 0.1}},
                "vllm.min_p: the API of anthropic has no such setting.",
            ),
            (
                {"vllm": {"provider": "gemini", "chat_template_kwargs": {"a": 1}}},
                "vllm.chat_template_kwargs: the API of",
            ),
            (
                {"vllm": {"provider": "openai", "model": "gpt"}, "models": {"g*": {"top_k": 1}}},
                "models.g*.top_k: the API of openai has no such setting.",
            ),
        ],
        ids=str,
    )
    def test_a_setting_that_no_server_could_mend_is_named_with_its_file(self, settings, said, run, tmp_path):
        (tmp_path / "config.json").write_text(json.dumps(settings))
        code, _, err = run("models")
        assert code == 2
        assert err.startswith(f"vllm-bot: {tmp_path}/config.json: {said}")

    def test_config_as_json_names_where_each_value_is_from(self, run):
        settings = json.loads(run("config", "--json")[1])
        assert settings["vllm.retries"] == {"value": 2, "from": "default"}


class TestSetting:
    @pytest.fixture
    def change(self, monkeypatch, tmp_path, capsys):
        """Runs `config` with these words; `change.file` is the user's file."""
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

        def change(*words):
            code = main(["config", *words])
            printed = capsys.readouterr()
            return code, printed.out, printed.err

        change.file = tmp_path / "vllm-bot" / "config.json"
        return change

    def test_a_value_is_written_typed_and_the_rest_is_kept(self, change):
        change.file.parent.mkdir()
        change.file.write_text('{"later": {"x": 1}, "vllm": {"model": "m"}}')
        with pytest.raises(ConfigError):  # `later` is of another version
            load(change.file, {}, {})
        change("set", "vllm.top_k", "20")
        assert json.loads(change.file.read_text()) == {"later": {"x": 1}, "vllm": {"model": "m", "top_k": 20}}

    @pytest.mark.parametrize(
        ("words", "value"),
        [
            (["vllm.model", "123"], "123"),
            (["vllm.temperature", "null"], None),
            (["vllm.top_k", "-1"], -1),
            (["vllm.ssl_verify", "false"], False),
            (["security.allowed_commands", "git status", "ls"], ["git status", "ls"]),
            (["security.allowed_commands", '["ls"]'], ["ls"]),
            (["vllm.chat_template_kwargs", '{"enable_thinking": false}'], {"enable_thinking": False}),
            (["models.Qwen/Qwen2.5-*.top_k", "5"], 5),
            (["servers.big.base_url", "gpu:8000"], "gpu:8000"),
        ],
        ids=str,
    )
    def test_words_become_what_the_key_holds(self, words, value, change):
        code, out, err = change("set", *words)
        assert (code, err) == (0, "")
        assert out == f"{words[0]} = {json.dumps(value)}  ({change.file})\n"
        held = json.loads(change.file.read_text())
        while isinstance(held, dict) and held != value:
            (held,) = held.values()
        assert held == value
        assert change.file.stat().st_mode & 0o777 == 0o600
        assert change("unset", words[0])[0] == 0
        assert json.loads(change.file.read_text()) == {}

    @pytest.mark.parametrize("key", ["review.models", "vllm.api_key"])
    def test_a_key_whose_value_is_not_printed_is_said_to_be_set_or_not(self, key, change):
        value = '[{"model": "m", "base_url": "http://gpu/v1"}]' if key == "review.models" else "secret"
        assert change("set", key, value)[1] == f"{key} set  ({change.file})\n"
        assert change("unset", key)[1] == f"{key} not set  ({change.file})\n"

    def test_headers_of_an_mcp_server_are_not_printed(self, change):
        row = {"name": "web", "url": "http://h/mcp", "headers": {"Authorization": "Bearer CANARY"}}
        shown = json.dumps([{**row, "headers": "(set)"}])
        assert change("set", "tools.mcp", json.dumps([row]))[1] == f"tools.mcp = {shown}  ({change.file})\n"
        assert json.loads(change.file.read_text())["tools"]["mcp"] == [row]

    def test_a_file_with_half_of_a_surrogate_pair_is_refused_and_stays_as_it_is(self, change):
        change.file.parent.mkdir()
        text = '{"vllm": {"model": "\\ud800"}}'
        change.file.write_text(text)
        code, _, err = change("set", "vllm.top_k", "20")
        assert (code, err.count("\n")) == (2, 1)
        assert f"{change.file}: it would hold half of a surrogate pair, '\\ud800', which is no text" in err
        assert [*change.file.parent.iterdir()] == [change.file]
        assert change.file.read_text() == text

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["set", "vllm.topk", "1"], "vllm.topk: there is no such key; the nearest is vllm.top_k"),
            (["set", "vllm.top_k", "many"], 'vllm.top_k: expected an integer or null, got "many"'),
            (["set", "security.rules", '[{"cmd": "ls"}]'], "security.rules[0]: there is no key 'cmd'"),
            (["set", "models.a.base_url", "x"], "models.a.base_url: this is a setting of the server"),
            (["set", "servers.vllm.base_url", "x"], "servers.vllm.base_url: a server's name has"),
            (["set", "vllm.model"], "Write `vllm-bot config set KEY VALUE`"),
            (["unset", "vllm.model", "x"], "Write `vllm-bot config set KEY VALUE`"),
            (["set", "vllm.model", "m", "-c", "a.yaml"], "a.yaml: only a .json file can be changed by a command"),
        ],
        ids=str,
    )
    def test_what_is_wrong_is_said_and_nothing_is_written(self, words, said, change):
        code, out, err = change(*words)
        assert (code, out) == (2, "")
        assert err.startswith(f"vllm-bot: {said}")
        assert not change.file.exists()

    def test_a_key_is_not_shown_and_what_wins_over_it_is_named(self, change, monkeypatch):
        monkeypatch.setenv("VLLM_API_KEY", "other")
        code, out, err = change("set", "vllm.api_key", "sekret")
        assert (code, "sekret" in out + err) == (0, False)
        assert "environment variable VLLM_API_KEY sets it too, and wins" in err


def test_in_plan_the_tools_that_could_not_run_are_not_listed(capsys):
    assert main(["tools", "--mode", "plan"]) == 0
    tools = {each["function"]["name"]: each["function"] for each in json.loads(capsys.readouterr().out)}
    assert {"write", "edit"}.isdisjoint(tools)
    assert tools["exec"]["parameters"]["properties"]["access"]["enum"] == ["read"]
