"""Who is asked before a tool of high risk runs: a function of the program. Only a clear yes lets a call run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeAlias, Union

from ...errors import ConfigError, Suspended
from ...security.permissions.approval import LATER, Answer, Approver, Request
from ...tools.sdk.calls import is_coroutine_function
from ...types.messages import ToolCall

Approve: TypeAlias = Callable[[Request], Union[bool, Answer]]
AsyncApprove: TypeAlias = Callable[[Request], Union[bool, Answer, Awaitable[Union[bool, Answer]]]]

Answers: TypeAlias = Mapping[str, Union[bool, Answer]]  # by the id of the call
GivenAnswer: TypeAlias = tuple[ToolCall, Answer]
NO_ANSWER = "the program's approve function gave no answer."


class Approval:
    """Asks a function. What is no answer refuses the call, and is kept in `error`, to be raised to the program."""

    takes_coroutines = False
    error: TypeError | None = None

    def __init__(self, approve: AsyncApprove) -> None:
        """Raises TypeError for what cannot be asked."""
        if not callable(approve) or isinstance(approve, type):
            raise TypeError(
                "approve: expected a function that gets the request and returns True, False or an Answer, not "
                f"{approve!r}."
            )
        if is_coroutine_function(approve) and not self.takes_coroutines:
            name = getattr(approve, "__name__", type(approve).__name__)
            raise TypeError(
                f"approve: {name} is a coroutine function, which only an agent of AsyncServer awaits. "
                "Use a plain function here."
            )
        self._approve = approve

    def approve(self, request: Request) -> Answer | Future[Answer]:
        return self._read(self._approve(request))

    def _read(self, reply: object) -> Answer:
        """The answer that a function gave; a refusal in place of any other value. Raises Suspended for LATER."""
        if reply is LATER:
            raise Suspended(LATER.message)
        if answer := read_answer(reply):
            return answer
        if inspect.iscoroutine(reply):
            reply.close()  # else Python warns that it was never awaited
        self.error = TypeError(
            f"approve returned {_describe(reply)}, so the call was refused. Return True, False or an Answer, such as "
            'Answer(False, "Not on Sundays.").'
        )
        return Answer(False, NO_ANSWER)


class GivenAnswers:
    """The answers that `resume` was given, each for one call. `other` is asked about calls without one."""

    def __init__(self, other: Approver) -> None:
        self.other = other
        self._given: list[GivenAnswer] = []

    def begin(self, given: Sequence[GivenAnswer]) -> None:
        """A run begins with these: what one before it left holds no more."""
        self._given = [*given]

    def approve(self, request: Request) -> Answer | Future[Answer]:
        for place, (call, answer) in enumerate(self._given):
            if call == request.call:
                del self._given[place]
                return answer
        return self.other.approve(request)


def read_answers(pending: Sequence[ToolCall], answers: Answers) -> list[GivenAnswer]:
    """Raises ConfigError unless there is an answer to each of these calls, and to no other one."""
    if not isinstance(answers, Mapping):
        raise ConfigError(f"answers: expected the ids of calls with True, False or an Answer, not {answers!r:.80}.")
    ids = [call.id for call in pending]
    for name in answers:
        if name not in ids:
            waiting = ", ".join(f"{call.id} ({call.name})" for call in pending)
            raise ConfigError(f"answers: no call {name!r} waits for an answer.", f"Those that wait: {waiting}.")
    if twice := next((name for name in ids if ids.count(name) > 1), ""):
        raise ConfigError(f"answers: two calls have the id {twice}, so they cannot be told apart.", "Ask again.")
    return _read_each(pending, answers)


def _read_each(pending: Sequence[ToolCall], answers: Answers) -> list[GivenAnswer]:
    given_answers = []
    for call in pending:
        if call.id not in answers:
            raise ConfigError(f"answers: there is none to {call.id} ({call.name}).", "Answer all of agent.pending.")
        reply = answers[call.id]
        answer = read_answer(reply)
        if answer is None or reply is LATER:
            raise ConfigError(f"answers: {call.id}: expected True, False or an Answer, not {reply!r:.80}.")
        given_answers.append((call, answer))
    return given_answers


def read_answer(reply: object) -> Answer | None:
    """The answer that a program gave; None for any other value."""
    if reply is True:
        return Answer(True, "")
    if reply is False:
        return Answer(False, "it was not approved.")
    if isinstance(reply, Answer) and isinstance(reply.allowed, bool):
        return reply
    return None


def _describe(reply: object) -> str:
    if inspect.isawaitable(reply):
        return f"an awaitable ({type(reply).__name__}), which only an agent of AsyncServer awaits"
    if isinstance(reply, Answer):
        return f"an Answer whose `allowed` is {reply.allowed!r}"
    if isinstance(reply, type):
        return f"the class {reply.__name__}"
    return repr(reply)
