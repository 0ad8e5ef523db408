"""Settings: where they come from, which source wins, and one clear line for what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import to_builtins

import src
from src.config import (
    BASE_URLS,
    KINDS,
    SECTIONS,
    SETTINGS,
    Settings,
    get_state_folder,
    list_default_files,
    list_settings,
    load,
    read_debug_level,
)
from src.config.settings import HookSettings
from src.errors import ConfigError
from tests.each import check_rows

ROOT = Path(src.__file__).parent.parent


@pytest.fixture
def write(tmp_path: Path):
    def write(content: object, name: str = "config.json") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def refusal(path: Path | None = None, overrides: dict | None = None, environ: dict | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load(path, overrides or {}, environ or {})
    assert error.value.exit_code == 2
    text = str(error.value)
    assert "\n" not in text
    return text.replace(str(path), path.name if path else "")


# Sources


def sections(settings: Settings) -> dict:
    everything = to_builtins(settings, enc_hook=str)
    return {name: everything[name] for name in SECTIONS}


def test_an_empty_file_gives_the_defaults(write):
    settings = load(write({}), {}, {})
    assert sections(settings) == sections(Settings())
    assert settings.vllm.base_url == "http://localhost:8000/v1"
    assert settings.vllm.enable_function_calling is True
    assert settings.agent.max_tool_turns == 10
    assert settings.root == Path.cwd()


def test_the_committed_config_changes_nothing_so_that_the_users_file_counts_in_a_checkout():
    assert json.loads((ROOT / "config.json").read_text(encoding="utf-8")) == {}


def test_a_named_file_beats_the_users_file_key_by_key(write, tmp_path):
    (tmp_path / "vllm-bot").mkdir()
    own = {"vllm": {"model": "of user", "top_k": 20}, "models": {"a*": {"seed": 1, "top_p": 0.5}}}
    write(own, "vllm-bot/config.json")
    named = write({"vllm": {"model": "of file"}, "models": {"a*": {"seed": 2}}})
    settings = load(named, {}, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert (settings.vllm.model, settings.vllm.top_k) == ("of file", 20)
    assert settings.models == {"a*": {"seed": 2, "top_p": 0.5}}
    assert settings.places["vllm.top_k"] == f"{tmp_path}/vllm-bot/config.json: vllm.top_k"
    assert load(None, {}, {"XDG_CONFIG_HOME": str(tmp_path)}).vllm.model == "of user"


def test_a_tool_file_is_relative_to_the_settings_file_that_names_it(write, tmp_path):
    (tmp_path / "vllm-bot").mkdir()
    (tmp_path / "vllm-bot" / "dice.py").touch()
    write({"tools": {"modules": ["dice.py"]}}, "vllm-bot/config.json")
    settings = load(write({}), {}, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert settings.tools.modules == (str(tmp_path / "vllm-bot" / "dice.py"),)


# Models and servers


def test_the_last_pattern_that_fits_a_model_wins_and_the_command_line_beats_it(write):
    models = {
        "Qwen/*": {"top_k": 20, "seed": 1},
        "*/Qwen3-*": {"top_k": 40},
        "gpt*": {"enable_function_calling": False},
    }
    path = write({"vllm": {"top_k": 5, "top_p": 0.9}, "models": models})
    settings = load(path, {}, {})
    qwen = settings.get_model_settings("Qwen/Qwen3-8B")
    assert (qwen.top_k, qwen.seed, qwen.top_p) == (40, 1, 0.9)
    assert settings.get_model_settings("other") == settings.vllm
    assert not settings.get_model_settings("gpt").enable_function_calling
    given = load(path, {"vllm.enable_function_calling": True}, {})
    assert given.get_model_settings("gpt").enable_function_calling


SERVERS = {"big": {"base_url": "http://big/v1", "model": "b", "top_k": 3}, "small": {"base_url": "small:8000"}}


def test_without_an_address_of_its_own_the_first_server_answers_and_a_model_names_another(write):
    path = write({"servers": SERVERS, "vllm": {"top_p": 0.5}})
    big = load(path, {}, {})
    assert (big.server, big.vllm.base_url, big.vllm.model, big.vllm.top_p) == ("big", "http://big/v1", "b", None)
    assert big.is_server_named
    small = load(path, {"vllm.model": "small:qwen3:8b"}, {})
    assert (small.server, small.vllm.base_url, small.vllm.model) == ("small", "small:8000", "qwen3:8b")
    assert load(path, {"vllm.model": "org/m:8b"}, {}).vllm.model == "org/m:8b"


def test_the_section_vllm_is_a_server_among_the_others_where_it_has_an_address(write):
    settings = load(write({"servers": SERVERS, "vllm": {"base_url": "http://main/v1"}}), {}, {})
    assert (settings.server, [*settings.servers]) == ("vllm", ["vllm", "big", "small"])
    there = settings.with_model("big")
    assert (there.vllm.base_url, there.with_model("vllm").vllm.base_url) == ("http://big/v1", "http://main/v1")


def test_a_servers_key_is_a_secret_and_goes_to_no_other_server(write):
    servers = {"big": {**SERVERS["big"], "api_key": "CANARY-1", "headers": {"X-Token": "Bearer CANARY-2"}}}
    settings = load(write({"servers": servers, "vllm": {"base_url": "http://main/v1"}}), {}, {})
    assert {"CANARY-1", "CANARY-2"} <= set(settings.keys)
    assert "CANARY" not in repr(settings) + repr(list_settings(settings))
    assert settings.key_to_send == ""
    assert settings.with_model("big").key_to_send == "CANARY-1"


def test_what_the_command_line_says_of_how_a_model_is_asked_beats_the_entry_of_each_server(write):
    path = write({"servers": {**SERVERS, "sure": {"base_url": "h:1", "enable_function_calling": True}}})
    settings = load(path, {"vllm.enable_function_calling": False}, {})
    for server in SERVERS | {"sure": {}}:
        chosen = settings.with_server(server)
        shown = {key: (value, place) for key, value, place in list_settings(chosen)}
        assert not chosen.vllm.enable_function_calling
        assert shown["vllm.enable_function_calling"] == (False, "command line: vllm.enable_function_calling")
    assert settings.vllm.top_k == 3  # the rest of the entry counts


def find_model_place(settings):
    """Where the model comes from, as `vllm-bot config` says, without the file's folder."""
    return next(place for key, _, place in list_settings(settings) if key == "vllm.model").rpartition("/")[2]


