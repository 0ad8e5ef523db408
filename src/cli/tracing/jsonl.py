"""`--trace FILE`: one JSON line per event, without secrets. docs/tracing.md describes the lines.

Streamed text is written as one line when it is complete, since a secret cut in two would not be recognized. If the
file can no longer be written, tracing ends and the chat continues.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from ... import __version__
from ...errors import ConfigError
from ...security.text.redact import redact
from ...session.journal import redact_value
from ...types.events import Completed, Event, LimitHit, ReasoningDelta, TextDelta
from ..oneshot.json_output import describe_event

PIECES: Mapping[type, str] = {TextDelta: "text", ReasoningDelta: "thought"}


class Observer(Protocol):
    """Observes answers. `about`: server, model, provider, workspace and session."""

    def begin(self, about: Mapping[str, str]) -> None: ...

    def take(self, event: Event) -> None: ...

    def end(self, error: BaseException | None) -> None: ...


class TraceFile:
    """An Observer that appends to a file only its owner may read. Raises ConfigError."""

    def __init__(self, path: str, secrets: Iterable[str], now: Callable[[], float] = time.time) -> None:
        self._redact = partial(redact, secrets=tuple(secrets))
        self._now = now
        self._kind, self._pieces = "", list[str]()
        try:
            self._descriptor: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise ConfigError(f"--trace: {path}: {error.strerror}", "Choose a file that can be written.") from error

    def begin(self, about: Mapping[str, str]) -> None:
        self._write("start", {"version": __version__, **about})

    def take(self, event: Event) -> None:
        kind = PIECES.get(type(event), "")
        if kind != self._kind:
            self._flush()
        if isinstance(event, (TextDelta, ReasoningDelta)):
            self._kind = kind
            self._pieces.append(event.text)
        elif isinstance(event, Completed):
            self._write("completed", _list_response_fields(event))
        elif isinstance(event, LimitHit):
            self._write("limit", {"limit": event.limit})
        elif line := describe_event(event):
            self._write(*line)

    def end(self, error: BaseException | None) -> None:
        self._flush()
        self._write("end", {"error": None if error is None else str(error) or type(error).__name__})

    def _flush(self) -> None:
        if self._pieces:
            self._write(self._kind, {"text": "".join(self._pieces)})
        self._kind, self._pieces = "", []

    def _write(self, kind: str, fields: Mapping[str, Any]) -> None:
        if self._descriptor is None:
            return
        try:
            line = {"time": round(self._now(), 3), "type": kind, **redact_value(fields, self._redact)}
            os.write(self._descriptor, f"{json.dumps(line)}\n".encode())
        except OSError as error:
            print(f"! The trace ends here: {error.strerror}", file=sys.stderr)
            os.close(self._descriptor)
            self._descriptor = None


def _list_response_fields(event: Completed) -> dict[str, Any]:
    response = event.response
    usage = response.usage
    return {
        "stop_reason": response.stop_reason,
        "provider_stop_reason": response.provider_stop_reason,
        "model": response.model,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "calls": [
            {"name": call.name, "origin": call.origin, "repaired": list(call.repaired), "guessed": call.guessed}
            for call in response.calls
        ],
        "malformed": [
            {"name": call.name, "origin": call.origin, "reason": call.reason, "raw": call.raw}
            for call in response.malformed
        ],
    }
