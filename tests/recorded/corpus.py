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


def read_attacks() -> dict[str, list[dict[str, Any]]]:
    """By file: the calls."""
    cases = json.loads((SHARED / "facts" / "io_cases.json").read_text(encoding="utf-8"))
    return {"io_cases": [call for case in cases if case["kind"] == "path" for call in _call_file_tools(case)]}


def _call_file_tools(case: dict[str, Any]) -> list[dict[str, Any]]:
    path = case["input"].partition(" (")[0].removeprefix("glob pattern ")
    return [
        {"tool": "read", "arguments": {"path": path}},
        {"tool": "write", "arguments": {"path": path, "content": ""}},
        {"tool": "glob", "arguments": {"pattern": path}},
    ]


def decide(world: World, calls: list[dict[str, Any]], profile: str) -> list[str]:
    """For each call the decision and a digest of its reason and rule, as `vllm-bot policy` gives them."""
    config = world.configure({"security": {"profile": profile}})
    ran = world.run("policy", "--config", config, stdin="".join(f"{json.dumps(call)}\n" for call in calls))
    decisions = [json.loads(line) for line in ran.out.splitlines()]
    if len(decisions) != len(calls):
        raise AssertionError(f"{len(decisions)} decisions for {len(calls)} calls: {ran.err}")
    reasons = [hash_text(world.normalize(f"{each['reason']}\n{each['rule']}")) for each in decisions]
    return [f"{each['decision']} {reason}" for each, reason in zip(decisions, reasons, strict=True)]


def load(name: str) -> list[str]:
    return (DATA / f"{name}.txt").read_text(encoding="ascii").splitlines()
