"""What still fits. Room is made by shortening the oldest tool results: what was said stays, and so does every pairing.

Pure: a conversation in, shortened in place; how much is too much comes from whoever counts tokens.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ..types.messages import Message, ToolResult, ToolResults

CHARACTERS_PER_TOKEN = 4  # rather too many than too few: what is asked for is freed at once
KEPT = 200  # characters of a shortened result: its head, by which the model knows it again
NOTE = "\n[shortened to make room: {cut:,} characters left out; {how}]"
AGAIN, CACHED = "ask again for what is needed of them", 'tool_output_cache(ref_id="{ref}") shows them'


def make_room(conversation: list[Message], tokens: int) -> int:
    """Shorten tool results, the oldest first and the newest last, until about `tokens` are freed; how many were."""
    wanted = max(tokens, 1) * CHARACTERS_PER_TOKEN
    freed = 0
    for position, message in enumerate(conversation):
        if freed >= wanted:
            break
        if isinstance(message, ToolResults):
            shortened = ToolResults(tuple(_shortened(result) for result in message.results))
            gained = _size(message) - _size(shortened)
            if gained > 0:
                conversation[position] = shortened
                freed += gained
    return freed // CHARACTERS_PER_TOKEN


def _shortened(result: ToolResult) -> ToolResult:
    size = _characters(result)
    if result.kind == "error" or size <= 2 * KEPT:
        return result
    head = result.text[:KEPT]
    how = CACHED.format(ref=result.ref) if result.ref else AGAIN
    return replace(result, kind="text", value=head + NOTE.format(cut=size - len(head), how=how))


def _size(message: ToolResults) -> int:
    return sum(map(_characters, message.results))


def _characters(result: ToolResult) -> int:
    """As it is sent, pictures included."""
    return len(json.dumps(result.value, ensure_ascii=False) if result.kind == "multimodal" else result.text)