@pytest.mark.parametrize(
    ("sections", "typed", "variable", "place"),
    [
        ({"vllm": {"available_models": ["a"]}}, None, "", "config.json: vllm.available_models"),
        ({"vllm": {"available_models": ["a"]}}, "x", "", "command line: vllm.model"),
        ({"vllm": {"available_models": ["a"]}}, None, "x", "environment variable VLLM_MODEL"),
        ({"vllm": {"available_models": ["a"], "model": "x"}}, None, "", "config.json: vllm.model"),
        ({"vllm": {"available_models": []}}, None, "", "default"),
        ({"servers": {"s": {"base_url": "h", "available_models": ["a"]}}}, None, "",
         "config.json: servers.s.available_models"),
        ({"servers": {"s": {"base_url": "h", "model": "a"}}}, None, "", "config.json: servers.s.model"),
        ({"servers": {"s": {"base_url": "h", "model": "a"}}}, "x", "", "command line: vllm.model"),
        ({"servers": {"s": {"base_url": "h"}}}, "s:x", "", "command line: vllm.model"),
    ],
    ids=str,
)  # fmt: skip
def test_the_place_of_the_model_is_that_of_what_chose_it(write, sections, typed, variable, place):
    assert find_model_place(load(write(sections), {"vllm.model": typed}, {"VLLM_MODEL": variable})) == place


MCP_ROWS = [
    {"name": "web", "url": "http://h/mcp", "headers": {"Authorization": "Bearer CANARY-1"}},
    {"name": "files", "command": ["mcp-files"], "env": {"TOKEN": "CANARY-2"}, "headers": {}},
]


def test_headers_and_variables_of_mcp_servers_are_secrets_and_the_rest_of_a_row_is_shown(write):
    settings = load(write({"tools": {"mcp": MCP_ROWS}}), {}, {})
    assert "CANARY" not in repr(settings) + repr(list_settings(settings))
    assert {key: value for key, value, _ in list_settings(settings)}["tools.mcp"] == (
        {"name": "web", "url": "http://h/mcp", "headers": "(set)"},
        {"name": "files", "command": ["mcp-files"], "env": "(set)", "headers": {}},
    )
    assert [*settings.tools.mcp] == MCP_ROWS
    assert "CANARY" not in refusal(write({"tools": {"mcp": {"headers": {"Authorization": "CANARY"}}}}))


def test_command_line_beats_environment_beats_file_beats_defaults(write):
    path = write({"vllm": {"model": "of file", "base_url": "http://file/v1", "api_key": "of-file"}})
    settings = load(
        path,
        {"vllm.model": "of line"},
        {"VLLM_MODEL": "of env", "VLLM_BASE_URL": "http://env/v1"},
    )
    assert (settings.vllm.model, settings.vllm.base_url, settings.vllm.api_key) == (
        "of line",
        "http://env/v1",
        "of-file",
    )


