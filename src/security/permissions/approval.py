"""The question whether a call may run, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ...errors import ToolError
from ...types.messages import JSON, ToolCall
from ...types.sandbox import Grant

if TYPE_CHECKING:  # loads logging
    from concurrent.futures import Future


SUBMIT_PLAN = "submit_plan"  # the tool whose call asks the user to accept a plan
MODE_OF_EDITS = MODE_AFTER_PLAN = "edits"
PLAN_REASON = "accepting the plan switches to mode edits"


class CannotRun(ToolError):
    """The call, as the user changed it, can never run: why."""


class Request(Struct, frozen=True):
    """The call, the reason that it does not run without asking, and what helps to decide.

    `revise` returns the request for the call as the user changed it. It raises CannotRun.
    """

    call: ToolCall
    reason: str
    revise: Callable[[ToolCall], Request]
    preview: str = ""  # a unified diff of what would change; empty: none
    rule: str = ""  # the rule that the answer "always" would add; empty: there is none
    reviews: tuple[str, ...] = ()  # one line for each reviewer
    access: Grant | None = None  # what a command could do; None: the call runs no command
    wider: tuple[Grant, ...] = ()  # what a command may be given instead, once
    advice: str = ""  # how such questions become fewer; empty: nothing new
    needs_person: bool = False
    has_begun: bool = False  # the command ran, failed, and would run again: it is shown already
    can_save: bool = True  # the rule may hold for later conversations, too
    mode: str = ""  # the mode that an answer may switch to, in which such a call runs without asking; empty: none

    @property
    def is_for_person(self) -> bool:
        """Whether `--yes` does not answer it."""
        return self.needs_person or self.call.guessed


class Answer(Struct, frozen=True):
    """`message` goes to the model with a refusal; `arguments`: as the user changed them.

    `always`: the rule of the request holds from now on; `for_chat`: it holds in this conversation. `access`: what the
    command may do instead of what was asked for. `mode`: the mode of the request holds from now on. `reply`: the user's
    words in a refusal. `is_unasked`: nobody was there to be asked.
    """

    allowed: bool
    message: str = ""
    always: bool = False
    arguments: Mapping[str, JSON] | None = None
    for_chat: bool = False
    access: Grant | None = None
    mode: str = ""
    reply: str = ""
    is_unasked: bool = False


LATER = Answer(False, "it is answered later.")  # from a program: the run ends, and goes on with the answer
DENIED = Answer(False, "the user said no. Ask what to do instead, or go on without it.")


def refuse_with(reply: str) -> Answer:
    """The user's no, with what to do instead."""
    return Answer(False, f"the user did not let it run, and said: {reply}", reply=reply)


class Approver(Protocol):
    """Answers the question if the decision is to ask, at once or later. Raises Suspended where the run is to end."""

    def approve(self, request: Request) -> Answer | Future[Answer]: ...


class AutoApprover(Struct, frozen=True):
    """Approves every call, but for one that needs a person, about which `other` is asked."""

    other: Approver

    def approve(self, request: Request) -> Answer | Future[Answer]:
        return self.other.approve(request) if request.is_for_person else Answer(True)


class NoApprover(Struct, frozen=True):
    """Refuses, and tells the model the reason of the question, so that it can do something else."""

    def approve(self, request: Request) -> Answer:
        advice = ""
        if request.call.name == "exec":
            advice = " To look at files use read, glob or grep."
            if request.wider and request.access != "read":
                advice = " With access=read a command runs without asking."
        why = f" ({request.reason}).{advice}"
        if request.call.guessed:
            why = f", and {request.reason}. {GUESSED_ADVICE}"
        elif request.needs_person:
            why = f", and this call needs a person: {request.reason}."
        elif request.has_begun:  # its result says why it may have failed
            why = "."
        return Answer(False, f"nobody is there to be asked{why}", is_unasked=True)


GUESSED_ADVICE = "If it was meant, make the call again, alone, with its arguments as one JSON object."
REFUSE_ALL = NoApprover()
APPROVE_ALL = AutoApprover(REFUSE_ALL)
