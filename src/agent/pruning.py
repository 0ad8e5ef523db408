"""Old tool outputs left out once all of them together are too much; each stays in the output cache, by its reference.

A prompt's unchanged begin costs a server nothing, and a change in it costs all that follows. So this is done
seldom and then thoroughly: once the outputs pass their budget, the oldest go until half of it is left. The
newest, which the model has not answered yet, always stay. Pure: a conversation in, shortened in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..types.messages import Message, ToolResult, ToolResults
from .room import CHARACTERS_PER_TOKEN

LEAST, MOST = 20_000, 100_000  # tokens of a budget
SHARE = 0.25  # of the context
TRIMMED = "[tool output trimmed; ref={ref}]"
SHORT = 200  # characters that are not worth a reference


def budget(context: int | None) -> int:
    """Tokens that tool outputs may take in a context of so many (None: not known)."""
    return LEAST if context is None else int(min(max(context * SHARE, LEAST), MOST))


def trim(conversation: list[Message], budget: Callable[[], int]) -> int:
    """Leave out the oldest outputs where all together take more tokens than `budget`; about how many were freed.

    It is asked only where the outputs pass the least that it may be.
    """
    sizes = [_size(message) for message in conversation]
    total = sum(sizes)
    if total <= LEAST or total <= (most := budget()):
        return 0
    newest = max(place for place, size in enumerate(sizes) if size)
    freed = 0
    for place, message in enumerate(conversation[:newest]):
        if total - freed <= most // 2:
            break
        if isinstance(message, ToolResults):
            conversation[place] = trimmed = ToolResults(tuple(map(_trimmed, message.results)))
            freed += sizes[place] - _size(trimmed)
    return freed


def _trimmed(result: ToolResult) -> ToolResult:
    if not result.ref or len(result.text) <= SHORT:
        return result
    return replace(result, kind="text", value=TRIMMED.format(ref=result.ref))


def _size(message: Message) -> int:
    """Tokens, about."""
    results = message.results if isinstance(message, ToolResults) else ()
    return sum(len(result.text) // CHARACTERS_PER_TOKEN + 1 for result in results)
