"""One turn's calls: what may run, in which order, and what of it the model hears.

Neighbouring calls that run unasked and are of low risk run together, in threads. Every other one waits for
those before it and runs alone: it may change what they see, and who is asked sees what came before. Events
come in the order of the calls: all that run together are started, then each is finished as soon as it and
those before it are. So do the results, of which each call has one, come what may.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import NamedTuple, TypeAlias

from ..security.permissions.approval import Answer, Approver, Request
from ..security.permissions.policy import Policy
from ..security.permissions.review import ReviewBoard
from ..tools.sdk.context import ToolContext
from ..tools.sdk.registry import Registry
from ..types.events import CallDenied, CallFinished, CallStarted, Notice
from ..types.messages import JSON, MalformedCall, ToolCall, ToolResult

Asked: TypeAlias = "ToolCall | MalformedCall"
Events: TypeAlias = Generator["CallStarted | CallDenied | CallFinished | Notice", None, None]

MAX_SAME = 3
GRACE = 2.0  # seconds that interrupted calls have to end

NOT_FINISHED = "The call did not finish: the user interrupted it."
SAME_AGAIN = (
    f"Not run: this is the same call with the same arguments for the {MAX_SAME}rd time in a row. "
    "Use the result you have, change the arguments, or answer."
)


class Question:
    """One question of the user's, over its turns: its text, and how often in a row the model made the same call."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_endless = False  # it was told, and did it again in a later turn
        self._last: tuple[str, Mapping[str, JSON]] | None = None
        self._times = 0
        self._told_in = 0
        self._turn = 0

    def next_turn(self) -> None:
        """To be called before the calls of each turn."""
        self._turn += 1

    def once_too_often(self, call: ToolCall) -> bool:
        """Whether the call, which is counted with this, was just made MAX_SAME times or more."""
        this = (call.name, call.arguments)
        if this != self._last:
            self._last, self._times, self._told_in = this, 0, 0
        self._times += 1
        if self._times < MAX_SAME:
            return False
        self.is_endless = 0 < self._told_in < self._turn
        self._told_in = self._told_in or self._turn
        return True


class Permission(NamedTuple):
    """`call` as it may run, or why not; `note`: what the user had to say to the model, `reviews`: what others said."""

    call: ToolCall
    no: str = ""
    note: str = ""
    reviews: tuple[str, ...] = ()


class Calls:
    """Answers calls, for as long as a session: what the user allowed for always stays allowed."""

    def __init__(
        self,
        registry: Registry,
        approver: Approver,
        policy: Policy,
        max_parallel: int,
        panel: ReviewBoard | None = None,
    ) -> None:
        self._registry = registry
        self._approver = approver
        self._policy = policy
        self._max_parallel = max_parallel
        self._panel = panel

    def answer(
        self, asked: Sequence[Asked], ctx: ToolContext, question: Question, results: dict[int, ToolResult]
    ) -> Events:
        """Put each call's result into `results`, by its place in `asked`. Raises what interrupts it."""
        question.next_turn()
        together: dict[int, ToolCall] = {}
        for place, call in enumerate(asked):
            wrong = self._wrong(call, question)
            if isinstance(call, ToolCall) and not wrong and self._runs_freely(call):
                together[place] = call
                continue
            yield from self._together(together, ctx, results)
            together = {}
            if isinstance(call, ToolCall) and not wrong:
                yield from self._alone(place, call, ctx, question, results)
            elif wrong:
                results[place] = wrong
                yield CallFinished(call, wrong)
        yield from self._together(together, ctx, results)

    def _wrong(self, call: Asked, question: Question) -> ToolResult | None:
        """The answer to a call that cannot run, whoever would allow it."""
        if isinstance(call, MalformedCall):
            usage = self._registry.signature(call.name)
            return error(call, f"{call.reason} Usage: {usage}" if usage else call.reason)
        if question.once_too_often(call):
            return error(call, SAME_AGAIN)
        return self._registry.check(call)

    def _runs_freely(self, call: ToolCall) -> bool:
        risk = self._registry.risk(call.name)
        return risk == "low" and self._policy.decide(call, risk).action == "allow"

    def _alone(
        self, place: int, call: ToolCall, ctx: ToolContext, question: Question, results: dict[int, ToolResult]
    ) -> Events:
        call, no, note, reviews = self._permission(call, ctx, question)
        for line in reviews:
            yield Notice(f"Reviewed by {line}")
        if no:
            yield CallDenied(call, no)
            results[place] = error(call, f"Not run: {no}")
        else:
            yield CallStarted(call)
            results[place] = _noted(self._registry.run(call, ctx), note)
        yield CallFinished(call, results[place])

    def _permission(self, call: ToolCall, ctx: ToolContext, question: Question) -> Permission:
        risk = self._registry.risk(call.name)
        action, reason, *_ = self._policy.decide(call, risk)
        if action == "deny":
            return Permission(call, reason)
        reviews: tuple[str, ...] = ()
        if self._panel and self._panel.applies_to(risk, action):
            review = self._panel.review(question.text, call, self._registry.preview(call, ctx))
            if review.vote != "none":
                no = "reviewers rejected it. " + "; ".join(review.lines) if review.vote == "reject" else ""
                return Permission(call, no, reviews=review.lines)
            reviews, reason = review.lines, f"{reason}; its reviewers came to no decision"
        elif action == "allow":
            return Permission(call)
        return self._asked(self._request(call, ctx, reason)._replace(reviews=reviews))

    def _request(self, call: ToolCall, ctx: ToolContext, reason: str) -> Request:
        preview = self._registry.preview(call, ctx)
        return Request(call, reason, lambda changed: self._revised(changed, ctx), preview)

    def _revised(self, call: ToolCall, ctx: ToolContext) -> Request | str:
        """What is asked of a call as the user changed it; why, where it can never run."""
        if wrong := self._registry.check(call):
            return wrong.text
        decision = self._policy.decide(call, self._registry.risk(call.name))
        return decision.reason if decision.action == "deny" else self._request(call, ctx, decision.reason)

    def _asked(self, request: Request) -> Permission:
        call = request.call
        always = self._policy.find_always_rule(call)
        answer = self._approver.approve(request._replace(rule=str(always or "")))
        if not answer.allowed:
            said = f" What reviewers said: {'; '.join(request.reviews)}" if request.reviews else ""
            return Permission(call, (answer.message or "the user said no.") + said)
        if answer.arguments is not None and answer.arguments != call.arguments:
            return _changed(request, answer, answer.arguments)
        if answer.always and always:
            self._policy = self._policy.with_rule(always)
        return Permission(call, note=_said(answer))

    def _together(self, calls: Mapping[int, ToolCall], ctx: ToolContext, results: dict[int, ToolResult]) -> Events:
        for call in calls.values():
            yield CallStarted(call)
        if len(calls) == 1 or self._max_parallel == 1:
            for place, call in calls.items():
                results[place] = self._registry.run(call, ctx)
                yield CallFinished(call, results[place])
        elif calls:
            yield from self._in_threads(calls, ctx, results)

    def _in_threads(self, calls: Mapping[int, ToolCall], ctx: ToolContext, results: dict[int, ToolResult]) -> Events:
        def work(call: ToolCall) -> ToolResult:
            return self._registry.run(call, ctx)

        threads = Threads(work, list(calls.values()), self._max_parallel)
        places = dict(zip(calls, threads.futures, strict=True))
        try:
            for place, future in places.items():
                results[place] = future.result()
                yield CallFinished(calls[place], results[place])
        finally:
            finished = [place for place, future in places.items() if future.done()]
            if len(finished) < len(places):  # interrupted
                threads.stop(ctx.cancelled)
            for place, future in places.items():
                # One that fails after the interrupt fails because of it.
                if future.done() and not future.exception():
                    result = future.result()
                    if place in finished or result.kind != "error":
                        results[place] = result


