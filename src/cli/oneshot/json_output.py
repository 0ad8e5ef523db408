"""What --output json and stream-json print: one JSON object per line.

`LINES` is the schema: docs/scripts.md is made from it, and a test holds every line printed against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ...errors import FAILED, describe_error
from ...types.ending import describe_ending
from ...types.events import (
    CallDenied,
    CallFinished,
    CallStarted,
    Event,
    Notice,
    ReasoningDelta,
    SubagentStep,
    TextDelta,
    TurnStarted,
)
from .run_report import RunReport


class Member(Struct, frozen=True):
    """`holds`: the JSON types that a value may have, as JSON Schema names them."""

    holds: tuple[str, ...]
    about: str


class LineType(Struct, frozen=True):
    about: str
    fields: Mapping[str, Member]


TEXT, NUMBER, INTEGER, OBJECT = ("string",), ("number",), ("integer",), ("object",)
ANYTHING = ("string", "number", "boolean", "object", "array", "null")
ID = Member(TEXT, "identifies the call; the same in `call`, `denied` and `result`")
NAME = Member(TEXT, "name of the tool; empty if it could not be read")

LINES: Mapping[str, LineType] = {
    "start": LineType("once, when the server and the model are known", {
        "version": Member(TEXT, "version of this program"),
        "server": Member(TEXT, "address of the server"),
        "model": Member(TEXT, "name of the model"),
        "workspace": Member(TEXT, "the folder the tools work in"),
    }),
    "turn": LineType("the model is asked", {"number": Member(INTEGER, "counting from 1")}),
    "text": LineType("a piece of what the model says", {
        "text": Member(TEXT, "the pieces of a turn, joined, are its text"),
    }),
    "thought": LineType("a piece of what the model thinks", {"text": Member(TEXT, "as in `text`")}),
    "call": LineType("a tool begins to run", {"id": ID, "name": NAME, "arguments": Member(OBJECT, "values by name")}),
    "denied": LineType("a call may not run", {
        "id": ID,
        "name": NAME,
        "reason": Member(TEXT, "who or what refused it"),
    }),
    "result": LineType("the outcome of a call, including one that was denied or could not be read", {
        "id": ID,
        "name": NAME,
        "kind": Member(TEXT, "text, data, error or multimodal"),
        "value": Member(ANYTHING, "what the model is told"),
    }),
    "task": LineType("what a subagent does while the call of `task` that started it runs", {
        "id": Member(TEXT, "identifies the call of `task`"),
        "step": Member(OBJECT, "a line of type `call` or `result`, of the subagent's own calls"),
    }),
    "notice": LineType("something the user should know", {"text": Member(TEXT, "one or two lines")}),
    "end": LineType("once, at the end; the only line of --output json", {
        "exit_code": Member(INTEGER, "exit code of the program, see the table above"),
        "answer": Member(TEXT, "the model's final answer; may be empty"),
        "stop_reason": Member(TEXT, "end_turn, tool_use, max_tokens, repetition, other; empty if none was completed"),
        "provider_stop_reason": Member(TEXT, "the provider's word for a reason not in that list, e.g. content_filter"),
        "model": Member(TEXT, "as the server names it, else as requested"),
        "turns": Member(INTEGER, "how often the model was asked"),
        "calls": Member(INTEGER, "how many tools ran"),
        "denied": Member(INTEGER, "how many calls were not allowed"),
        "input_tokens": Member(INTEGER, "of all turns, as counted by the server"),
        "output_tokens": Member(INTEGER, "as `input_tokens`"),
        "kept": Member(("number", "null"), "share of prompt and answer that the next prompt began with; null: unknown"),
        "breaks": Member(OBJECT, "why a prompt did not begin with all of the last one, and how often"),
        "seconds": Member(NUMBER, "from the first request to the end"),
        "limit": Member(("string", "null"), "the limit that was reached"),
        "error": Member(("string", "null"), "what went wrong, and what to do next"),
    }),
}  # fmt: skip

_EVENTS: Mapping[type, Callable[[Any], tuple[str, dict[str, Any]]]] = {
    TurnStarted: lambda event: ("turn", {"number": event.number}),
    TextDelta: lambda event: ("text", {"text": event.text}),
    ReasoningDelta: lambda event: ("thought", {"text": event.text}),
    CallStarted: lambda event: (
        "call",
        {"id": event.call.id, "name": event.call.name, "arguments": dict(event.call.arguments)},
    ),
    CallDenied: lambda event: ("denied", {"id": event.call.id, "name": event.call.name, "reason": event.reason}),
    CallFinished: lambda event: (
        "result",
        {"id": event.call.id, "name": event.call.name, "kind": event.result.kind, "value": event.result.value},
    ),
    Notice: lambda event: ("notice", {"text": event.text}),
}


def format_event(event: Event) -> str:
    """An event as a line of stream-json; "" if it only counts towards `end`."""
    if line := describe_event(event):
        return format_line(*line)
    return ""


def describe_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """An event's type and fields; None if it only counts towards `end`."""
    if isinstance(event, SubagentStep):
        if step := describe_event(event.step):
            return "task", {"id": event.call.id, "step": {"type": step[0], **step[1]}}
        return None
    describe = _EVENTS.get(type(event), lambda _: None)
    return describe(event)


def format_line(kind: str, fields: Mapping[str, Any]) -> str:
    """ASCII only, so that lone surrogates and escape characters do no harm."""
    return json.dumps({"type": kind, **fields})


def format_end(report: RunReport, ended_by: BaseException | None = None) -> str:
    """The last line."""
    error, exit_code = None, report.compute_exit_code(ended_by)
    if ended_by is None and exit_code == FAILED:
        error = describe_ending(report.ending, report.provider_stop_reason)
    elif isinstance(ended_by, Exception):
        error = describe_error(ended_by)
    elif isinstance(ended_by, SystemExit):
        error = "terminated"
    elif ended_by is not None:
        error = "interrupted"
    counted = {name: getattr(report, name, None) for name in LINES["end"].fields}
    return format_line("end", {**counted, "exit_code": exit_code, "error": error})
