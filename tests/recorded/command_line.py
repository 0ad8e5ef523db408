"""The command line: help, the JSON that commands print, and what is said of mistakes and failures."""

from __future__ import annotations

import json
from typing import Any

from . import answers
from .asking import (
    API_KEY,
    Scenario,
    ask,
    run_command,
)
from .program import Answer, World, answer_json


def _ask_in_vain(answer: Answer, *options: str, **given: Any) -> Scenario:
    return lambda world: ask(world, [answer], "-p", "Hi.", *options, **given)


def _call_write() -> list[Answer]:
    return [
        answers.stream_chat("", answers.make_call("write", {"path": "a", "content": ""})),
        answers.stream_chat("Then not."),
    ]


NOWHERE = ("--base-url", "http://127.0.0.1:9/v1", "--model", "tiny")
POLICY_LINES = [
    {"tool": "read", "arguments": {"path": "notes.md"}},
    {"tool": "read", "arguments": {"path": "../out"}},
    {"tool": "write", "arguments": {"path": "a.txt", "content": ""}},
    {"tool": "exec", "arguments": {"command": "git status"}},
    {"tool": "exec", "arguments": {"command": "ls; rm -r /"}},
    {"tool": "exec", "arguments": {"command": "ls"}, "echo": True},
    {"tool": "nothing"},
    {"arguments": {}},
]
POLICY_INPUT = "\n".join(map(json.dumps, POLICY_LINES)) + '\nno JSON\n{"tool": "read", "tool": "exec"}\n'
COMMANDS = ("doctor", "models", "tools", "config", "policy", "sessions")


def _decide_without_sandbox(profile: str) -> Scenario:
    """So that every machine decides the same."""

    def run(world: World) -> Any:
        config = world.configure({"security": {"sandbox": "off"}})
        options = ("--config", config, "--profile", profile, "--allow", "exec:git status")
        return run_command("policy", *options, stdin=POLICY_INPUT)(world)

    return run


COMMAND_LINE: dict[str, Scenario] = {
    "help": run_command("--help"),
    "version": run_command("--version"),
    **{f"{name} help": run_command(name, "--help") for name in COMMANDS},
    **{
        f"sessions {name} help": run_command("sessions", name, "--help")
        for name in ("search", "show", "export", "delete", "clean")
    },
    "tools": run_command("tools"),
    "tools without exec": lambda world: run_command(
        "tools", "--config", world.configure({"security": {"exec_enabled": False}})
    )(world),
    "config": run_command("config"),
    "config from everywhere": lambda world: run_command(
        "config",
        "--config",
        world.configure({"vllm": {"retries": 5}}),
        "--model",
        "big",
        "--allow",
        "exec:git status",
        VLLM_API_KEY=API_KEY,
        VLLM_BASE_URL="http://gpu:8000/v1",
    )(world),
    "config wrong key": lambda world: run_command("config", "--config", world.configure({"vllm": {"retrys": 5}}))(
        world
    ),
    "config wrong value": lambda world: run_command("config", "--config", world.configure({"vllm": {"retries": -1}}))(
        world
    ),
    "config no file": run_command("config", "--config", "nowhere.json"),
    **{f"policy {profile}": _decide_without_sandbox(profile) for profile in ("read-only", "ask", "workspace", "full")},
    "wrong option": run_command("--profle", "ask"),
    "wrong command": run_command("docter"),
    "wrong rule": run_command("policy", "--allow", "exec:"),
    "empty question": run_command("-p", " ", *NOWHERE),
    "demo with a server": run_command("--demo", *NOWHERE, "-p", "tour"),
    "no server": run_command("-p", "Hi.", *NOWHERE, "--output", "json"),
    "no session": run_command("-p", "Hi.", *NOWHERE, "--resume", "none"),
    "sessions of nothing": run_command("sessions"),
    "unauthorized": _ask_in_vain(answers.refuse(401, "Unauthorized"), "--output", "json"),
    "unknown path": _ask_in_vain(answer_json(404, {"detail": "Not Found"})),
    "server error": _ask_in_vain(answers.refuse(500, "CUDA error")),
    "not JSON": _ask_in_vain(Answer(200, "application/json", b"<html>")),
    "cut stream": _ask_in_vain(
        Answer(200, "text/event-stream", b'data: {"choices": [{"delta": {"content": "Half"}}]}\n\n')
    ),
    "denied": lambda world: ask(world, _call_write(), "-p", "Write.", "--output", "stream-json"),
    "models": lambda world: ask(world, [], "models"),
}
