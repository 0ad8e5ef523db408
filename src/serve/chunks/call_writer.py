"""The calls in the text of one answer that leave before its end. Pure.

A call in JSON whose head makes it certain is written while the model writes it, and is complete at its closer. The
other calls wait for the end of the answer, and so do all behind them, so that calls keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import WireError
from ...parsing import Malformed, ParsedCall, ParserEvent
from ...types.events import ToolCallDelta
from ...types.messages import ToolCall
from .text_call import TextCall, encode_arguments


class CallWriter:
    """`begin_call`: the call with this head, if it is certain that it is one. `count`: calls that were begun."""

    def __init__(self, begin_call: Callable[[ToolCallDelta], TextCall | None]) -> None:
        self.count = 0
        self._begin_call = begin_call
        self._open: TextCall | None = None
        self._is_waiting = False  # a call waits for the end of the answer
        self._complete: list[ToolCall] = []
        self._broken: list[TextCall] = []
        self._deltas: list[dict[str, Any]] = []

    def follow(self, event: ParserEvent, *, may_begin: bool) -> bool:
        """Take in an event of the parser; whether it is the end of a call that was begun.

        `may_begin`: no native call was sent, whose place another would take.
        """
        if isinstance(event, ToolCallDelta):
            if event.name is not None:
                self._open = None if self._is_waiting else self._begin_call(event)
            elif self._open and (may_begin or self._open.sent):
                self._add(self._open, self._open.feed(event.arguments_delta))
            return False
        if not isinstance(event, (ParsedCall, Malformed)):
            return False
        call, self._open = self._open, None
        made = event.call if isinstance(event, ParsedCall) and is_safe(event.call) else None
        rest = call.finish(made) if call and made and (may_begin or call.sent) else None
        if call and made and rest is not None:
            self._add(call, rest)
            self._complete.append(made)
            return True
        self._is_waiting = self._is_waiting or made is not None
        if call is None or not call.sent:
            return False
        self._broken.append(call)
        self._is_waiting = True
        return True

    def _add(self, call: TextCall, piece: str) -> None:
        if not piece:
            return
        if call.index < 0:
            call.index, self.count = self.count, self.count + 1
            function = {"name": call.name, "arguments": piece}
            self._deltas.append({"index": call.index, "id": call.id, "type": "function", "function": function})
        else:
            self._deltas.append({"index": call.index, "function": {"arguments": piece}})

    @property
    def lacks_rest(self) -> bool:
        """Whether a call ended, a part of which was written, and the rest is known at the end of the answer only."""
        return bool(self._broken)

    def take(self) -> list[dict[str, Any]]:
        """What was written since the last time, as pieces of calls."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def settle(self, calls: Sequence[ToolCall], *, is_cut: bool) -> list[ToolCall]:
        """The calls of the whole answer that are still to be sent. What completes one that was begun is written.

        `is_cut`: the answer has reached its limit of tokens, and so has a call at its end. Raises WireError where a
        call that was begun is none of the calls.
        """
        left = list(calls)
        for made in self._complete:
            same = (each for each in left if (each.name, each.arguments) == (made.name, made.arguments))
            twin = next(same, None)
            left = [each for each in left if each is not twin]
        for begun in [*self._broken, *([self._open] if self._open and self._open.sent else [])]:
            rests = ((each, begun.finish(each)) for each in left)
            whole, rest = next(((each, rest) for each, rest in rests if rest is not None), (None, None))
            if whole is None or rest is None:
                if is_cut:
                    continue
                raise WireError(f"The model wrote a call of {begun.name} that cannot be read to its end.")
            self._add(begun, rest)
            left.remove(whole)
        return left


def is_safe(call: ToolCall) -> bool:
    """Whether a call from the text may be sent to the client as a call."""
    return not (call.echo or call.guessed)


def encode_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": encode_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}
