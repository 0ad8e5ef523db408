"""What the user's hooks say to calls, and who asks them. hook_programs.py runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from ...types.messages import ToolCall, ToolResult

if TYPE_CHECKING:  # loads logging
    from concurrent.futures import Future

HookEvent = Literal["before_call", "after_call", "turn_end"]


class HookVerdict(Struct, frozen=True):
    """On a call that is to run; without an action there is nothing against it."""

    action: Literal["deny", "ask", ""] = ""
    reason: str = ""


class HookReport(Struct, frozen=True):
    """`notes` are for the model, `failures` for the user."""

    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


class Hooks(Protocol):
    """The user's hooks. `mode` is the one in force."""

    def find(self, event: HookEvent, tool: str = "") -> Sequence[object]:
        """Those that hear of this event, for a call of this tool."""

    def judge(self, call: ToolCall, mode: str) -> Future[HookVerdict]:
        """What they say to a call before it runs."""

    def tell_result(self, call: ToolCall, result: ToolResult, mode: str) -> Future[HookReport]:
        """What they add to the result of a call that ran."""

    def tell_end(self, answer: str, mode: str) -> Future[HookReport]:
        """What they say at the end of a turn that was not interrupted."""

    def end(self) -> None:
        """End what runs; its results are no longer needed."""
