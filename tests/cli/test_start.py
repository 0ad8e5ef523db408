"""From settings to what a conversation needs."""

from __future__ import annotations

import pytest

from src.cli import start
from src.config import Security, Settings


@pytest.mark.parametrize("enabled", [True, False])
def test_exec_is_offered_where_commands_are_switched_on(enabled):
    tools = start.tools(Settings(security=Security(exec_enabled=enabled)))
    offered = {each.name for each in tools.definitions}
    assert ("exec" in offered, "read" in offered) == (enabled, True)