def test_what_is_not_given_on_the_command_line_or_empty_in_the_environment_is_not_set(write):
    settings = load(write({"vllm": {"model": "m"}}), {"vllm.model": None}, {"VLLM_MODEL": "", "VLLM_API_KEY": "k\n"})
    assert (settings.vllm.model, settings.vllm.api_key) == ("m", "k")


YAML = """
vllm:
  model: m
  temperature: 0.5
  available_models: [a, b]
security:
  allowed_commands:
    - git status
"""


@pytest.mark.parametrize("name", ["c.yaml", "c.yml", "C.YAML"])
def test_yaml_is_read_as_well(name, write):
    settings = load(write(YAML, name), {}, {})
    assert (settings.vllm.temperature, settings.vllm.available_models) == (0.5, ("a", "b"))
    assert settings.security.allowed_commands == ("git status",)


def test_a_date_in_yaml_is_a_text_as_templates_want_it(write):
    path = write("vllm: {model: 2024-07-26, chat_template_kwargs: {date_string: 2024-07-26}}", "c.yaml")
    vllm = load(path, {}, {}).vllm
    assert (vllm.model, vllm.chat_template_kwargs) == ("2024-07-26", {"date_string": "2024-07-26"})


def test_a_byte_order_mark_does_not_matter(write):
    assert load(write('\ufeff{"vllm": {"model": "m"}}'), {}, {}).vllm.model == "m"