class Threads:
    """So much work, in order, in so many threads; they are daemons, so that one which hangs holds up nobody's exit."""

    def __init__(self, work: Callable[[ToolCall], ToolResult], calls: Sequence[ToolCall], at_most: int) -> None:
        self.futures: list[Future[ToolResult]] = [Future() for _ in calls]
        self._work = work
        self._waiting = list(zip(self.futures, calls, strict=True))[::-1]
        self._lock = Lock()
        for number in range(min(at_most, len(calls))):
            Thread(target=self._run, daemon=True, name=f"call {number}").start()

    def stop(self, cancelled: Event) -> None:
        """Begin nothing more, tell what has begun, and wait a moment for it."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        cancelled.set()
        never = {future for future, _ in waiting}
        wait([future for future in self.futures if future not in never], GRACE)

    def _run(self) -> None:
        while task := self._next():
            future, call = task
            try:
                future.set_result(self._work(call))
            except (KeyboardInterrupt, SystemExit) as error:  # meant for the program: raised where it is waited for
                future.set_exception(error)
            finally:
                if not future.done():  # nothing else gets here, and nobody shall wait for ever
                    future.set_exception(SystemExit(f"{call.name} broke its thread"))

    def _next(self) -> tuple[Future[ToolResult], ToolCall] | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None


def in_order(asked: Sequence[Asked], results: Mapping[int, ToolResult]) -> tuple[ToolResult, ...]:
    """A result for each call; where there is none, that it did not finish."""
    return tuple(results.get(place) or error(call, NOT_FINISHED) for place, call in enumerate(asked))


def error(call: Asked, value: str) -> ToolResult:
    return ToolResult(call.id, call.name or "unreadable call", "error", value)


def _said(answer: Answer) -> str:
    return f"[The user says: {answer.message}]\n" if answer.message else ""


def _changed(request: Request, answer: Answer, arguments: Mapping[str, JSON]) -> Permission:
    """The call as the user made it, who is asked no second time."""
    call = replace(request.call, arguments=arguments)
    if isinstance(why_not := request.revise(call), str):
        return Permission(call, f"the user changed the arguments: {why_not}")
    what = ToolResult(call.id, call.name, "data", dict(arguments)).text
    return Permission(call, note=f"[The user changed the arguments to {what}]\n{_said(answer)}")


def _noted(result: ToolResult, note: str) -> ToolResult:
    """With what the user had to say before it."""
    if not note:
        return result
    if result.kind == "multimodal" and isinstance(result.value, list):
        return replace(result, value=[{"type": "text", "text": note}, *result.value])
    return replace(result, kind="error" if result.kind == "error" else "text", value=note + result.text)
