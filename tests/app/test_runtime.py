"""From settings to a running agent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from src.app.runtime import make_policy, make_tools
from src.config import SecuritySettings, Settings
from src.config.settings import ToolSettings
from src.types.messages import ToolCall


@pytest.mark.parametrize("enabled", [True, False])
def test_exec_is_offered_where_commands_are_switched_on(enabled):
    tools = make_tools(Settings(security=SecuritySettings(exec_enabled=enabled)))
    offered = {each.name for each in tools.definitions}
    assert ("exec" in offered, "read" in offered) == (enabled, True)


def test_a_server_whose_tool_has_a_taken_name_is_reported_and_breaks_nothing(tmp_path):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    program = str(Path(__file__).parents[1] / "tools" / "mcp_server.py")
    row = {"name": "todo", "command": [sys.executable, program, "write"]}
    tools = make_tools(Settings(root=tmp_path, tools=ToolSettings(mcp=(row,))))
    assert ("todo_add" in tools, tools.risk("todo_write")) == (True, "low")
    assert any("todo_write" in notice for notice in tools.notices)


@pytest.mark.parametrize("profile", ["workspace", "full"])
def test_what_was_always_allowed_is_not_for_the_model_to_write(tmp_path, monkeypatch, profile):
    """Where the workspace is the home, the state lies in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    settings = Settings(root=tmp_path, security=SecuritySettings(profile=profile))
    call = ToolCall("1", "write", {"path": ".local/state/vllm-bot/allowed.json", "content": "{}"})
    assert make_policy(settings).decide(call, "high").action == "deny"