def test_yaml_is_loaded_for_yaml_only(write):
    code = "import sys; from pathlib import Path; from src.config import load; load(Path(sys.argv[1]), {}, {}); print('yaml' in sys.modules)"
    for path, expected in ((write({}), "False"), (write("{}", "c.yaml"), "True")):
        ran = subprocess.run(
            [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip() == expected


# The default file


def test_in_a_checkout_the_file_beside_cli_py_comes_first_then_the_users():
    assert list_default_files({"HOME": "/home/u"}) == (
        ROOT / "config.json",
        Path("/home/u/.config/vllm-bot/config.json"),
    )
    assert list_default_files({"HOME": "/home/u", "XDG_CONFIG_HOME": "/x"})[-1] == Path("/x/vllm-bot/config.json")
    assert list_default_files({"HOME": "/home/u", "XDG_CONFIG_HOME": "rel"})[-1] == Path(
        "/home/u/.config/vllm-bot/config.json"
    )
    assert list_default_files({}) == (ROOT / "config.json",)


@pytest.mark.parametrize("home", ["", "rel"])
def test_a_relative_home_does_not_lead_into_the_current_folder(home):
    assert list_default_files({"HOME": home}) == (ROOT / "config.json",)
    assert get_state_folder({"HOME": home}).is_absolute()
    assert get_state_folder({"HOME": "/home/u"}) == Path("/home/u/.local/state/vllm-bot")


def test_without_config_the_default_file_is_read():
    assert sections(load(None, {}, {})) == sections(Settings())


def test_every_place_where_settings_are_looked_for_is_named_for_the_tools_to_keep_off(write):
    path = write({})
    own = Path("/home/u/.config/vllm-bot/AGENTS.md")
    assert load(path, {}, {"HOME": "/home/u"}).files == (path, *list_default_files({"HOME": "/home/u"}), own)


# Values


def test_the_trailing_slash_of_the_address_is_dropped(write):
    assert load(write({"vllm": {"base_url": "https://h:1/v1/"}}), {}, {}).vllm.base_url == "https://h:1/v1"


def test_hosts_and_paths_of_the_gateway_are_as_requests_are_compared_with_them(write):
    hosts = ["Gateway.Example.", "gateway.example:8010", "[fd00::1]", "FD00:0::1", "10.0.0.1:80"]
    options = load(write({"serve": {"hosts": hosts, "relay": ["/sleep/", "//a/../b", "/"]}}), {}, {}).serve
    assert options.hosts == ("gateway.example", "gateway.example", "fd00::1", "fd00::1", "10.0.0.1")
    assert options.relay == ("/sleep", "/b", "/")


def test_a_whole_number_will_do_for_a_number(write):
    settings = load(write({"vllm": {"timeout": 5, "temperature": 0}}), {}, {})
    assert (settings.vllm.timeout, settings.vllm.temperature) == (5.0, 0.0)


CHOSEN = [
    ({"available_models": ["a", "b"], "default_model_index": 1}, "b"),
    ({"available_models": ["a", "b"]}, "a"),
    ({"available_models": ["a", "b"], "model": "c"}, "c"),
    ({"available_models": ["a", "b"], "model": "c", "default_model_index": 3}, "c"),
    ({"default_model_index": 3}, ""),
    ({}, ""),
]


@pytest.mark.parametrize(("vllm", "model"), CHOSEN, ids=str)
def test_the_model_is_the_one_named_else_the_one_the_index_names_else_none(vllm, model, write):
    assert load(write({"vllm": vllm}), {}, {}).vllm.model == model


def test_the_workspace_is_where_its_folder_is(tmp_path, write):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert load(write({"workspace": {"dir": str(tmp_path / "link")}}), {}, {}).root == tmp_path / "real"


def test_the_workspace_stays_where_it_was_when_the_current_folder_changes(tmp_path, write):
    before = Path.cwd()
    settings = load(write({}), {}, {})
    os.chdir(tmp_path)
    try:
        assert settings.root == before
    finally:
        os.chdir(before)


@check_rows(
    "value, level",
    [("", 0), ("0", 0), ("1", 1), ("2", 2), (" 2 ", 2), ("true", 0), ("On", 0), ("yes", 0), ("app:*", 0)],
)
def test_debug_is_a_level_and_other_programs_values_count_as_zero(value, level):
    assert read_debug_level({"DEBUG": value}) == level
    assert read_debug_level({}) == 0


def test_the_api_key_is_not_shown_by_accident(write):
    settings = load(write({}), {}, {"VLLM_API_KEY": "CANARY"})
    assert settings.vllm.api_key == "CANARY"
    assert "CANARY" not in repr(settings)


# What is wrong

WRONG = [
    ({"vllm": {"base_ur": "x"}}, "config.json: vllm.base_ur: there is no such key; the nearest is vllm.base_url"),
    ({"vlm": {}}, "config.json: vlm: there is no such section; the nearest is vllm"),
    ({"base_url": "x"}, "config.json: base_url: there is no such section; the nearest is vllm.base_url"),
    ({"agent": {"base_url": "x"}}, "config.json: agent.base_url: there is no such key; the nearest is vllm.base_url"),
    ({"vllm": {"timeout": "5"}}, 'config.json: vllm.timeout: expected a number, got "5"'),
    ({"vllm": {"timeout": True}}, "config.json: vllm.timeout: expected a number, got true"),
    ({"vllm": {"timeout": None}}, "config.json: vllm.timeout: expected a number, got null"),
    ({"vllm": {"max_tokens": 1.5}}, "config.json: vllm.max_tokens: expected an integer or null, got 1.5"),
    ({"vllm": {"max_tokens": True}}, "config.json: vllm.max_tokens: expected an integer or null, got true"),
    ({"vllm": {"enable_function_calling": 1}}, "config.json: vllm.enable_function_calling: expected true or false, got 1"),
    ({"vllm": {"model": 5}}, "config.json: vllm.model: expected a string, got 5"),
    ({"vllm": {"available_models": "m"}}, 'config.json: vllm.available_models: expected a list of strings, got "m"'),
    ({"vllm": {"available_models": [1]}}, "config.json: vllm.available_models: expected a list of strings, got [1]"),
    ({"vllm": {"temperature": -1}}, "config.json: vllm.temperature: expected at least 0, got -1"),
    ({"vllm": {"max_tokens": 0}}, "config.json: vllm.max_tokens: expected at least 1, got 0"),
    ({"agent": {"max_tool_turns": 0}}, "config.json: agent.max_tool_turns: expected at least 1, got 0"),
    ({"vllm": {"available_models": ["a"], "default_model_index": 1}},
     "config.json: vllm.default_model_index: 1, and the last of available_models is 0"),
    ({"vllm": {"base_url": "gpu 8000"}},
     'config.json: vllm.base_url: expected an address such as gpu:8000 or http://localhost:8000/v1, got "gpu 8000"'),
    ({"models": {"a": {"base_url": "x"}}},
     "config.json: models.a.base_url: this is a setting of the server, not of a model; set vllm.base_url"),
    ({"models": {"a": 1}}, "config.json: models.a: expected an object, got 1"),
    ({"models": {"a": {}}}, "config.json: models.a: it is empty"),
    ({"models": {"a": {"topk": 1}}}, "config.json: models.a.topk: there is no such key; the nearest is vllm.top_k"),
    ({"servers": {"a": {"model": "m"}}}, "config.json: servers.a: it has no base_url"),
    ({"servers": {"a b": {"base_url": "x"}}}, "config.json: servers.a b.base_url: a server's name has letters, digits"),
    ({"servers": {"vllm": {"base_url": "x"}}}, "config.json: servers.vllm.base_url: a server's name has letters, digits"),
    ({"servers": {"a": {"provider": "vertex"}}},
     "config.json: servers.a.provider: vertex has no address of its own; set servers.a.base_url to https://REGION"),
    ({"vllm": {"extra_body": {"messages": []}}}, "config.json: vllm.extra_body: messages is filled in by the program"),
    ({"vllm": {"extra_body": []}}, "config.json: vllm.extra_body: expected an object, got []"),
    ({"vllm": {"headers": {"X-A": 1}}}, "config.json: vllm.headers: expected an object of strings"),
    ({"vllm": {"headers": {"X A": "1"}}}, 'config.json: vllm.headers: "X A" cannot be the name of an HTTP header'),
    ({"vllm": {"headers": {"X-A": "CANARY\n"}}}, "config.json: vllm.headers: X-A holds characters that an HTTP header"),
    ({"serve": {"hosts": ["http://x"]}},
     'config.json: serve.hosts: expected names such as gateway.example, or addresses, got "http://x"'),
    ({"serve": {"hosts": [""]}}, "config.json: serve.hosts: expected names such as gateway.example, or addresses"),
    ({"serve": {"relay": ["sleep"]}}, 'config.json: serve.relay: expected paths such as /sleep, got "sleep"'),
    ({"serve": {"relay": ["/sleep?level=1"]}}, "config.json: serve.relay: expected paths such as /sleep, got"),
    ({"vllm": {"top_p": 2}}, "config.json: vllm.top_p: expected at most 1, got 2"),
    ({"workspace": {"dir": "/nowhere/at/all"}}, 'config.json: workspace.dir: there is no folder "/nowhere/at/all"'),
    ({"workspace": {"dir": ""}}, 'config.json: workspace.dir: there is no folder ""'),
    ({"workspace": {"dir": "~nosuchuser/x"}}, 'config.json: workspace.dir: there is no folder "~nosuchuser/x"'),
    ({"workspace": {"dir": "a\0b"}}, r'config.json: workspace.dir: there is no folder "a\u0000b"'),
    ({"workspace": {"dir": "a" * 5000}}, "config.json: workspace.dir: there is no folder"),
    ({"vllm": {"ssl_verify": "~nosuchuser/x"}}, 'config.json: vllm.ssl_verify: there is no file "~nosuchuser/x"'),
    ({"tools": {"modules": ["~nosuchuser/x.py"]}}, 'config.json: tools.modules: there is no file "~nosuchuser/x.py"'),
    ({"tools": {"commands": ["a\0b"]}}, r'config.json: tools.commands: there is no file "a\u0000b"'),
    ({"tools": {"modules": ["\ud800"]}}, "config.json: tools.modules: there is no file"),
    ({"vllm": {"timeout": 1e12}}, "config.json: vllm.timeout: expected at most 604800, got 1000000000000.0"),
    ({"security": {"exec_timeout": 604801}}, "config.json: security.exec_timeout: expected at most 604800, got 604801"),
    ({"workspace": {"max_file_size_mb": 1e300}}, "config.json: workspace.max_file_size_mb: expected at most 10000, got"),
    ({"vllm": {"api_key": ["CANARY"]}}, "config.json: vllm.api_key: expected a string"),
    ({"vllm": []}, "config.json: vllm: expected an object, got []"),
    ([], "config.json: expected an object of sections, got []"),
    ('{"vllm": {"timeout": NaN}}', "config.json: vllm.timeout: expected a number, got NaN"),
    ('{"vllm": {"timeout": 1e999}}', "config.json: vllm.timeout: expected a number, got Infinity"),
    ('{"vllm": {"timeout": 1' + "0" * 400 + "}}", "config.json: vllm.timeout: expected a number, got 1" + "0" * 59 + "..."),
    ('{"vllm": {\n  model: "m"}}', "config.json: line 2, column 3: Expecting property name enclosed in double quotes"),
    ("", "config.json: line 1, column 1: Expecting value"),
    ("[" * 100_000, "config.json: cannot be read"),
    ('{"vllm": {"timeout": ' + "1" * 5000 + "}}", "config.json: cannot be read: Exceeds the limit"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "said"), WRONG, ids=[row[1][13:80] for row in WRONG])
def test_what_is_wrong_in_a_file_is_one_line_with_file_and_key(content, said, write):
    assert refusal(write(content)).startswith(said)


BROKEN_YAML = [
    ("vllm:\n  model: [a\n", "c.yaml: line 3, column 1: "),
    ("a: b: c", "c.yaml: line 1, column 5: mapping values are not allowed here"),
    ("a: \0", "c.yaml: unacceptable character"),
    ("a: !!int x", "c.yaml: cannot be read: invalid literal for int()"),
    ("!!python/object:os.system {}", "c.yaml: line 1, column 1: could not determine a constructor"),
    ("", "c.yaml: expected an object of sections, got null"),
    ("agent:\n", "c.yaml: agent: expected an object, got null"),
    ("vllm: &a [*a]", "c.yaml: vllm: expected an object, got [[...]]"),
    ("vllm: {extra_body: &e {a: *e}}", "c.yaml: vllm.extra_body: it holds what JSON cannot"),
    ("vllm: {extra_body: {a: !!set {b}}}", "c.yaml: vllm.extra_body: it holds what JSON cannot"),
    ("vllm: {extra_body: {a: .nan}}", "c.yaml: vllm.extra_body: it holds what JSON cannot"),
    (
        "vllm:\n  model: a\n  model: b\n",
        'c.yaml: line 3, column 3: "model" stands twice in one object',
    ),
    ("tools: {mcp: [{name: !!binary aGk=}]}", "c.yaml: tools.mcp: it holds what JSON cannot"),
    ("vllm: [{2024-01-01: 1}]", 'c.yaml: vllm: expected an object, got [{"2024-01-01": 1}]'),
]


@pytest.mark.parametrize(("content", "said"), BROKEN_YAML, ids=[row[1] for row in BROKEN_YAML])
def test_what_is_wrong_in_yaml_is_one_line_too(content, said, write):
    assert refusal(write(content, "c.yaml")).startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1: {}", "c.yaml: 1: there is no such section; `vllm-bot config` lists all"),
        ("vllm: {1: 1}", "c.yaml: vllm.1: there is no such key; `vllm-bot config` lists all"),
        ("vllm: {null: 1}", "c.yaml: vllm.None: there is no such key; `vllm-bot config` lists all"),
        ("system_prompt: {x: 1}", "c.yaml: system_prompt.x: there is no such key; `vllm-bot config` lists all"),
    ],
)
def test_only_what_is_near_is_called_the_nearest(content, said, write):
    assert refusal(write(content, "c.yaml")) == said


