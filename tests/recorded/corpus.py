"""Digests of what the parser makes of each text of ../shared/corpus, and the policy of each of ../shared/facts.

Nothing of the texts is stored: a case is its place in the file and twelve hexadecimal digits of what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.thorough import sample

from .asking import DATA, hash_text
from .program import World
from .subjects import StreamParser, describe_events, describe_extraction, extract_tool_calls

SHARED = Path(__file__).resolve().parents[3] / "shared"
CORPUS = {"recorded": 40, "peer_cases": 12}  # file -> of so many texts one is parsed, unless all are
CHUNK_CHARS = 7
PROFILES = ("read-only", "ask", "workspace", "full")
NARROW = ["ls", "cat", "pwd", "echo", "grep", "find", "head", "tail", "wc"]
POLICY_STEP = 7  # of so many cases one is decided, unless all are


def read_cases(name: str) -> list[dict[str, Any]]:
    with (SHARED / "corpus" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def choose_places(name: str, count: int) -> Sequence[int]:
    """The places of the cases that are replayed."""
    return sample(range(count), CORPUS.get(name, POLICY_STEP))


def hash_case(case: dict[str, Any]) -> str:
    """Of a text at once, fed whole, and fed in chunks: the calls, and the events but for where text is divided."""
    text, tools = case["text"], case["tools"]
    found = describe_extraction(extract_tool_calls(text, tools))
    whole = describe_events(_feed(text, tools, max(len(text), 1)))
    chunked = describe_events(_feed(text, tools, CHUNK_CHARS))
    return hash_text(json.dumps([found, whole, chunked], sort_keys=True))


def _feed(text: str, tools: Any, size: int) -> list[Any]:
    parser = StreamParser(tools)
    events: list[Any] = []
    for at in range(0, len(text), size):
        events += parser.feed(text[at : at + size])
    return [*events, *parser.close()]


def _build_attacked(world: World) -> None:
    """The folders that the attacks assume."""
    fixture = json.loads((SHARED / "facts" / "exec_fixture.json").read_text(encoding="utf-8"))
    (programs,) = (value for key, value in fixture.items() if key.startswith("executables"))
    for name, text in {**fixture["files"], **dict.fromkeys(programs, "#!/bin/sh\ntouch pwned\n")}.items():
        path = world.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in programs:
        (world.base / name).chmod(0o755)
    for name, target in fixture["symlinks"].items():
        (world.base / name).symlink_to(target)


def read_attacks() -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """By file: the settings of each case, and its call."""
    facts = {
        name: json.loads((SHARED / "facts" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("exec_commands", "exec_commands_2", "io_cases")
    }
    narrow = {"allowed_commands": NARROW}
    return {
        "exec_commands": [(narrow, _call_exec(case)) for case in facts["exec_commands"]],
        "exec_commands_2": [(case["config"], _call_exec(case)) for case in facts["exec_commands_2"]],
        "io_cases": [
            ({}, call) for case in facts["io_cases"] if case["kind"] == "path" for call in _call_file_tools(case)
        ],
    }


def _call_exec(case: dict[str, Any]) -> dict[str, Any]:
    return {"tool": "exec", "arguments": {"command": case["command"]}}


def _call_file_tools(case: dict[str, Any]) -> list[dict[str, Any]]:
    path = case["input"].partition(" (")[0].removeprefix("glob pattern ")
    return [
        {"tool": "read", "arguments": {"path": path}},
        {"tool": "write", "arguments": {"path": path, "content": ""}},
        {"tool": "glob", "arguments": {"pattern": path}},
    ]


def decide(world: World, cases: list[tuple[dict[str, Any], dict[str, Any]]], profile: str) -> list[str]:
    """For each case the decision and a digest of its reason and rule, as `vllm-bot policy` gives them."""
    _build_attacked(world)
    decided: dict[int, str] = {}
    by_settings: dict[str, list[int]] = {}
    for at, (security, _) in enumerate(cases):
        by_settings.setdefault(json.dumps({**security, "profile": profile}), []).append(at)
    for security, found in by_settings.items():
        config = world.configure({"security": json.loads(security)})
        lines = "".join(f"{json.dumps(cases[at][1])}\n" for at in found)
        ran = world.run("policy", "--config", config, stdin=lines)
        decisions = [json.loads(line) for line in ran.out.splitlines()]
        if len(decisions) != len(found):
            raise AssertionError(f"{len(decisions)} decisions for {len(found)} calls: {ran.err}")
        for at, decision in zip(found, decisions, strict=True):
            reason = world.normalize(f"{decision['reason']}\n{decision['rule']}")
            decided[at] = f"{decision['decision']} {hash_text(reason)}"
    return [decided[at] for at in range(len(cases))]


def load(name: str) -> list[str]:
    return (DATA / f"{name}.txt").read_text(encoding="ascii").splitlines()
