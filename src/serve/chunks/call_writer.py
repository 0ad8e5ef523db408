"""The calls in the text of one answer, as pieces of tool calls of a chat completion. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import WireError
from ...parsing.landing.arguments import encode_arguments
from ...parsing.landing.begun_call import BegunCall
from ...parsing.landing.decisions import CallBegins, CallBreaks, CallEnds, CallPiece, Decision, WholeCall
from ...types.messages import ToolCall


class CallWriter:
    """Writes the calls that leave before the end of the answer. `count`: how many have begun."""

    def __init__(self) -> None:
        self.count = 0
        self._begun: CallBegins | None = None  # whose first piece is still to come
        self._complete: list[ToolCall] = []
        self._broken: list[tuple[int, BegunCall]] = []  # with their indexes

    @property
    def lacks_rest(self) -> bool:
        """Whether a call broke whose rest is known at the end of the answer only."""
        return bool(self._broken)

    def write(self, decision: Decision) -> dict[str, Any] | None:
        """The piece that a decision makes, if it makes one."""
        if isinstance(decision, CallBegins):
            self._begun = decision
        elif isinstance(decision, CallPiece):
            begun, self._begun = self._begun, None
            if begun is None:
                return {"index": self.count - 1, "function": {"arguments": decision.arguments}}
            self.count += 1
            return {"index": self.count - 1, **_encode_function(begun.id, begun.name, decision.arguments)}
        elif isinstance(decision, CallEnds):
            self._complete.append(decision.call)
        elif isinstance(decision, CallBreaks):
            self._broken.append((self.count - 1, decision.begun))
        elif isinstance(decision, WholeCall):
            self.count += 1
            self._complete.append(decision.call)
            return {"index": self.count - 1, **encode_call(decision.call)}
        return None

    def settle(self, calls: Sequence[ToolCall], *, is_cut: bool) -> tuple[list[dict[str, Any]], list[ToolCall]]:
        """The rests of calls that broke, and those of the whole answer's calls that are still to be sent.

        `is_cut`: the answer has reached its limit of tokens, and so has a call at its end. Raises WireError where a
        call that has begun is none of the calls.
        """
        unsent = list(calls)
        for call in self._complete:
            take_twin(unsent, call)
        rests: list[dict[str, Any]] = []
        for index, begun in self._broken:
            completing = take_completing(unsent, begun.finish)
            if completing:
                rests.append({"index": index, "function": {"arguments": begun.finish(completing)}})
            elif not is_cut:
                raise WireError(f"The model wrote a call of {begun.name} that cannot be read to its end.")
        return rests, unsent


def take_completing(calls: list[ToolCall], finish: Callable[[ToolCall], str | None]) -> ToolCall | None:
    """Remove and return the first of the calls that what was sent begins; None if it begins none."""
    for place, call in enumerate(calls):
        if finish(call) is not None:
            return calls.pop(place)
    return None


def take_twin(calls: list[ToolCall], like: ToolCall) -> ToolCall | None:
    """Remove and return the first of the calls that has the same name and arguments; None if none has."""
    for place, call in enumerate(calls):
        if (call.name, call.arguments) == (like.name, like.arguments):
            return calls.pop(place)
    return None


def encode_call(call: ToolCall) -> dict[str, Any]:
    return _encode_function(call.id, call.name, encode_arguments(call.arguments))


def _encode_function(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
