"""The question whether a call may run, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...types.messages import JSON, ToolCall

if TYPE_CHECKING:  # loads logging
    from concurrent.futures import Future


class Request(NamedTuple):
    """The call, the reason that it does not run without asking, and what helps to decide.

    `revise` returns the request for the call as the user changed it, or the reason that it can never run.
    """

    call: ToolCall
    reason: str
    revise: Callable[[ToolCall], Request | str]
    preview: str = ""  # a unified diff of what would change; empty: none
    rule: str = ""  # the rule that the answer "always" would add; empty: there is none
    reviews: tuple[str, ...] = ()  # one line for each reviewer


class Answer(NamedTuple):
    """`message` goes to the model with a refusal; `arguments`: as the user changed them."""

    allowed: bool
    message: str = ""
    always: bool = False
    arguments: Mapping[str, JSON] | None = None


class Approver(Protocol):
    """Answers the question if the decision is to ask, at once or later."""

    def approve(self, request: Request) -> Answer | Future[Answer]: ...


class AutoApprover(NamedTuple):
    """Approves every call, but for a guessed one, about which `other` is asked."""

    other: Approver

    def approve(self, request: Request) -> Answer | Future[Answer]:
        return self.other.approve(request) if request.call.guessed else Answer(True)


class NoApprover(NamedTuple):
    """Refuses, and tells the model the reason of the question, so that it can do something else."""

    def approve(self, request: Request) -> Answer:
        if request.call.guessed:
            return Answer(False, GUESSED_MESSAGE.format(reason=request.reason))
        hint = " To look at files use read, glob or grep." if request.call.name == "exec" else ""
        return Answer(False, f"{NO_APPROVER_MESSAGE} ({request.reason}).{hint}")


NO_APPROVER_MESSAGE = "nobody is there to be asked"
GUESSED_MESSAGE = (
    "nobody is there to be asked, and {reason}. If it was meant, make the call again, alone, "
    "with its arguments as one JSON object."
)
REFUSE_ALL = NoApprover()
APPROVE_ALL = AutoApprover(REFUSE_ALL)
