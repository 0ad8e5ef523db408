"""Who is asked before a tool of high risk runs: a function of the program. Only a clear yes lets a call run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeAlias, Union

from ...security.permissions.approval import Answer, Request
from ...tools.sdk.calls import is_coroutine_function

Approve: TypeAlias = Callable[[Request], Union[bool, Answer]]
AsyncApprove: TypeAlias = Callable[[Request], Union[bool, Answer, Awaitable[Union[bool, Answer]]]]

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
        """The answer that a function gave; a refusal if it is none."""
        if reply is True or reply is False:
            return Answer(reply, "" if reply else "it was not approved.")
        if isinstance(reply, Answer) and isinstance(reply.allowed, bool):
            return reply
        if inspect.iscoroutine(reply):
            reply.close()  # else Python warns that it was never awaited
        self.error = TypeError(
            f"approve returned {_describe(reply)}, so the call was refused. Return True, False or an Answer, such as "
            'Answer(False, "Not on Sundays.").'
        )
        return Answer(False, NO_ANSWER)


def _describe(reply: object) -> str:
    if inspect.isawaitable(reply):
        return f"an awaitable ({type(reply).__name__}), which only an agent of AsyncServer awaits"
    if isinstance(reply, Answer):
        return f"an Answer whose `allowed` is {reply.allowed!r}"
    return f"the class {reply.__name__}" if isinstance(reply, type) else repr(reply)
