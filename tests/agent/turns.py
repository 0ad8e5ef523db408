"""One turn's calls by tools that a test defines."""

from __future__ import annotations

from pathlib import Path

from src.agent.dispatch import ToolDispatcher, TurnCalls
from src.agent.permission import PermissionGate
from src.security.permissions.approval import Answer
from src.security.permissions.policy import Policy
from src.security.permissions.rules import parse_rules
from src.tools import Registry
from src.types.events import CallDenied, CallFinished, CallStarted
from src.types.messages import ToolCall

from ..doubles import NOWHERE, context, perform


class Asks:
    """An Approver that answers as told, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked = []

    def approve(self, request):
        self.asked.append(request)
        return self.answers.pop(0)


class Turn:
    """The calls of one turn, run by `run`."""

    def __init__(self, *answers: Answer, at_most: int = 4, rules=(), board=None, hooks=None) -> None:
        self.policy = Policy(NOWHERE, rules=parse_rules(rules))
        self.registry = Registry()
        self.approver = Asks(*answers)
        self.at_most = at_most
        self.board = board
        self.hooks = hooks
        self.events = []

    def tool(self, function, risk="low", **options):
        self.registry.tool(risk=risk, **options)(function)
        return self

    def run(self, *calls: tuple[str, dict], guessed: bool = False, workspace: Path = Path("/"), **given):
        gate = PermissionGate(self.registry, self.approver, self.policy, self.board, hooks=self.hooks)
        dispatcher = ToolDispatcher(self.registry, gate, self.at_most)
        self.calls = TurnCalls(
            [ToolCall(f"c{place}", name, given, guessed=guessed) for place, (name, given) in enumerate(calls)]
        )
        with context(workspace).rewire(**given).for_run() as ctx:
            for event in perform(dispatcher.run(self.calls, ctx)):
                self.events.append(event)
        return self

    @property
    def results(self):
        return self.calls.settle().results

    @property
    def values(self):
        return [result.value for result in self.results]

    def order(self):
        names = {CallStarted: "start", CallFinished: "finish", CallDenied: "deny"}
        return [f"{names[type(event)]} {event.call.id}" for event in self.events]
