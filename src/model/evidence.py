"""Evidence that a call path does what it is for, taken from what the server does and not from what it accepts.

The size of the first prompt shows whether the server has put the tools into it: it counts the same prompt with and
without them. Until that is known, the answer is held back: without its tools the model answers something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..errors import ToolsDropped
from ..providers.base import ChatRequest, PromptSize, WireEvent
from ..types.effects import Aside
from ..types.events import Completed, ModelEvent
from .call_path import CallPath
from .token_budget import TokenBudget

MAX_PROMPT_DIFFERENCE = 16  # in tokens, of one prompt as counted and as sent


class PromptSizes(NamedTuple):
    """Of one prompt in tokens, with its tools and without."""

    shown: int
    hidden: int


class PromptCounter:
    """Has the server count prompts. The last one is not counted twice."""

    def __init__(self, budget: TokenBudget) -> None:
        self._budget = budget
        self._last: tuple[object, PromptSizes] | None = None

    def count(self, request: ChatRequest) -> Aside[PromptSizes | None]:
        """None if the server does not count."""
        key = request.model, tuple(request.messages), tuple(request.tools)
        if self._last and self._last[0] == key:
            return self._last[1]
        hidden = yield from self._budget.count_tokens(replace(request, tools=()))
        shown = None if hidden is None else (yield from self._budget.count_tokens(request))
        if hidden is None or shown is None:
            return None
        self._last = key, PromptSizes(shown, hidden)
        return self._last[1]

    def watch(self, request: ChatRequest, path: CallPath) -> Aside[PromptWatch]:
        """Count the prompt, if it was not seen yet that the server makes the same of the request."""
        if not request.tools or path.prompt_style != "template" or path.proven:
            return PromptWatch()
        return PromptWatch((yield from self.count(request)))


class PromptWatch:
    """Compares the prompt of a request with what the server counted before; None: there is nothing to prove."""

    def __init__(self, sizes: PromptSizes | None = None) -> None:
        self._sizes = sizes
        self._held: list[ModelEvent] = []
        self.is_proven = False

    def begin(self) -> None:
        """An answer begins; of one before it nothing was shown."""
        self._held.clear()

    def compare(self, tokens: int) -> None:
        """Take in the size of the prompt. Raises ToolsDropped if it is that of the prompt without its tools.

        Some other size proves nothing: not all servers count alike.
        """
        if self._sizes is None:
            return
        (shown, hidden), self._sizes = self._sizes, None
        if hidden - MAX_PROMPT_DIFFERENCE <= tokens < (shown + hidden) // 2:
            raise ToolsDropped("The server leaves tools out of the prompt, and there is no other way to offer them.")
        self.is_proven = tokens >= shown - MAX_PROMPT_DIFFERENCE

    def take(self, event: WireEvent, shown: Sequence[ModelEvent]) -> Sequence[ModelEvent]:
        """What may be shown by now, if `shown` comes of this event. Raises as compare."""
        if isinstance(event, PromptSize):
            self.compare(event.tokens)
        elif isinstance(event, Completed) and event.response.usage:
            self.compare(event.response.usage.input_tokens)
        if self._sizes is None and not self._held:
            return shown
        self._held += shown
        if self._sizes is not None and not isinstance(event, Completed):
            return ()
        held, self._held = self._held, []
        return held
