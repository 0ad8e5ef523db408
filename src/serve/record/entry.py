"""A call of the API as a line of a record: JSON, whose fields docs/records.md lists."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from ...errors import WireError
from ...providers.stream.response_builder import CallBuilder
from ...providers.stream.sse import EventDecoder
from ...providers.wire_json import encode_json, load_json
from ...types.effects import ReplyHead
from ...types.messages import NATIVE
from ..chat_request import ChatBody
from ..chunks.intake import take_rest
from ..report import LOST, RELAYED_PATH, LandedCall, Report
from .fold import FoldedAnswer, FoldedChoice, fold_chunks
from .recording import Recording, UpstreamExchange
from .relayed import fold_relayed

VERSION = 1
Redact = Callable[[Any], Any]  # a JSON value without the secrets in its strings
_APART = ("messages", "tools", "model")  # of a request, as fields of their own


def encode_entry(recording: Recording, redact: Redact | None = None) -> bytes:
    """The line of a call. With `redact`, without what only the server's own words tell."""
    entry = make_entry(recording)
    if redact is not None:
        for name in ("exchanges", "prompt_token_ids", "reader"):
            entry.pop(name, None)
        for choice in entry["choices"]:
            choice.pop("token_ids", None)
            choice.pop("logprobs", None)
        entry = {**redact(entry), "redacted": True}
    return encode_json(entry) + b"\n"


def make_entry(recording: Recording) -> dict[str, Any]:
    chat, report = recording.chat or ChatBody({}), recording.report
    session: str | None = None
    if recording.conversation is not None:
        session = recording.conversation.session
    events = list_events(recording)
    if report.path == RELAYED_PATH:
        sent = read_answer(fold_relayed, recording.api, events)
    else:
        sent = read_answer(fold_chunks, recording.sent)
    contiguous: bool | None = None
    if report.kept is not None:
        contiguous = not report.broken_by
    answered = read_answer(fold_chunks, events)
    return {
        "version": VERSION,
        "time": datetime.fromtimestamp(recording.began_at, timezone.utc).isoformat(timespec="milliseconds"),
        "api": recording.api,
        "key": recording.key,
        "model": chat.model,
        "session": session,
        "contiguous": contiguous,
        "broken_by": report.broken_by,
        "path": report.path,
        "status": recording.status,
        "ended": recording.ended,
        "messages": chat.body.get("messages"),
        "tools": chat.body.get("tools"),
        "request": {name: value for name, value in chat.body.items() if name not in _APART},
        "choices": make_choices(sent, report, answered),
        "usage": sent.usage or _describe_usage(report),
        "prompt_token_ids": answered.prompt_token_ids,
        "exchanges": [_write_exchange(each) for each in recording.exchanges],
        "reader": {**recording.reader, "form": chat.form, "server": recording.server, "facts": recording.facts},
    }


def _describe_usage(report: Report) -> dict[str, int] | None:
    """What the server counted for the gateway alone."""
    if report.usage is None:
        return None
    return {"prompt_tokens": report.usage.input_tokens, "completion_tokens": report.usage.output_tokens}


def _write_exchange(exchange: UpstreamExchange) -> dict[str, Any]:
    written: dict[str, Any] = {
        "method": exchange.method,
        "path": exchange.path,
        "status": exchange.status,
        "type": exchange.content_type,
        "raw": b"".join(exchange.pieces).decode(errors="replace"),
        "whole": exchange.is_over,
    }
    if exchange.error:
        written |= {"error": exchange.error, "message": exchange.message}
    return written


def read_answer(fold: Callable[..., FoldedAnswer], *arguments: Any) -> FoldedAnswer:
    """What was folded. An error, or what is no answer, has no choices."""
    try:
        return fold(*arguments)
    except WireError:
        return FoldedAnswer()


def list_events(recording: Recording) -> list[bytes]:
    """The data of the events of the model's answer, or a whole answer; none where a second answer completed it."""
    answers = [each for each in recording.exchanges if ReplyHead(each.status).is_ok and not each.is_aside]
    if not answers or recording.report.rescues:
        return []
    pieces = answers[-1].pieces
    if pieces and pieces[0].lstrip()[:1] == b"{":
        return [b"".join(pieces)]
    decoder = EventDecoder()
    return [*(event for piece in pieces for event in decoder.feed(piece)), *take_rest(decoder)]


def make_choices(sent: FoldedAnswer, report: Report, answered: FoldedAnswer) -> list[dict[str, Any]]:
    """What the client got, with how each call came about, and what the server told of the tokens."""
    landed = [call for call in report.calls if call.how != LOST]
    choices = []
    for index, choice in sorted(sent.choices.items()):
        tokens = answered.choices.get(index) or FoldedChoice()
        choices.append(
            {
                "index": index,
                "text": "".join(choice.texts),
                "reasoning": "".join(choice.thoughts),
                "calls": [_write_call(call, landed) for call in choice.builder.calls],
                "finish_reason": choice.finish_reason,
                "token_ids": tokens.token_ids,
                "logprobs": tokens.logprobs,
            }
        )
    return choices


def _write_call(call: CallBuilder, landed: list[LandedCall]) -> dict[str, Any]:
    """`landed`: what is known of the calls, of which this one is taken out."""
    place = next((at for at, each in enumerate(landed) if each.id == call.id), None)
    if place is None:
        place = next((at for at, each in enumerate(landed) if each.name == call.name), None)
    landing = LandedCall(call.name, NATIVE, NATIVE)
    if place is not None:
        landing = landed.pop(place)
    return {
        "id": call.id,
        "name": call.name,
        "arguments": _read_arguments(call.raw),
        "how": landing.how,
        "origin": landing.origin,
        "repairs": list(landing.repairs),
    }


def _read_arguments(written: str) -> Any:
    """The object that they are; else the text."""
    try:
        arguments = load_json(written.encode(errors="replace"))
    except WireError:
        return written
    if isinstance(arguments, dict):
        return arguments
    return written
