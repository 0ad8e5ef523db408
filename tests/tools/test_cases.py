"""The cases of paths in ../shared/facts/io_cases.json, each by a call of a tool; and what all tools cost in a prompt."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from src.parsing import render_instructions
from src.tools import REGISTRY, TOOL_DEFINITIONS

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts" / "io_cases.json"
ELSEWHERE = {"redos"}  # takes 10 seconds; test_grep.py has it with fewer
GIVEN = json.loads(FACTS.read_text()) if FACTS.exists() else []
CASES = [case for case in GIVEN if case["kind"] == "path" and case["class"] not in ELSEWHERE]
SECRET = "CANARY"


@pytest.fixture
def tree(workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    for name in ("a.txt", "my file.txt"):
        (workspace / name).write_text("alpha\n")
    (workspace / "link_file").symlink_to("../outside/secret.txt")
    (workspace / "link_new").symlink_to("../outside/new")
    os.link(tmp_path / "outside" / "secret.txt", workspace / "hard")
    (workspace / "latin1.txt").write_bytes("grün\r\nx".encode("latin-1"))
    with (workspace / "huge_5GB.txt").open("wb") as huge:
        huge.write(b"line\n" * 1_000_000)
        huge.truncate(5_000_000_000)
    return tmp_path


def call_of(case: dict) -> tuple[str, dict]:
    """The call that a case speaks of."""
    said, kind = case["input"], case["class"]
    path = "hard" if kind == "hardlink" else said.partition(" (")[0]
    if kind == "glob":
        return "glob", {"pattern": said.removeprefix("glob pattern ")}
    if kind == "encoding":
        return "edit", {"path": "latin1.txt", "oldText": "grün\nx", "newText": "grün\nü"}
    if kind == "self-config":
        return "write", {"path": "config.json", "content": "{}"}
    if "write)" in said:
        return "write", {"path": path, "content": "new"}
    return "read", {"path": path}


ENDS = {  # how a case may end
    "allow": {"text"},
    "deny": {"error"},
    "deny-or-warn": {"text", "error"},
    "not-expanded": {"error"},
    "ask": {"error"},  # the approval asks; the tool itself never writes there
    "error-result": {"error"},
    "bounded": {"text", "error"},
    "preserve": {"text"},
}


@pytest.mark.skipif(not CASES, reason="the cases in ../shared are not part of this repository")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["class"])
def test_a_path_ends_as_it_must(case, run, tree, workspace):
    name, arguments = call_of(case)
    guarded = {"protected": (workspace / "config.json",), "max_file_bytes": 1_000_000}
    result = run(name, guarded, **arguments)
    assert result.kind in ENDS[case["expected"]], result.value
    assert SECRET not in result.value
    assert len(result.value) < 60_000
    assert [each.name for each in (tree / "outside").iterdir()] == ["secret.txt"]
    assert (tree / "outside" / "secret.txt").read_text() == SECRET
    if case["expected"] == "preserve":
        assert (workspace / "latin1.txt").read_bytes() == "grün\r\nü".encode("latin-1")
    if case["expected"] == "not-expanded":
        assert "does not exist" in result.value


def test_all_tools_together_take_less_than_two_thousand_tokens_of_a_prompt():
    """By 3.1 characters a token: real tokenizers need fewer tokens, as the rig's."""
    builtin = [
        entry for entry in TOOL_DEFINITIONS if entry["function"]["name"] in {t.definition.name for t in REGISTRY}
    ]
    assert len(json.dumps(builtin, ensure_ascii=False)) / 3.1 < 2_000
    assert len(render_instructions(REGISTRY.definitions)) / 3.1 < 2_000