def test_a_loop_of_links_is_not_a_folder(tmp_path, write):
    (tmp_path / "loop").symlink_to("loop")
    assert "workspace.dir: there is no folder" in refusal(write({"workspace": {"dir": str(tmp_path / "loop")}}))


def test_a_missing_or_unreadable_file_is_reported(tmp_path, write):
    assert refusal(tmp_path / "no.json") == "no.json: there is no such file"
    assert refusal(write("", "settings.toml")) == "settings.toml: settings are read from a .json, .yaml or .yml file"
    (tmp_path / "folder.json").mkdir()
    assert refusal(tmp_path / "folder.json") == "folder.json: Is a directory"
    (tmp_path / "latin.json").write_bytes(b'{"\xff": 1}')
    assert refusal(tmp_path / "latin.json").startswith("latin.json: cannot be read: it is no UTF-8 text")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"vllm": {"timeout": 5,}}', "no comma behind the last entry"),
        ("// mine\n{}", "JSON has no comments"),
        ("", "the file is empty"),
        ('{"vllm": {"model": "a"}, "vllm": {}}', 'cannot be read: "vllm" stands twice in one object'),
    ],
)
def test_what_people_write_for_json_is_answered_with_what_json_is(text, said, write):
    assert said in refusal(write(text))


def test_a_default_file_that_cannot_be_read_is_not_skipped(tmp_path):
    """In no checkout, whose own file comes first."""
    for room in ("config", "types"):
        shutil.copytree(ROOT / "src" / room, tmp_path / "bot" / room)
    for module in ("errors.py", "beneath.py"):
        shutil.copy(ROOT / "src" / module, tmp_path / "bot")
    (tmp_path / "vllm-bot" / "config.json").mkdir(parents=True)
    code = "import sys; from bot.config import load; load(None, {}, {'XDG_CONFIG_HOME': sys.argv[1]})"
    command = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "vllm-bot/config.json: Is a directory" in ran.stderr


