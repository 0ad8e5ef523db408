"""Whether an answer stopped halfway, as far as it shows that itself. Pure.

An answer that ends behind the tag of a call holds a call that cannot be read; see ResponseAssembler.note_cut_tag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from ..types.lazy_pattern import LazyPattern
from ..types.messages import Reasoning, Response

Stall: TypeAlias = Literal["", "empty", "announced"]

# What the model is told, for one more turn.
STALL_PROMPTS: Mapping[Stall, str] = {
    "empty": "Your last turn was empty. Answer the question, or call a tool for what you still need to know.",
    "announced": "You said what you would do next, and did not do it. Make the call now, or answer if nothing is left.",
}
_ANNOUNCEMENT = LazyPattern(
    r"(?:(?:ok(?:ay)?|now|next|then|first|so)\b\W*)*"
    r"(?:let me|let['’]s|i['’]ll|i will|i['’]m going to|i am going to)\s(?!know\b|be\b)",
    re.IGNORECASE,
)
_SENTENCE_END = LazyPattern(r"(?<=[.!?])\s+|\n+")


def find_stall(response: Response, *, is_behind_results: bool) -> Stall:
    """empty: thoughts and nothing else. announced: behind results of tools, its end says what the model will do."""
    if response.requested_calls or response.stop_reason != "end_turn":
        return ""
    text = response.text.strip()
    if not text:
        return "empty" if any(isinstance(block, Reasoning) for block in response.content) else ""
    return "announced" if is_behind_results and announces(text) else ""


def announces(text: str) -> bool:
    """Whether the last sentence ends in a colon, or says what the model is about to do."""
    if text.endswith(":"):
        return True
    last = _SENTENCE_END.split(text)[-1]
    return not text.endswith("?") and _ANNOUNCEMENT.match(last) is not None
