"""`vllm-bot policy`: try rules on tool calls without running them."""

from __future__ import annotations

import argparse
import codecs
import json
import sys

from ...app.permissions import defer_sandbox, make_policy
from ...app.toolset import make_tools
from ...errors import ANSWERED, USAGE
from ...security.permissions.policy import Decision, Policy
from ...security.text.sanitize import sanitize
from ...tools.sdk.registry import Registry
from ...types.messages import ToolCall
from ...types.strict_json import loads_strict
from ..load_settings import load_settings

MARKS = ("echo", "guessed")  # of a call, as the parser of answers finds them
WAITING = 'vllm-bot policy waits for calls, such as {"tool": "exec", "arguments": {"command": "ls"}}. Ctrl-D ends it.'


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'Standard input: one call a line, e.g. {"tool": "exec", "arguments": {"command": "ls | wc -l"}}. Standard '
        'output: one decision a line, {"decision": "allow", "ask" or "deny", "reason": ..., "rule": ..., '
        '"access": what a command could do, "mode": ...}. A line that is no call is denied, and the exit code '
        "is then 2."
    )


def run_policy(options: argparse.Namespace) -> int:
    """Raises ConfigError."""
    settings = load_settings(options)
    policy, registry = make_policy(settings, defer_sandbox(settings)), make_tools(settings)
    code = ANSWERED
    for notice in registry.notices:
        print(f"! {sanitize(notice)}", file=sys.stderr, flush=True)
    if sys.stdin.isatty():
        print(WAITING, file=sys.stderr, flush=True)
    # Bytes: no locale's encoding, and lines end at \n alone, unlike those of str.splitlines().
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = line.removeprefix(codecs.BOM_UTF8).strip()
        if not text:
            continue
        try:
            call = _parse_call(text.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            code = USAGE
            _print(Decision("deny", f"line {number} is {error}", "input"), policy.mode)
            continue
        _print(_decide(registry.unwrap(call), registry, policy), policy.mode)
    return code


def _decide(call: ToolCall, registry: Registry, policy: Policy) -> Decision:
    """What holds for the call in a chat, where no hook and no reviewer is against it."""
    if call.name not in registry:
        return Decision("deny", f"there is no tool {call.name}", "tools")
    if error := registry.check(call):
        return Decision("deny", f"it cannot run: {error.text}", "arguments")
    return policy.decide(call, registry.risk(call.name), registry.access(call.name))


def _print(decision: Decision, mode: str) -> None:
    entry = {"decision": decision.action, "reason": decision.reason, "rule": decision.rule}
    print(json.dumps({**entry, "access": decision.access, "mode": mode}), flush=True)


def _parse_call(line: str) -> ToolCall:
    """Raises ValueError, which says what the line is instead of a call."""
    try:
        entry = loads_strict(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    name, arguments = entry.get("tool"), entry.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError('not a call: "tool" must be a string, "arguments" an object')
    marks = {mark: entry.get(mark, False) for mark in MARKS}
    if wrong := [mark for mark, value in marks.items() if not isinstance(value, bool)]:
        raise ValueError(f'not a call: "{wrong[0]}" must be true or false')
    return ToolCall("", name, arguments, **marks)
