"""Turns with calls: the lines of DEBUG, the events of --output, the exit codes, the trace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from . import answers
from .asking import (
    HERMES_CALL,
    NO_TOOLS,
    TEXT_CALL,
    Scenario,
    ask,
    hash_text,
)
from .program import Answer, World


def _ask_about_notes(level: int, answered: Callable[[], list[Answer]], *options: str, **given: Any) -> Scenario:
    def run(world: World) -> Any:
        environment = {"DEBUG": str(level)} if level else {}
        found = ask(world, answered(), "-p", "What is in notes.md?", *options, environment=environment, **given)
        if level:  # the bodies of these requests are recorded without DEBUG
            found["requests"] = [request["request"] for request in found["requests"]]
        return {**found, "err": [_shorten(line) for line in found["err"]]}

    return run


def _shorten(line: str) -> str:
    """A line that holds a body, told by its beginning and a digest."""
    return line if len(line) < 400 else f"{line[:200]} ... {len(line)} characters, sha256 {hash_text(line)}"


def _answer_natively() -> list[Answer]:
    return [
        answers.stream_chat("I will look.", answers.make_call("read", {"path": "notes.md"}), thought="A file."),
        answers.stream_chat("Six."),
    ]


def _answer_after_refusal() -> list[Answer]:
    return [answers.refuse(400, NO_TOOLS), answers.stream_chat(TEXT_CALL), answers.stream_chat("Six.")]


def _leak_call() -> list[Answer]:
    return [answers.stream_chat(HERMES_CALL), answers.stream_chat("Six.")]


def _lose_call() -> list[Answer]:
    """The server's parser swallowed the call: the finish reason speaks of it, and the tokens are there."""
    return [answers.stream_chat("", finish="tool_calls", ids=[1, 2, 3, 4, 5, 6, 7, 8]), answers.stream_chat("Six.")]


def break_calls() -> list[Answer]:
    bad = answers.make_call("read", '{"path": ')
    return [
        answers.stream_chat("", bad),
        answers.stream_chat("", answers.make_call("nothing", {})),
        answers.stream_chat("Six."),
    ]


def make_calls() -> list[Answer]:
    calls = [
        answers.make_call(name, arguments, f"call_{at}", at)
        for at, (name, arguments) in enumerate(
            (
                ("read", {"path": "notes.md"}),
                ("glob", {"pattern": "*"}),
                ("write", {"path": "new.txt", "content": "a\n"}),
                ("exec", {"command": "echo hello"}),
                ("read", {"path": "../out"}),
                ("todo_write", {"todos": []}),
            )
        )
    ]
    return [answers.stream_chat("All at once.", *calls), answers.stream_chat("Done.")]


LOST_ASIDES = answers.serve_vllm_asides(text=HERMES_CALL)
TURNS: dict[str, Scenario] = {
    f"{name} {suffix}": _ask_about_notes(level, answered, *options, asides=asides)
    for name, answered, asides in (
        ("native", _answer_natively, None),
        ("text after 400", _answer_after_refusal, None),
        ("leaked", _leak_call, None),
        ("lost", _lose_call, LOST_ASIDES),
        ("lost without tokens", _lose_call, None),
        ("malformed", break_calls, None),
        ("parallel", make_calls, None),
    )
    for suffix, level, options in (
        ("debug 1", 1, ()),
        ("debug 2", 2, ()),
        ("json", 0, ("--output", "json")),
        ("stream-json", 0, ("--output", "stream-json")),
        ("allowed", 0, ("-y", "--output", "stream-json")),
    )
}
TURNS |= {
    "limit of turns": _ask_about_notes(0, make_calls, "-y", "--max-turns", "1", "--output", "stream-json"),
    "limit of tokens": _ask_about_notes(0, make_calls, "-y", "--max-tokens", "5", "--output", "json"),
    "stdin": _ask_about_notes(1, lambda: [answers.stream_chat("Six.")], stdin="The harbour.\n"),
    "trace": lambda world: _write_trace(world),
}


def _write_trace(world: World) -> Any:
    file = world.home / "trace.jsonl"
    ask(world, _answer_after_refusal(), "-p", "What?", "--trace", str(file))
    text = re.sub(r"127.0.0.1:\d+", "127.0.0.1:{port}", world.normalize(file.read_text(encoding="utf-8")))
    return [json.loads(line) for line in text.splitlines()]
