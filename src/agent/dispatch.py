"""One turn's calls: in which order they run, and the result of each.

Neighbouring calls that are of low risk and need no permission run in parallel. Every other call waits for
those before it and runs alone: it may change what they read, and a user who is asked sees what came before. Events
and results come in the order of the calls: all calls of a parallel group are started, then each is finished as soon
as it and those before it are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, nullcontext

from msgspec.structs import replace

from ..errors import Cancelled
from ..model.loops import MAX_ROUNDS, SLOW_S, Round, decide
from ..tools.sdk.calls import CallRunner
from ..tools.sdk.context import ToolContext
from ..tools.sdk.registry import Registry
from ..tools.sdk.wiring import CommandReport, Inbox
from ..types.call_results import NOT_FINISHED, make_error
from ..types.effects import AgentSteps
from ..types.events import CallDenied, CallFinished, CallStarted, ModeChanged, Notice
from ..types.messages import (
    MAX_CALLS,
    MalformedCall,
    RequestedCall,
    ToolCall,
    ToolResult,
    ToolResults,
)
from ..types.sandbox import Grant
from .permission import Permission, PermissionGate
from .steps import wait_for
from .subagents import CallGroup

RECORDING_TOOLS = ("write", "edit")  # they call ToolContext.before_write

TOO_MANY = f"Not run: an answer may hold at most {MAX_CALLS} calls. Make the others again, fewer at once."
TOO_MANY_NOTICE = f"The answer held more than {MAX_CALLS} calls; the others were not run, and the model is told so."


class LoopWatch:
    """The rounds of one question. `end`: why it is to end: the model goes on with a loop that it was told of."""

    def __init__(self) -> None:
        self.end = ""
        self._rounds: list[Round] = []

    def add(self, calls: Sequence[RequestedCall], results: Sequence[ToolResult]) -> str:
        """Take in a turn. Returns a note for the model if that makes a loop."""
        made = [(call.name, call.arguments if isinstance(call, ToolCall) else call.raw) for call in calls]
        is_slow = any(result.seconds > SLOW_S for result in results)
        self._rounds = [*self._rounds[-MAX_ROUNDS:], Round(made, [*map(_compare_by, results)], is_slow)]
        note, self.end = decide(self._rounds)
        return note


def _compare_by(result: ToolResult) -> object:
    """The result without the name of its stored output, which is another one each time."""
    value = result.value
    if isinstance(value, str) and result.ref:
        value = value.replace(result.ref, "")
    return result.kind, value


class TurnCalls:
    """The calls of one turn, as they ran if they did, and their results so far.

    Once unwrapped, a call of `call_tool`, or of a tool's alias, is a call of the tool that it means. Its result has the
    name in the answer, which some APIs compare.
    `task`: the user's question that they serve. `watch`: what the turns of that question make together. `results`: of
    each call, where the turn was suspended; with `is_suspended` those that have none stay without one.
    """

    def __init__(
        self,
        calls: Sequence[RequestedCall],
        task: str = "",
        watch: LoopWatch | None = None,
        results: Sequence[ToolResult | None] = (),
    ) -> None:
        self.calls = list(calls)
        self.task = task
        self.is_suspended = False
        self._names = [call.name for call in calls]  # in the answer
        self._watch = watch
        self._results = {place: result for place, result in enumerate(results) if result}

    def unwrap(self, registry: Registry) -> None:
        self.calls = [registry.unwrap(call) for call in self.calls]

    def finish(self, place: int, result: ToolResult) -> CallFinished:
        """Record the result of the call at this place; the last one tells the model of a loop."""
        self._results[place] = result = self._address(place, result)
        if self._watch and len(self._results) == len(self.calls):
            self._results[place] = result = _append_note(result, self._watch.add(self.calls, self.settle().results))
        return CallFinished(self.calls[place], result)

    def keep(self, place: int, result: ToolResult) -> None:
        """Keep the result of a call that is not finished: it holds if what follows is interrupted."""
        self._results[place] = self._address(place, result)

    def has_result(self, place: int) -> bool:
        return place in self._results

    def settle(self) -> ToolResults:
        """A result for each call; one that has none did not finish, or waits."""
        if self.is_suspended:
            return ToolResults(tuple(self._results[place] for place in sorted(self._results)))
        return ToolResults(
            tuple(
                self._results.get(place) or self._address(place, make_error(call, NOT_FINISHED))
                for place, call in enumerate(self.calls)
            )
        )

    def _address(self, place: int, result: ToolResult) -> ToolResult:
        """The result under the name of the call in the answer, which some APIs compare with it."""
        return replace(result, name=self._names[place])


class ToolDispatcher:
    """Runs calls that may run, and answers those that may not.

    `alone` is entered around each call that runs alone: subagents share a lock.
    """

    def __init__(
        self,
        registry: Registry,
        gate: PermissionGate,
        max_parallel: int,
        runner: CallRunner | None = None,
        alone: AbstractContextManager[object] | None = None,
    ) -> None:
        self._registry = registry
        self._alone = alone or nullcontext()
        self._runner = runner or CallRunner(registry)
        self._gate = gate
        self._max_parallel = max_parallel
        self._unchecked: list[str] = []  # files that were changed, and not checked yet

    def run(self, turn: TurnCalls, ctx: ToolContext) -> AgentSteps[None]:
        """Finish each call of the turn. Raises what interrupts it; the calls finished by then keep their results."""
        if len(turn.calls) > MAX_CALLS:
            yield Notice(TOO_MANY_NOTICE)
        turn.unwrap(self._registry)
        free: dict[int, ToolCall] = {}
        for place, call in enumerate(turn.calls):
            if turn.has_result(place):
                continue
            error = self._find_error(place, call)
            if isinstance(call, ToolCall) and not error and (judged := self._gate.find_free(call)):
                turn.calls[place] = free[place] = judged
                continue
            yield from self._run_parallel(turn, free, ctx)
            free = {}
            if error:
                yield from _finish(turn, place, error, ctx)
            elif isinstance(call, ToolCall):
                with self._alone:
                    if ctx.cancelled.is_set():  # while it waited for the lock
                        raise Cancelled(NOT_FINISHED)
                    yield from self._run_alone(turn, place, call, ctx)
        yield from self._run_parallel(turn, free, ctx)

    def _find_error(self, place: int, call: RequestedCall) -> ToolResult | None:
        """The answer to a call that cannot run, even with permission."""
        if isinstance(call, MalformedCall):
            reason = call.reason
            if usage := self._registry.signature(call.name):
                reason += f" Usage: {usage}"
            return make_error(call, reason)
        if place >= MAX_CALLS:
            return make_error(call, TOO_MANY)
        return self._registry.check(call)

    def _run_alone(self, turn: TurnCalls, place: int, call: ToolCall, ctx: ToolContext) -> AgentSteps[None]:
        permission = yield from self._gate.decide(call, ctx, turn.task)
        call = turn.calls[place] = permission.call
        if permission.mode:
            yield ModeChanged(permission.mode)
        for line in permission.reviews:
            yield Notice(f"Reviewed by {line}")
        if permission.denial_reason:
            yield CallDenied(call, permission.denial_reason, is_unasked=permission.is_unasked)
            error = make_error(call, f"Not run: {permission.denial_reason}")
            result = replace(error, is_denied=True, reply=permission.reply)
        elif permission.result:
            result = permission.result
        else:
            yield CallStarted(call)
            result = yield from self._run_permitted(permission, ctx)
            result = yield from self._tell_hooks(call, result)
            self._note_change(call, result)
        turn.keep(place, result)
        if self._unchecked and not any(each.name in RECORDING_TOOLS for each in turn.calls[place + 1 :]):
            result = _append_note(result, (yield from self._diagnose(ctx)))
        yield from _finish(turn, place, result, ctx)

    def _note_change(self, call: ToolCall, result: ToolResult) -> None:
        if call.name in RECORDING_TOOLS and result.kind != "error" and call.real_path:
            self._unchecked.append(call.real_path)

    def _diagnose(self, ctx: ToolContext) -> AgentSteps[str]:
        """What the project's checkers say of the files that were changed."""
        files, self._unchecked = self._unchecked, []
        if not ctx.wiring.diagnose:
            return ""
        with closing(ctx.wiring.diagnose(files, ctx)) as checks:
            try:
                line = next(checks)
                while True:
                    line = checks.send((yield from self._gate.runs_freely(line)))
            except StopIteration as end:
                note: str = end.value
                return note

    def _run_permitted(self, permission: Permission, ctx: ToolContext) -> AgentSteps[ToolResult]:
        """Run a call; a command that failed for lack of access runs again with more, if it may."""
        call, access, user_note = permission.call, permission.access, permission.user_note
        notes: list[str] = []
        while True:
            report = CommandReport(self._gate.policy.widest_access)
            result = yield from self._watch(call, ctx.rewire(access=access, report=report))
            if not report.explanation or self._gate.is_unaffected(call, report):
                break
            grant = yield from self._gate.widen(call, ctx, report)
            if not grant.access:
                notes += [report.explanation, grant.reason]
                break
            notes.append(_describe_widening(grant.access))
            call, access, user_note = grant.call or call, grant.access, user_note + grant.user_note
        result = _append_note(result, "; ".join(filter(None, notes)))
        if not user_note:
            return result
        if result.kind == "multimodal" and isinstance(result.value, list):
            return replace(result, value=[{"type": "text", "text": user_note}, *result.value])
        return result.with_text(user_note + result.text)

    def _tell_hooks(self, call: ToolCall, result: ToolResult) -> AgentSteps[ToolResult]:
        """The result with what the user's hooks say of it."""
        report = yield from self._gate.tell_hooks(call, result)
        yield from map(Notice, report.failures)
        for note in report.notes:
            result = _append_note(result, note)
        return result

    def _watch(self, call: ToolCall, ctx: ToolContext) -> AgentSteps[ToolResult]:
        """Run a call; what it changes in files is found, unless it can change none or says itself which it writes."""
        is_held = self._gate.policy.is_enforced
        access, sandbox = ctx.wiring.access, ctx.wiring.sandbox
        reads_only = is_held and access == "read"
        only_files = is_held and access == "write" and sandbox is not None and not sandbox.has_network("write")
        is_watched = self._registry.risk(call.name) == "high" and not reads_only and call.name not in RECORDING_TOOLS
        with ctx.wiring.watch_files(only_files) if is_watched else nullcontext():
            if self._runner.runs_aside(call.name):
                return (yield from self._run_aside(call, ctx))
            return (yield from wait_for(self._runner.run(call, ctx)))

    def _run_parallel(self, turn: TurnCalls, calls: Mapping[int, ToolCall], ctx: ToolContext) -> AgentSteps[None]:
        for call in calls.values():
            yield CallStarted(call)
        runs_aside = any(self._runner.runs_aside(call.name) for call in calls.values())
        if (len(calls) == 1 or self._max_parallel == 1) and not runs_aside:
            for place, call in calls.items():
                result = yield from wait_for(self._runner.run(call, ctx))
                yield from _finish(turn, place, (yield from self._tell_hooks(call, result)), ctx)
        elif calls:
            yield from self._run_at_once(turn, calls, ctx)

    def _run_at_once(self, turn: TurnCalls, calls: Mapping[int, ToolCall], ctx: ToolContext) -> AgentSteps[None]:
        group = self._start(list(calls.values()), ctx)
        futures = dict(zip(calls, group.futures, strict=True))
        try:
            for place, future in futures.items():
                result = yield from group.wait_for(calls[place], future)
                yield from _finish(turn, place, (yield from self._tell_hooks(calls[place], result)), ctx)
        finally:
            in_time = [place for place, future in futures.items() if future.done()]
            begun = {place: future for place, future in futures.items() if not future.cancel()}
            if len(in_time) < len(futures):  # interrupted
                ctx.cancelled.set()
                self._runner.wait_for_end(begun.values())
            for place, future in begun.items():
                # A call that fails after the interrupt fails because of it.
                kept = _find_result(group, calls[place], future, may_fail=place in in_time)
                if kept and not turn.has_result(place):
                    turn.finish(place, kept)

    def _run_aside(self, call: ToolCall, ctx: ToolContext) -> AgentSteps[ToolResult]:
        """Run one call in a thread of its own. If it is interrupted, what it gives within the grace counts."""
        group = self._start([call], ctx)
        (future,) = group.futures
        try:
            return (yield from group.wait_for(call, future))
        except BaseException as error:
            if not future.done():
                ctx.cancelled.set()
                self._runner.wait_for_end([future])
            result = _find_result(group, call, future, may_fail=False)
            if isinstance(error, Cancelled) and result:
                return result
            raise

    def _start(self, calls: Sequence[ToolCall], ctx: ToolContext) -> CallGroup:
        inbox = Inbox()
        futures = self._runner.start(calls, ctx.rewire(inbox=inbox), self._max_parallel)
        return CallGroup(futures, inbox, self._gate.ask)


