"""What a relayed answer of Messages or Responses says, whole or streamed: its events are the server's own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...providers.wire_json import as_dict, as_dicts, as_str, load_json
from ..chunks.intake import DONE
from .fold import FoldedAnswer, FoldedChoice, fold_chunks

CHAT_API = "chat/completions"
ENDS = ("response.completed", "response.incomplete")


def fold_relayed(api: str, events: Iterable[bytes]) -> FoldedAnswer:
    """`events`: their data, or a whole answer as the only one. Raises WireError."""
    if api == CHAT_API:
        return fold_chunks(events)
    choice = FoldedChoice()
    answer = FoldedAnswer({0: choice})
    read = _read_response
    if api == "messages":
        read = _read_message
    for data in events:
        if data != DONE:
            read(as_dict(load_json(data)), answer, choice)
    if any(choice.texts) or any(choice.thoughts) or choice.builder.calls:
        return answer
    return FoldedAnswer()


def _read_message(event: Mapping[str, Any], answer: FoldedAnswer, choice: FoldedChoice) -> None:
    delta = as_dict(event.get("delta"))
    for piece in (delta, as_dict(event.get("content_block")), *as_dicts(event.get("content"))):
        choice.texts.append(as_str(piece.get("text")))
        choice.thoughts.append(as_str(piece.get("thinking")))
    choice.finish_reason = as_str(delta.get("stop_reason") or event.get("stop_reason")) or choice.finish_reason
    answer.usage = event.get("usage") or answer.usage


def _read_response(event: Mapping[str, Any], answer: FoldedAnswer, choice: FoldedChoice) -> None:
    """The last event of a stream holds all of it."""
    if event.get("type") == "response.output_text.delta":
        choice.texts.append(as_str(event.get("delta")))
    response = event
    if event.get("object") != "response":
        response = as_dict(event.get("response"))
    if event.get("type") not in (None, *ENDS) or not response:
        return
    choice.texts.clear()
    for place, item in enumerate(as_dicts(response.get("output"))):
        if item.get("type") == "function_call":
            id, name = as_str(item.get("call_id")), as_str(item.get("name"))
            choice.builder.add_call(place, id, name, item.get("arguments"))
        pieces = [as_str(part.get("text")) for part in as_dicts(item.get("content"))]
        if item.get("type") == "reasoning":
            choice.thoughts += pieces
        else:
            choice.texts += pieces
    choice.finish_reason = as_str(response.get("status"))
    answer.usage = response.get("usage") or answer.usage
