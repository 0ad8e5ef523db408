"""The rows of `tools.mcp`: what is wrong is named with its place, and what other programs write is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.errors import ConfigError
from src.tools.sources.mcp_config import McpServerConfig, parse_servers
from tests.each import check_rows

WRONG = [
    ({"name": "a b", "url": "http://x"}, "name is 1 to 32 letters"),
    ({"url": "http://x"}, "name is missing"),
    ({"name": "a"}, "either command"),
    ({"name": "a", "url": "http://x", "command": "y"}, "either command"),
    ({"name": "a", "command": 5}, "command is a program"),
    ({"name": "a", "command": ["x", 5]}, "command is a program"),
    ({"name": "a", "command": ""}, "command is a program"),
    ({"name": "a", "command": "x", "args": 5}, "args is a list of strings"),
    ({"name": "a", "command": "python srv.py"}, 'write its arguments apart: "command": ["python", "srv.py"]'),
    ({"name": "a", "command": "python 'srv.py"}, """"command": ["python", "'srv.py"]"""),
    ({"name": "a", "url": "http://x", "type": "sse"}, "type is stdio, http or streamable-http"),
    ({"name": "a", "url": "http://x", "disabled": "no"}, "disabled is true or false"),
    ({"name": "a", "command": "x", "args": "abc"}, "args is a list of strings"),
    ({"name": "a", "command": "x", "cwd": 5}, "cwd is a folder"),
    ({"name": "a", "url": "ftp://x"}, "url is an http"),
    ({"name": "a", "url": "http://x", "risk": "none"}, "risk is high, low or annotations"),
    ({"name": "a", "url": "http://x", "timeout": 0}, "timeout is a number of seconds"),
    ({"name": "a", "url": "http://x", "timeout": True}, "timeout is a number of seconds"),
    ({"name": "a", "url": "http://x", "headers": {"A": "${NOWHERE}"}}, "no environment variable NOWHERE"),
    ({"name": "a", "url": "http://x", "headers": {"A": "$"}}, "write $$"),
    ({"name": "a", "url": "http://x", "headers": 5}, "headers is an object of strings"),
    ({"name": "a", "url": "http://x", "port": 5}, "there is no key 'port'"),
]


@check_rows("row, said", WRONG)
def test_a_wrong_setting_is_named_by_its_place(row, said):
    with pytest.raises(ConfigError) as error:
        parse_servers([row], {}, Path("/"))
    assert str(error.value).startswith("tools.mcp[0]: ")
    assert said in str(error.value).replace("tools.mcp[0]: ", "")


def test_two_servers_have_two_names():
    with pytest.raises(ConfigError, match="two servers have the name 'a'"):
        parse_servers([{"name": "a", "url": "http://x"}] * 2, {}, Path("/"))


def test_a_command_may_stand_in_one_list():
    (spec,) = parse_servers([{"name": "a", "command": ["x", "y"], "args": ["z"]}], {}, Path("/w"))
    assert spec == McpServerConfig("a", ("x", "y", "z"), {}, "/w")


def test_what_other_programs_write_of_a_server_is_read():
    rows = [{"name": "a", "type": "stdio", "command": "x", "args": [], "env": {}}, {"name": "b", "disabled": True}]
    assert parse_servers(rows, {}, Path("/w")) == [McpServerConfig("a", ("x",), {}, "/w")]


def test_a_program_whose_path_has_a_space_is_one(tmp_path):
    program = tmp_path / "my server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for command in ("my server", str(program)):
        assert parse_servers([{"name": "a", "command": command}], {}, tmp_path)[0].command == (command,)
