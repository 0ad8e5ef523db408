"""Who is asked whether a call may run, what is shown, and what may be answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ...types.messages import JSON, ToolCall


class Request(NamedTuple):
    """What is asked: the call, why it does not run unasked, and what helps to decide.

    `revise` gives the request for the call as the user changed it, or says why that can never run.
    """

    call: ToolCall
    reason: str
    revise: Callable[[ToolCall], Request | str]
    preview: str = ""  # a unified diff of what would change; empty: nothing to show
    rule: str = ""  # the rule that "always" would write; empty: there is none for this call
    reviews: tuple[str, ...] = ()  # what each reviewing model said, a line each


class Answer(NamedTuple):
    """`message`: with no, why not, or what to do instead, for the model; `arguments`: what the user made of them."""

    allowed: bool
    message: str = ""
    always: bool = False
    arguments: Mapping[str, JSON] | None = None


class Approver(Protocol):
    """Whoever answers when a decision is to ask."""

    def approve(self, request: Request) -> Answer: ...


class Same(NamedTuple):
    """The same answer to everything."""

    answer: Answer

    def approve(self, request: Request) -> Answer:  # noqa: ARG002 - it asks nobody
        return self.answer


class Nobody(NamedTuple):
    """Refuses, and says why it was to be asked, so that the model can do otherwise."""

    def approve(self, request: Request) -> Answer:
        hint = " To look at files use read, glob or grep." if request.call.name == "exec" else ""
        return Answer(False, f"{NOBODY} ({request.reason}).{hint}")


NOBODY = "nobody is there to be asked; start with --yes to let such calls run"
APPROVE_ALL = Same(Answer(True))
REFUSE_ALL = Nobody()
