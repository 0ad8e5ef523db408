"""Recovers what a server's own tool parser lost of an answer.

It may drop a call that it cannot read, cut the text where a tag is only mentioned, or return a call with a wrong name
or without its arguments. The answer's tokens show it: if some became neither text nor call, or a native call is not of
an offered tool, their text is parsed instead of what the server returned. docs/paths.md lists the ways to get that
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..errors import RequestFailed
from ..parsing import list_parsers
from ..providers.base import ChatRequest
from ..types.effects import Aside, Turn
from ..types.events import Completed, Notice, TextDelta
from ..types.messages import (
    NATIVE,
    TEXT,
    MalformedCall,
    Named,
    Reasoning,
    Response,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
)
from .response_assembler import ResponseAssembler, fits, replace_content
from .server import ServerApi
from .token_budget import TokenBudget

Replay: TypeAlias = Callable[[ChatRequest], Turn[ResponseAssembler]]

RECOVERED_NOTICE = "The server's tool parser lost part of the answer; it was recovered."
ASKING_AGAIN_NOTICE = (
    "The server's tool parser seems to have lost part of the answer; asking once more without the parser."
)
ASKING_WHOLE_NOTICE = (
    "The server seems to have lost part of the answer; asking once more for a whole one, without streaming."
)
NOT_FORCED = "The model was to call {wanted}, and did not."
NON_TEXT_TOKENS = 6  # of an answer: the end of the turn, the marks around a thought
MAX_CHARS_PER_TOKEN = 8  # no answer has more on average
CUT_OFF = (
    "The call was cut off when the answer reached its {tokens} tokens (max_tokens), so it was not run. "
    "Send less at once: write a long file in several parts."
)


class Recovery:
    """Of one answer, which `turn` has read to its end. `is_unparsed`: no parser of the server has read it.

    `replay` sends a request and returns the answer to it, and shows nothing. `disable_native` notes that the server
    announces native calls and returns none; its notice is for the user. A notice in `sent_notices` is not repeated.
    """

    def __init__(
        self,
        turn: ResponseAssembler,
        request: ChatRequest,
        tools: Sequence[ToolDefinition],
        *,
        choice: ToolChoice,
        is_native: bool,
        is_unparsed: bool = False,
        server: ServerApi,
        budget: TokenBudget,
        replay: Replay,
        disable_native: Callable[[], str],
        sent_notices: set[str],
    ) -> None:
        self._turn = turn
        self._request = request
        self._tools = tools
        self._choice = choice
        self._is_native = is_native
        self._is_unparsed = is_unparsed
        self._server = server
        self._budget = budget
        self._replay = replay
        self._disable_native = disable_native
        self._sent_notices = sent_notices
        self._response = turn.response()

    def run(self) -> Turn[None]:
        """The rest of the turn, with what the server lost. Completed comes last."""
        turn = self._turn
        whole = response = self._response
        if turn.repeats:
            yield Completed(response)
            return
        if (yield from self._has_losses()):
            found = yield from self._reparse()
            if found:
                whole = found
                new = len(whole.calls) > len(turn.completed.calls) or not whole.calls
                if new and not (yield from self._is_unclosed_thought()):
                    yield from self._notify(RECOVERED_NOTICE)
            elif turn.lacks_promised_calls() or (self._is_native and turn.is_empty()):
                yield from self._notify(self._disable_native())
        elif _is_only_thought(response):
            whole = yield from self._extract_from_thought()
        if whole.text.startswith(response.text) and (rest := whole.text[len(response.text) :]):
            yield TextDelta(rest)
        if leaked := self._describe_leak(whole):
            yield from self._notify(leaked)
        cap = yield from self._budget.limit_output(self._request, whole.usage)
        whole = mark_truncated(whole, self._tools, cap)
        if unmet := _describe_unmet(self._choice, whole):
            yield Notice(unmet)
        yield Completed(whole)

    def _notify(self, text: str) -> Iterator[Notice]:
        if text not in self._sent_notices:
            self._sent_notices.add(text)
            yield Notice(text)

    def _has_losses(self) -> Aside[bool]:
        """Whether the server's parser seems to have lost or garbled part of the answer."""
        turn, response = self._turn, self._response
        if self._is_unparsed:
            return False
        if not turn.tokens.ids:
            cap = yield from self._budget.limit_output(self._request, response.usage)
            if _is_at_cap(response, cap):
                return False  # it was cut off, and would be cut off again
        if turn.has_losses(told_all=self._server.is_vllm):
            return True
        if turn.tokens.ids or not self._server.is_vllm or response.calls or not response.usage:
            return False
        text = self._turn.raw_text()
        if response.usage.output_tokens <= len(text) // MAX_CHARS_PER_TOKEN:  # certainly nothing was lost
            return False
        size = yield from self._server.count_text_tokens(self._request.model, text)
        return (
            size is not None
            and response.usage.output_tokens - size > NON_TEXT_TOKENS + response.usage.output_tokens // 20
        )

    def _reparse(self) -> Turn[Response | None]:
        """The answer as it was before the server's parser read it; None if that says no more."""
        found: Response | None = None
        if (text := (yield from self._fetch_raw_text())) is not None:
            found = self._turn.reparse(text)
        else:
            if self._server.is_vllm:
                yield from self._notify(ASKING_AGAIN_NOTICE)
            if raw := (yield from self._server.complete_raw(self._request, self._response.usage)):
                found = self._turn.reparse(raw.text, raw)
            elif self._request.stream:
                yield from self._notify(ASKING_WHOLE_NOTICE)
                found = yield from self._ask_again()
        return found if found and _is_richer(found, self._response, self._tools) else None

    def _ask_again(self) -> Turn[Response | None]:
        """The answer to the same request, sent once more; it is not shown, since it may say no more."""
        try:
            turn = yield from self._replay(replace(self._request, stream=False))
        except RequestFailed as error:
            yield from self._notify(f"Asking again failed: {error.message}")
            return None
        return turn.response()

    def _fetch_raw_text(self) -> Aside[str | None]:
        """The text of the answer's tokens; None if the server did not tell them."""
        turn = self._turn
        if turn.raw is None and turn.tokens.ids:
            turn.raw = yield from self._server.detokenize(self._request.model, turn.tokens.ids)
        return turn.raw

    def _is_unclosed_thought(self) -> Aside[bool]:
        """Whether the answer is part of a thought that was never closed."""
        if not _is_only_thought(self._response):
            return False
        raw = yield from self._fetch_raw_text()
        return raw is None or raw.rstrip().endswith(self._turn.raw_text().rstrip())

    def _extract_from_thought(self) -> Aside[Response]:
        """The answer from a thought: all of one that was never closed; the calls in one that was."""
        thought = "".join(block.text for block in self._response.content if isinstance(block, Reasoning))
        if (yield from self._is_unclosed_thought()):
            answer = self._turn.reparse(thought)
            return replace_content(answer, [block for block in answer.content if not isinstance(block, Reasoning)])
        found = self._turn.reparse(f"<think>{thought}</think>")
        return found if found.calls else self._response

    def _describe_leak(self, response: Response) -> str:
        """The notice on calls that a native server left in the text: their format, and which parser reads it."""
        clean = (call.origin for call in response.calls if not call.repaired)
        leaked = next((origin for origin in clean if origin not in (NATIVE, TEXT)), "")
        if not leaked or not self._is_native or self._choice == "none":
            return ""
        parsers = list_parsers(leaked)
        advice = f"--tool-call-parser {parsers[0]} reads it" if parsers else "no --tool-call-parser reads it"
        return f"The model's calls came in the text, in the format {leaked}; {advice}."


