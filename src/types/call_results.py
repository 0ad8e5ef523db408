"""The results of a turn's calls: which result is whose, and what a call without one is told. No I/O.

A process may die while a call runs, and a call may wait for permission. The words tell the model whether the call was
carried out, as far as that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from .messages import Message, RequestedCall, Response, ToolResult, ToolResults

NOT_FINISHED = "The call did not finish: the user interrupted it."
UNKNOWN = (
    "The program was stopped before this call had a result: it may or may not have been carried out. "
    "Look before you call it again."
)
NOT_RUN = "The program was stopped before this call began: it was not run."
NOT_PERMITTED = "This call was not run: it waited for permission, or for a call that did."


def make_error(call: RequestedCall, text: str) -> ToolResult:
    return ToolResult(call.id, call.name or "unreadable call", "error", text)


def pair_results(calls: Iterable[RequestedCall], results: Sequence[ToolResult]) -> list[ToolResult | None]:
    """The result of each call, by its id; calls that share one take theirs in order. None: it has none."""
    unpaired: dict[str, list[ToolResult]] = {}
    for result in reversed(results):
        unpaired.setdefault(result.tool_call_id, []).append(result)
    return [unpaired[call.id].pop() if unpaired.get(call.id) else None for call in calls]


class OpenTurn(Struct, frozen=True):
    """The end of a conversation where calls have no result. `results`: of each call, None for these.

    `is_settled`: the turn came to its end, where these calls wait. Else the program was stopped in its midst.
    """

    response: Response
    results: Sequence[ToolResult | None]
    is_settled: bool

    @property
    def open_calls(self) -> list[RequestedCall]:
        return [call for call, result in self._pairs() if result is None]

    def close(self) -> ToolResults:
        """A result for each call."""
        why = UNKNOWN
        if self.is_settled:
            why = NOT_PERMITTED
        return ToolResults(tuple(result or make_error(call, why) for call, result in self._pairs()))

    def _pairs(self) -> Iterable[tuple[RequestedCall, ToolResult | None]]:
        return zip(self.response.requested_calls, self.results, strict=True)


def find_open_turn(messages: Sequence[Message]) -> OpenTurn | None:
    """The turn at the end of a conversation, if a call of it has no result."""
    *_, before, last = (None, None, *messages[-2:])
    response: Message | None = last
    results_after: tuple[ToolResult, ...] = ()
    if isinstance(last, ToolResults):
        response, results_after = before, last.results
    if not isinstance(response, Response):
        return None
    results = pair_results(response.requested_calls, results_after)
    if None not in results:
        return None
    return OpenTurn(response, results, is_settled=response is before)


def find_waiting_turn(messages: Sequence[Message]) -> OpenTurn | None:
    """The turn at the end of a conversation whose calls wait, so that they may run: none of them has begun."""
    turn = find_open_turn(messages)
    if turn and turn.is_settled:
        return turn
    return None