ADDRESSES = ["", "ftp://h/v1", "http://", "http:///v1", "http://h:99999/v1", "http://h:0/v1", "http://h/v1?a=1",
             "http://h /v1", "http://h/v1\n", "http://[::1/v1", "http://h/v1#x"]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_value_that_is_not_an_http_address_is_refused_from_every_source(address, write):
    assert "expected an address such as" in refusal(write({}), {"vllm.base_url": address})
    if address and address == address.strip():
        assert refusal(write({}), {}, {"VLLM_BASE_URL": address}).startswith("environment variable VLLM_BASE_URL: ")


@pytest.mark.parametrize("address", ["gpu", "gpu:8000", "gpu:8000/v1", "[::1]:8000", "http://gpu"])
def test_an_address_that_lacks_something_is_taken_as_it_is_and_completed_later(address, write):
    assert load(write({}), {"vllm.base_url": address}, {}).vllm.base_url == address


@pytest.mark.parametrize(
    "address", ["http://me:CANARY@h/v1", "http://CANARY@h/v1", "me:CANARY@h:8000/v1", "http://me:CAN/ARY@h/v1"]
)
def test_an_address_holds_no_password_and_none_is_shown(address, write):
    said = refusal(write({"vllm": {"base_url": address}}))
    assert "VLLM_API_KEY" in said
    assert "CAN" not in said


