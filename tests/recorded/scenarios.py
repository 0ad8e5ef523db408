"""All scenarios, by the file of data that holds what came of them."""

from __future__ import annotations

from collections.abc import Callable

from .asking import Scenario
from .command_line import COMMAND_LINE
from .requests import REQUESTS
from .sessions import list_session_scenarios
from .turns import TURNS


def list_scenarios(kind: str) -> dict[str, Scenario]:
    """All of a file of data."""
    groups: dict[str, Callable[[], dict[str, Scenario]]] = {
        "requests": lambda: REQUESTS,
        "turns": lambda: TURNS,
        "command_line": lambda: COMMAND_LINE,
        "sessions": list_session_scenarios,
    }
    return groups[kind]()


KINDS = ("requests", "turns", "command_line", "sessions")
