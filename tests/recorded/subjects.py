"""Everything that the recorded behaviour needs of src: where a module moves, only this file changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from src.cli.main import main
from src.parsing import (
    Answered,
    Cut,
    Doubted,
    Extraction,
    Malformed,
    ParsedCall,
    Reasoned,
    StreamParser,
    extract_tool_calls,
)
from src.providers.base import ChatRequest
from src.providers.table import PROVIDERS
from src.session.session import Session
from src.types.events import ReasoningDelta, TextDelta
from src.types.messages import Named, SystemMessage, ToolDefinition, UserMessage

__all__ = [
    "PROVIDERS",
    "StreamParser",
    "describe_events",
    "describe_extraction",
    "describe_session",
    "encode_request",
    "extract_tool_calls",
    "main",
]


def describe_extraction(found: Extraction) -> dict[str, Any]:
    return {
        "content": found.content,
        "calls": [_describe_call(call) for call in found.calls],
        "malformed": [_describe_malformed(each) for each in found.malformed],
        "reasoning": found.reasoning,
    }


def describe_events(events: Iterable[Any]) -> list[list[Any]]:
    """Parser events as lists; neighbouring pieces of text or reasoning are one, since a chunk may divide them."""
    described: list[list[Any]] = []
    for event in events:
        entry = _describe_event(event)
        if described and entry[0] in ("text", "reasoning") and described[-1][0] == entry[0]:
            described[-1][1] += entry[1]
        else:
            described.append(entry)
    return described


def _describe_event(event: Any) -> list[Any]:
    match event:
        case TextDelta():
            return ["text", event.text]
        case ReasoningDelta():
            return ["reasoning", event.text]
        case ParsedCall():
            return ["call", _describe_call(event.call), event.raw]
        case Malformed():
            return ["malformed", _describe_malformed(event.malformed), event.raw]
        case Cut():
            return ["cut", event.raw]
        case Reasoned():
            return ["reasoned", event.raw]
        case Doubted():
            return ["doubted", event.raw]
        case Answered():
            return ["answered"]
    raise TypeError(f"unknown parser event: {event!r}")


def _describe_call(call: Any) -> dict[str, Any]:
    fields = {"name": call.name, "arguments": call.arguments, "origin": call.origin, "repaired": list(call.repaired)}
    return {**fields, "echo": call.echo}


def _describe_malformed(call: Any) -> dict[str, Any]:
    return {"name": call.name, "raw": call.raw, "reason": call.reason, "origin": call.origin}


def describe_session(journal: Path, root: Path) -> dict[str, Any]:
    """The state of a session that is resumed from its journal, and the notices for the user."""
    session, notices = Session.resume(journal, [SystemMessage("You help.")], root)
    try:
        return {
            "messages": [message.to_dict() for message in session.messages],
            "name": session.state.name,
            "meta": {"type": "meta", "n": 0, **session.state.meta},
            "turns": session.state.turns,
            "last_question": session.state.last_question,
            "writes": [
                [write.path, write.before and astuple(write.before), write.after and astuple(write.after), write.call]
                for write in session.state.writes
            ],
            "todos": session.state.last_todos and dict(session.state.last_todos),
            "notices": notices,
        }
    finally:
        session.close()


def undo_last_turn(journal: Path, root: Path, restore: Any) -> dict[str, Any]:
    """What undoing the last turn of a resumed session gives, and the conversation after it."""
    session, _ = Session.resume(journal, [SystemMessage("You help.")], root)
    try:
        undone = session.undo(restore)
        return {
            "question": undone and undone.question,
            "calls": undone and [[call.id, call.name, dict(call.arguments)] for call in undone.calls],
            "messages": [message.to_dict() for message in session.messages],
            "todos": session.state.last_todos and dict(session.state.last_todos),
        }
    finally:
        session.close()


def encode_request(provider: str, choice: Any) -> dict[str, Any]:
    """The path and the body that a provider is sent for one question and two tools."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools = [ToolDefinition(name, f"The tool {name}.", parameters, strict=name == "read") for name in ("read", "list")]
    tool_choice = Named(choice) if choice == "read" else choice
    request = ChatRequest("tiny", [SystemMessage("You help."), UserMessage("Hi.")], tools, 0.5, 100, tool_choice)
    encoded = PROVIDERS[provider].codec(lambda: "made").encode(request)
    return {"path": encoded.path, "body": json.loads(encoded.body)}