@pytest.mark.parametrize(
    "key", ["CANARY\nX-More: 1", "CANARY KEY", "CANARY\t1", "CANARY\0", "CANARY\u20ac", "CANARY\x85x"]
)
def test_a_key_that_no_header_holds_is_refused_and_not_shown(key, write):
    for said in (refusal(write({"vllm": {"api_key": key}})), refusal(write({}), {}, {"VLLM_API_KEY": key})):
        assert "vllm.api_key" in said
        assert "CANARY" not in said


def test_the_line_end_a_key_was_pasted_with_is_dropped_in_a_file_too(write):
    assert load(write({"vllm": {"api_key": " k\xe9y\r\n"}}), {}, {}).vllm.api_key == "k\xe9y"


def test_the_command_line_is_named_as_the_place(write):
    said = refusal(write({}), {"workspace.dir": "/nowhere"})
    assert said == 'command line: workspace.dir: there is no folder "/nowhere"'


# The provider


@pytest.mark.parametrize("provider", [name for name, address in BASE_URLS.items() if address])
def test_where_no_address_is_given_it_is_the_providers_own(provider, write):
    assert load(write({"vllm": {"provider": provider}}), {}, {}).vllm.base_url == BASE_URLS[provider]


def test_an_address_that_is_given_stands_whatever_the_provider(write):
    file = write({"vllm": {"provider": "anthropic", "base_url": "http://gpu:8000/v1"}})
    assert load(file, {}, {}).vllm.base_url == "http://gpu:8000/v1"
    assert load(file, {}, {"VLLM_BASE_URL": "http://other/v1"}).vllm.base_url == "http://other/v1"


def test_vertex_has_no_address_of_its_own_and_the_shape_of_one_is_shown(write):
    said = refusal(write({"vllm": {"provider": "vertex"}}))
    assert "vllm.provider: vertex has no address of its own; set vllm.base_url to https://REGION-" in said


def test_a_provider_there_is_not_is_refused_with_those_there_are(write):
    said = refusal(write({"vllm": {"provider": "bard"}}))
    known = "vllm, openai, ollama, anthropic, gemini, vertex, copilot"
    assert said.endswith(f'vllm.provider: expected one of {known}, got "bard"')


# The documentation


def table() -> str:
    """The table of docs/configuration.md, from the fields."""
    rows = ["| key | holds | default | what it is for |", "|---|---|---|---|"]
    for key, setting in SETTINGS.items():
        holds = KINDS[setting.type].name.removeprefix("an ").removeprefix("a ")
        limits = (("at least", setting.option.least), ("at most", setting.option.most))
        bound = "".join(f", {name} {limit:g}" for name, limit in limits if limit is not None)
        default = json.dumps(setting.default)
        rows.append(f"| `{key}` | {holds}{bound} | `{default}` | {setting.option.about} |")
    return "\n".join(rows)


