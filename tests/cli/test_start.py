"""From settings to what a conversation needs."""

from __future__ import annotations

import pytest

from src.cli import start
from src.config import Security, Settings


@pytest.mark.parametrize(("enabled", "offered"), [(True, {"exec"}), (False, set())])
def test_exec_is_offered_where_commands_are_switched_on(enabled, offered):
    tools = start.tools(Settings(security=Security(exec_enabled=enabled)))
    assert {each.name for each in tools.definitions} - {"read", "write", "edit"} == offered
