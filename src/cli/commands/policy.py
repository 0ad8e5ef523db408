"""`vllm-bot policy`: try rules on tool calls without running them."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...app.runtime import make_policy, make_tools
from ..arguments import load_settings

if TYPE_CHECKING:
    from ...security.permissions.policy import Decision
    from ...types.messages import ToolCall

EXIT_UNREADABLE = 2


class UnreadableLine(NamedTuple):
    """Why a line is not a call."""

    reason: str


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'Standard input: one call a line, e.g. {"tool": "exec", "arguments": {"command": "ls | wc -l"}}. Standard '
        'output: one decision a line, {"decision": "allow", "ask" or "deny", "reason": ..., "rule": ...}. A line that '
        "is no call is denied, and the exit code is then 2."
    )


def run_policy(given: argparse.Namespace) -> int:
    """Raises ConfigError."""
    settings = load_settings(given)
    policy, registry = make_policy(settings), make_tools(settings)
    code = 0
    for call in _read_calls():
        if isinstance(call, UnreadableLine):
            code = EXIT_UNREADABLE
            _print("deny", call.reason, "input")
        elif call.name not in registry:
            _print("deny", f"there is no tool {call.name}", "tools")
        else:
            decision: Decision = policy.decide(call, registry.risk(call.name))
            _print(*decision)
    return code


def _print(decision: str, reason: str, rule: str) -> None:
    print(json.dumps({"decision": decision, "reason": reason, "rule": rule}), flush=True)


def _read_calls() -> Iterator[ToolCall | UnreadableLine]:
    # Bytes: no locale's encoding, and lines end at \n alone, whatever else str.splitlines() would take for an end.
    for number, line in enumerate(sys.stdin.buffer, start=1):
        said = line.removeprefix(codecs.BOM_UTF8).strip()
        if said:
            yield _parse_call(number, said.decode("utf-8", "surrogateescape"))


def _parse_call(number: int, line: str) -> ToolCall | UnreadableLine:
    from ...types.messages import ToolCall
    from ...types.strict_json import loads_strict

    try:
        said = loads_strict(line)
    except (ValueError, RecursionError) as error:
        return UnreadableLine(f"line {number} is not valid JSON: {error}")
    if not isinstance(said, dict):
        return UnreadableLine(f"line {number} is not an object")
    name, given = said.get("tool"), said.get("arguments", {})
    if not isinstance(name, str) or not isinstance(given, dict):
        return UnreadableLine(f'line {number} is not a call: "tool" must be a string, "arguments" an object')
    return ToolCall(str(number), name, given, echo=said.get("echo") is True)
