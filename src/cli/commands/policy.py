"""`vllm-bot policy`: try rules on tool calls without running them."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...app import factory

if TYPE_CHECKING:
    from ...security.permissions.policy import Decision
    from ...types.messages import ToolCall

EXIT_UNREADABLE = 2


class Unreadable(NamedTuple):
    """Why a line is not a call."""

    reason: str


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'Standard input: one call a line, e.g. {"tool": "exec", "arguments": {"command": "ls | wc -l"}}. Standard '
        'output: one decision a line, {"decision": "allow", "ask" or "deny", "reason": ..., "rule": ...}. A line that '
        "is no call is denied, and the exit code is then 2."
    )


def run(given: argparse.Namespace) -> int:
    """Raises ConfigError."""
    settings = factory.settings_of(given)
    policy, registry = factory.policy(settings), factory.tools(settings)
    code = 0
    for call in _calls():
        if isinstance(call, Unreadable):
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


def _calls() -> Iterator[ToolCall | Unreadable]:
    # Bytes: no locale's encoding, and lines end at \n alone, whatever else str.splitlines() would take for an end.
    for number, line in enumerate(sys.stdin.buffer, start=1):
        said = line.removeprefix(codecs.BOM_UTF8).strip()
        if said:
            yield _call(number, said.decode("utf-8", "surrogateescape"))


def _call(number: int, line: str) -> ToolCall | Unreadable:
    from ...types.messages import ToolCall
    from ...types.strict_json import loads_strict

    try:
        said = loads_strict(line)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"line {number} is not valid JSON: {error}")
    if not isinstance(said, dict):
        return Unreadable(f"line {number} is not an object")
    name, given = said.get("tool"), said.get("arguments", {})
    if not isinstance(name, str) or not isinstance(given, dict):
        return Unreadable(f'line {number} is not a call: "tool" must be a string, "arguments" an object')
    return ToolCall(str(number), name, given, echo=said.get("echo") is True)