def _describe_unmet(choice: ToolChoice, response: Response) -> str:
    """That a call was required and none came; else an empty string."""
    names = [call.name for call in response.requested_calls]
    if isinstance(choice, Named):
        return "" if choice.name in names else NOT_FORCED.format(wanted=choice.name)
    return NOT_FORCED.format(wanted="a tool") if choice == "required" and not names else ""


def _is_richer(whole: Response, response: Response, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the text of the tokens holds more than what the server returned."""
    if sum(fits(call, tools) for call in whole.calls) > sum(fits(call, tools) for call in response.calls):
        return True
    nothing = not response.calls and not response.malformed
    more = whole.calls or whole.malformed  # also a call that does not fit: what is wrong with it can be told
    return nothing and (bool(more) or len(whole.text.strip()) > len(response.text.strip()))


def _is_at_cap(response: Response, cap: int | None) -> bool:
    """Whether it ended at the limit of tokens, whatever stop reason the server gives."""
    used = response.usage.output_tokens if response.usage else 0
    return bool(cap and used >= cap) or response.stop_reason == "max_tokens"


def mark_truncated(response: Response, tools: Sequence[ToolDefinition], cap: int | None) -> Response:
    """Some servers return a call that max_tokens cut off as a whole one, with {} as arguments: it is malformed."""
    used = response.usage.output_tokens if response.usage else 0
    if not _is_at_cap(response, cap):
        return response
    reason = CUT_OFF.format(tokens=used or "allowed")
    *before, last = response.content or (Text(""),)
    if isinstance(last, ToolCall) and not fits(last, tools):
        last = MalformedCall(last.id, last.name, "", reason, last.origin)
    elif isinstance(last, MalformedCall):
        last = MalformedCall(last.id, last.name, last.raw, reason, last.origin)
    else:
        return response
    return replace(response, content=(*before, last), stop_reason="max_tokens")


def _is_only_thought(response: Response) -> bool:
    return bool(response.content) and all(isinstance(block, Reasoning) for block in response.content)