def _finish(turn: TurnCalls, place: int, result: ToolResult, ctx: ToolContext) -> Iterator[Notice | CallFinished]:
    """Finish the call; its result also tells the model of commands in the background that have ended."""
    if result.kind in ("text", "error"):
        own_chars = len(result.text)
        for job in ctx.wiring.jobs.take_ended():
            if not job.is_shown:
                yield Notice(job.summarize_end())
            result = replace(_append_note(result, job.describe_end()), own_chars=own_chars)
    yield turn.finish(place, result)


def _find_result(group: CallGroup, call: ToolCall, future: Future[ToolResult], *, may_fail: bool) -> ToolResult | None:
    """What a call gave before its turn was interrupted, or within the grace; None if that does not count."""
    if not future.done() or future.exception():
        return None
    result = group.get_result(call, future)
    if result.kind == "error" and not may_fail:
        return None
    return result


def _describe_widening(access: Grant) -> str:
    if access == "outside":
        return "it failed in the sandbox, and was run again outside of it"
    return f"it failed with access=read, and was run again with access={access}"


def _append_note(result: ToolResult, note: str) -> ToolResult:
    if not note:
        return result
    if result.kind == "multimodal" and isinstance(result.value, list):
        return replace(result, value=[*result.value, {"type": "text", "text": f"[{note}]"}])
    return result.with_text(f"{result.text}\n[{note}]")
