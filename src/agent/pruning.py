"""Shortens a conversation without a summary: the oldest tool results are left out first.

`trim_old_outputs` keeps all tool outputs together within a budget. A prompt's unchanged beginning costs a server
nothing, and a change in it costs all that follows. So it acts seldom and then thoroughly: once the outputs pass their
budget, the oldest are left out until half of it is free. Each is kept in the output cache, by its reference: written
there now, as most never leave the conversation. The journal has them until then.

`shorten_old_results` makes room where the context is full. A shortened result keeps its head.

Pure: the messages are replaced in the given list. Calls keep their results, and all other messages stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from ..tools.sdk.result import write_whole
from ..types.messages import MEDIA_CHARS, Message, ToolResult, ToolResults, count_media

CHARS_PER_TOKEN = 4  # an estimate that is rather too small, so that enough is freed at once

MIN_BUDGET_TOKENS, MAX_BUDGET_TOKENS = 20_000, 100_000
BUDGET_SHARE = 0.25  # of the context
TRIMMED = "[tool output trimmed; ref={ref}]"
MIN_TRIMMED_CHARS = 200  # shorter outputs are not worth a reference

HEAD_CHARS = 200  # of a shortened result, by which the model knows it again
SHORTENED = "{head}\n[shortened to make room: {cut:,} characters left out; {how}]"
StoreText = Callable[[str], str]  # gives the reference of what was stored; "" if it cannot be
ASK_AGAIN, READ_CACHE = "ask again for what is needed of them", 'tool_output_cache(ref_id="{ref}") shows them'


def store_nothing(text: str) -> str:  # noqa: ARG001
    return ""


def compute_output_budget(context: int | None) -> int:
    """Tokens that tool outputs may take in a context of so many tokens; None: its length is not known."""
    if context is None:
        return MIN_BUDGET_TOKENS
    return int(min(max(context * BUDGET_SHARE, MIN_BUDGET_TOKENS), MAX_BUDGET_TOKENS))


def trim_old_outputs(
    conversation: list[Message],
    budget: Callable[[], int],
    sizes: Callable[[Sequence[Message]], Iterable[int]],
    store: StoreText,
) -> int:
    """Leave out the oldest outputs if all together take more tokens than `budget`; about how many were freed.

    The newest results stay, as the model has not answered them yet. `budget` is called only if the outputs take more
    than the smallest budget. `sizes`: count_output_chars of each message. `store`: as Outputs.put.
    """
    chars = sum(sizes(conversation))
    if chars <= MIN_BUDGET_TOKENS * CHARS_PER_TOKEN or chars <= (most := budget() * CHARS_PER_TOKEN):
        return 0
    newest = next(place for place in reversed(range(len(conversation))) if _get_results(conversation[place]))
    return _replace_oldest(conversation, newest, chars - most // 2, partial(_trim, store=store))


def count_output_chars(message: Message) -> int:
    """Of the results in a message that can be left out, since the output cache can hold them."""
    return sum(len(result.text) for result in _get_results(message) if result.kind != "multimodal")


def shorten_old_results(conversation: list[Message], tokens: int, store: StoreText = store_nothing) -> int:
    """Shorten results, the oldest first and the newest last, until about `tokens` are freed; how many were."""
    shorten = partial(_shorten, store=store)
    return _replace_oldest(conversation, len(conversation), max(tokens, 1) * CHARS_PER_TOKEN, shorten)


def _replace_oldest(
    conversation: list[Message], end: int, chars: int, shorten: Callable[[ToolResult], ToolResult]
) -> int:
    """Shorten the results before the place `end` until so many characters are freed; about how many tokens were."""
    freed = 0
    for place in range(end):
        if freed >= chars:
            break
        if results := _get_results(conversation[place]):
            shorter = tuple(map(shorten, results))
            gained = sum(map(_count_chars, results)) - sum(map(_count_chars, shorter))
            if gained > 0:
                conversation[place] = ToolResults(shorter)
                freed += gained
    return freed // CHARS_PER_TOKEN


def _trim(result: ToolResult, store: StoreText) -> ToolResult:
    if result.kind == "multimodal" or len(result.text) <= MIN_TRIMMED_CHARS:
        return result
    ref = result.ref or store(write_whole(result))
    if not ref:
        return result
    return replace(result, kind="text", value=TRIMMED.format(ref=ref), ref=ref)


def _shorten(result: ToolResult, store: StoreText) -> ToolResult:
    size = _count_chars(result)
    if result.kind == "error" or size <= 2 * HEAD_CHARS:
        return result
    head = result.text[:HEAD_CHARS]
    how, ref = ASK_AGAIN, result.ref
    if not ref and result.kind != "multimodal":
        ref = store(write_whole(result))
    if ref:
        how = READ_CACHE.format(ref=ref)
    return replace(result, kind="text", value=SHORTENED.format(head=head, cut=size - len(head), how=how), ref=ref)


def _get_results(message: Message) -> tuple[ToolResult, ...]:
    return message.results if isinstance(message, ToolResults) else ()


def _count_chars(result: ToolResult) -> int:
    return len(result.text) + MEDIA_CHARS * count_media(ToolResults((result,)))
