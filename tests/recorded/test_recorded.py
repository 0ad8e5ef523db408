"""The program does what it did at commit 6e7a888: requests, output, journals. data/ holds the recordings.

Since then one thing was meant to change: an answer's pieces are collected to 256 characters before they are written.
Each provider, way of calling and front end is replayed once; `--hypothesis-profile many` replays all scenarios.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest

from tests.each import check_rows
from tests.thorough import is_thorough

from . import storage
from .asking import DATA
from .program import World
from .scenarios import KINDS, list_scenarios

EACH_ONCE = {
    "requests": (
        "vllm native", "vllm text", "vllm tools refused", "vllm new", "vllm roles merged", "vllm constrained on",
        "vllm compaction", "openai native", "ollama native", "anthropic native", "anthropic text whole", "gemini native",
        "vertex text whole", "copilot native whole", "review",
    ),
    "turns": ("native json", "text after 400 debug 1", "leaked allowed", "lost stream-json", "malformed debug 2", "parallel json"),
    "command_line": ("help", "tools", "config from everywhere", "policy ask", "unauthorized"),
    "sessions": ("written", "every-kind"),
}  # fmt: skip


@cache
def load_recorded(kind: str) -> dict[str, Any]:
    return storage.load(DATA / f"{kind}.json")


CASES = [(kind, name) for kind in KINDS for name in (load_recorded(kind) if is_thorough() else EACH_ONCE[kind])]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}: {name}" for kind, name in CASES])
def test_a_scenario_comes_out_as_recorded(kind, name, tmp_path):
    if name.endswith("help") and sys.version_info >= (3, 13):
        pytest.skip("argparse lists options in another way from Python 3.13 on")
    found = list_scenarios(kind)[name](World(tmp_path / "world"))
    assert storage.find_difference(load_recorded(kind)[name], found) == ""


@check_rows("kind", KINDS)
def test_every_scenario_is_recorded(kind):
    assert list(load_recorded(kind)) == list(list_scenarios(kind))