def test_the_documentation_lists_every_key_as_it_is():
    assert table() in (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8"), f"it should hold:\n{table()}"


class TestMcpServers:
    """What runs outside the sandbox is not the model's to write."""

    @pytest.fixture
    def load_server(self, write, tmp_path):
        """The command of a server and the files that its words protect, with `F` for the settings file's folder."""
        (tmp_path / "work" / "own").mkdir(parents=True)
        for name in ("srv.py", "work/here.py", "work/srv.py", "work/own/srv.py", "python", "server.json"):
            (tmp_path / name).write_text("")

        def load_server(row: dict) -> tuple[object, set[str]]:
            path = write({"tools": {"mcp": [{"name": "a", **row}]}, "workspace": {"dir": str(tmp_path / "work")}})
            settings = load(path, {}, {})
            (kept,) = settings.tools.mcp
            usual = set(load(write({}), {}, {}).files)
            command, args = json.loads(
                json.dumps([kept.get("command"), kept.get("args", [])]).replace(str(tmp_path), "F")
            )
            files = {str(each).replace(str(tmp_path), "F") for each in settings.files if each not in usual}
            return [*(command if isinstance(command, list) else [command]), *args], files

        return load_server

    @pytest.mark.parametrize(
        ("row", "command", "files"),
        [
            ({"command": ["python", "srv.py"]}, ["python", "F/srv.py"], {"F/srv.py", "F/work/srv.py"}),
            ({"command": "python", "args": ["srv.py"]}, ["python", "F/srv.py"], {"F/srv.py", "F/work/srv.py"}),
            ({"command": "./srv.py"}, ["F/srv.py"], {"F/srv.py", "F/work/srv.py"}),
            ({"command": ["python", "here.py"]}, ["python", "here.py"], {"F/work/here.py"}),
            ({"command": ["python", "srv.py"], "cwd": "own"}, ["python", "srv.py"], {"F/work/own/srv.py"}),
            ({"command": ["x", "--config=server.json"]}, ["x", "--config=server.json"], {"F/server.json"}),
            ({"command": ["x", "none", "a\0b", "x" * 5000, "."]}, ["x", "none", "a\0b", "x" * 5000, "."], set()),
            ({"command": ["sh", "bin/none.sh"]}, ["sh", "bin/none.sh"], {"F/work/bin/none.sh"}),
            ({"command": ["x", "--config=none.json"]}, ["x", "--config=none.json"], {"F/work/none.json"}),
            ({"command": 5, "args": [5]}, [5, 5], set()),
        ],
    )
    def test_the_files_that_a_command_names_are_protected(self, load_server, row, command, files):
        assert load_server(row) == (command, files)

    @pytest.mark.parametrize("event", ["before_call", "after_call", "turn_end"])
    def test_the_files_that_a_hook_names_are_protected(self, write, tmp_path, event):
        (tmp_path / "guard.py").write_text("")
        settings = load(write({"hooks": {event: [{"command": ["python3", "guard.py"]}]}}), {}, {})
        assert getattr(settings.hooks, event)[0]["command"] == ["python3", str(tmp_path / "guard.py")]
        assert tmp_path / "guard.py" in settings.files

    def test_a_workspace_brings_no_hooks(self, tmp_path):
        content = json.dumps({"hooks": {"before_call": [{"command": "true"}]}})
        for name in ("config.json", "vllm-bot.json", ".vllm-bot.json", ".vllm-bot/config.json"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content)
        assert load(None, {"workspace.dir": str(tmp_path)}, {}).hooks == HookSettings()

    @pytest.mark.parametrize("place", ["top", "tools"])
    def test_the_usual_spelling_is_read_beside_the_own(self, write, place):
        usual = {"mcpServers": {"files": {"command": "mcp-files", "args": ["."]}}}
        own = {"tools": {"mcp": [{"name": "wiki", "url": "http://x"}]}}
        content = usual | own if place == "top" else {"tools": usual | own["tools"]}
        assert load(write(content), {}, {}).tools.mcp == (
            {"name": "wiki", "url": "http://x"},
            {"name": "files", "command": "mcp-files", "args": ["."]},
        )

    def test_the_usual_spelling_is_read_beside_a_section_in_which_nothing_is_left(self, write):
        file = write("tools:\n  # search: always\nmcpServers: {files: {command: mcp-files}}\n", "c.yaml")
        assert load(file, {}, {}).tools.mcp == ({"name": "files", "command": "mcp-files"},)

    def test_a_list_under_the_usual_spelling_is_refused(self, write):
        assert refusal(write({"mcpServers": [{"command": "x"}]})) == (
            "config.json: mcpServers: expected an object of servers by name, each an object"
        )


# Folders added to the workspace


@pytest.fixture
def folders(tmp_path):
    for name in ("ws/sub", "lib"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_added_folders_are_resolved_once(folders):
    (folders / "link").symlink_to(folders / "lib")
    named = [str(folders / "link"), str(folders / "lib")]
    settings = load(None, {"workspace.dir": str(folders / "ws"), "workspace.add_dirs": named}, {})
    assert settings.added == (folders / "lib",)


def test_an_added_folder_that_is_missing_is_named(folders):
    assert "there is no folder" in refusal(None, {"workspace.add_dirs": [str(folders / "no")]})


def test_one_of_a_file_is_left_out_where_it_is_the_workspace_or_in_or_around_it(folders, write):
    named = [folders, folders / "ws", folders / "ws" / "sub", folders / "lib"]
    file = write({"workspace": {"add_dirs": list(map(str, named))}})
    assert load(file, {"workspace.dir": str(folders / "ws")}, {}).added == (folders / "lib",)
