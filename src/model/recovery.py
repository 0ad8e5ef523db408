"""Recovers what a server's own tool parser lost of an answer.

It may drop a call that it cannot read, cut the text where a tag is only mentioned, or return a call with a wrong name
or without its arguments. The answer's tokens show it: if some became neither text nor call, or a native call is not of
an offered tool, their text is parsed instead of what the server returned. Without their ids, their number shows it.
A value that the parser ended at a tag inside it looks whole, and so does an answer without the text behind its calls:
the tokens are read beside native calls, too, where the model writes them in tags or the answer's end is a new one.
docs/paths.md lists the ways to get that text; where there is none, the user is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from ..errors import Advice, RequestFailed
from ..negotiation.server import ServerApi
from ..negotiation.token_budget import TokenBudget
from ..parsing import list_parsers
from ..parsing.formats.table import FORMATS, mentions_call
from ..providers.base import ChatRequest
from ..types.effects import Aside, Turn
from ..types.events import Completed, Notice, TextDelta
from ..types.messages import (
    NATIVE,
    TEXT,
    Block,
    MalformedCall,
    Named,
    Reasoning,
    Response,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    Usage,
)
from .response_assembler import ResponseAssembler, fits, replace_content

Replay: TypeAlias = Callable[[ChatRequest], Aside[ResponseAssembler]]

RECOVERED_NOTICE = "The server's tool parser lost part of the answer; it was recovered."
ASKING_AGAIN_NOTICE = (
    "The server's tool parser seems to have lost part of the answer; asking once more without the parser."
)
ASKING_WHOLE_NOTICE = (
    "The server seems to have lost part of the answer; asking once more for a whole one, without streaming."
)
CUT_NOTICE = "The server's tool parser cut a value at a tag inside it; the value was recovered."
_PART_LOST = (
    "The server returned less than it says that the model wrote. If a tool call is missing, its "
    "--tool-call-parser is not one for this model"
)
PART_LOST_NOTICE = Advice(f"{_PART_LOST}; with --no-function-calling, calls are made in the text.", f"{_PART_LOST}.")
_UNCOUNTED = "The server counts no tokens in a stream, so it would not be noticed if it lost a tool call there"
UNCOUNTED_NOTICE = Advice(f"{_UNCOUNTED}; with vllm.stream: false, answers come whole.", f"{_UNCOUNTED}.")
NOT_FORCED = "The model was to call {wanted}, and did not."
NON_TEXT_TOKENS = 6  # of an answer: the end of the turn, the marks around a thought
MAX_CHARS_PER_TOKEN = 8  # no answer has more on average
MIN_BYTES_PER_TOKEN = 3  # few answers have less on average: long numbers, rare scripts
_TAGGED = {row.call_origin for row in FORMATS if row.syntax}  # formats with values as plain text between tags
MIN_CALL_TOKENS = 20  # of a call with one short argument
END_TOKENS = 2  # of a call: what follows it would end in others
CUT_OFF = (
    "The call was cut off when the answer reached its {tokens} tokens (max_tokens), so it was not run. "
    "Send less at once: write a long file in several parts."
)


# Whether the server lost a part of an answer. suspected: looking for it is worth a request; proven: by what it says
# itself, so that the user is told if the part cannot be found.
Loss = Literal["none", "suspected", "proven"]


class Recovery:
    """Of one answer, which `turn` has read to its end. `is_unparsed`: no parser of the server has read it.

    `replay` sends a request and returns the answer to it, and shows nothing; None: nothing is asked again.
    `disable_native` notes that the server announces native calls and returns none; its notice is for the user. A
    notice in `sent_notices` is not repeated.
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
        replay: Replay | None,
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
        self._loss: Loss = "none"
        self._response = turn.response() if turn.tokens.ids else turn.mend_calls(turn.response())

    def run(self) -> Turn[None]:
        """The rest of the turn, with what the server lost. Completed comes last."""
        turn, response = self._turn, self._response
        if response.stop_reason == "repetition":
            yield self._complete(response)
            return
        recovered = turn.mend_calls((yield from self._recover()))
        if turn.has_false_usage() and self._tools and self._request.stream and not recovered.requested_calls:
            yield from self._notify(UNCOUNTED_NOTICE)
        if recovered.text.startswith(response.text) and (rest := recovered.text[len(response.text) :]):
            yield TextDelta(rest)
        if leaked := self._describe_leak(recovered):
            yield from self._notify(leaked)
        cap = yield from self._budget.limit_output(self._request, recovered.usage)
        recovered = turn.note_cut_tag(mark_truncated(recovered, self._tools, cap))
        if wanted := _find_unmet(self._choice, recovered):
            yield Notice(NOT_FORCED.format(wanted=wanted))
        yield self._complete(recovered)

    def _recover(self) -> Turn[Response]:
        """The answer with what was lost of it, as far as that can be found."""
        if not (self._is_unparsed or (yield from self._cannot_ask_again())):
            self._loss = yield from self._find_loss()
        if self._loss != "none":
            return (yield from self._recover_lost())
        if self._response.is_only_thought:
            return (yield from self._extract_from_thought())
        if self._turn.tokens.ids and not self._is_unparsed:
            return (yield from self._restore())
        return self._response

    def _recover_lost(self) -> Turn[Response]:
        recovered = yield from self._reparse()
        if recovered is None:
            yield from self._report_loss()
            return self._response
        is_new = len(recovered.calls) > len(self._turn.completed.calls) or not recovered.calls
        if is_new and not (yield from self._is_unclosed_thought()):
            yield from self._notify(RECOVERED_NOTICE)
        return recovered

    def _complete(self, response: Response) -> Completed:
        return Completed(replace(response, writer=self._server.identify(self._request.model)))

    def _notify(self, text: str) -> Iterator[Notice]:
        if text not in self._sent_notices:
            self._sent_notices.add(text)
            yield Notice(text)

    def _report_loss(self) -> Iterator[Notice]:
        """Tell the user of a loss that is proven, and expect no more calls of a server that returned nothing."""
        response = self._response
        is_silent = response.is_only_thought or not response.content
        if is_silent and (self._turn.lacks_promised_calls() or (self._is_native and self._loss == "proven")):
            yield from self._notify(self._disable_native())
        elif self._loss == "proven":
            yield from self._notify(PART_LOST_NOTICE)

    def _find_loss(self) -> Aside[Loss]:
        """Whether the server's parser lost or garbled part of the answer."""
        turn, calls = self._turn, self._response.requested_calls
        lacks_announced = turn.completed.stop_reason == "tool_use" and not calls
        if native := [call for call in calls if call.origin == NATIVE]:
            return "none" if all(fits(call, self._tools) for call in native) else "suspected"
        if turn.is_empty() or lacks_announced:
            return "proven"
        if turn.seems_short():
            return "suspected"
        if (yield from self._lacks_tokens()):
            return "proven"
        return "none"

    def _cannot_ask_again(self) -> Aside[bool]:
        """Whether nothing else tells of the answer: it has no tokens, and was cut off, as it would be again."""
        if self._turn.tokens.ids:
            return False
        cap = yield from self._budget.limit_output(self._request, self._response.usage)
        return self._replay is None or _is_at_cap(self._response, cap)

    def _lacks_tokens(self) -> Aside[bool]:
        """Whether the answer has clearly more tokens, by its usage, than the text and the thoughts that came."""
        completed, usage = self._turn.completed, self._turn.completed.usage or Usage()
        if self._turn.tokens.ids or self._response.requested_calls:
            return False
        if _is_signed(completed) or completed.stop_reason not in ("end_turn", "tool_use"):
            return False
        text = completed.text if usage.thought_tokens else completed.raw_text
        written = usage.output_tokens - usage.thought_tokens
        if written <= len(text) // MAX_CHARS_PER_TOKEN:
            return False
        is_suspect = bool(self._tools) and written > len(text.encode()) // MIN_BYTES_PER_TOKEN + MIN_CALL_TOKENS
        size = yield from self._count_tokens(text, is_suspect=is_suspect)
        return size is not None and written - size > NON_TEXT_TOKENS + written // 20

    def _count_tokens(self, text: str, *, is_suspect: bool) -> Aside[int | None]:
        """Of a text. `is_suspect`: it is worth two requests where the server has no other way."""
        if not (self._server.is_vllm or is_suspect):
            return None
        size = yield from self._server.count_text_tokens(self._request.model, text)
        if size is None and is_suspect:
            size = yield from self._server.count_by_prompts(self._request.model, text)
        return size

    def _reparse(self) -> Turn[Response | None]:
        """The answer as it was before the server's parser read it; None if that says no more."""
        reparsed: Response | None = None
        if (text := (yield from self._fetch_raw_text())) is not None:
            reparsed = self._turn.reparse(text)
        else:
            raw = None
            if prompt := (yield from self._server.find_prompt(self._request, self._response.usage)):
                yield from self._notify(ASKING_AGAIN_NOTICE)
                raw = yield from self._server.complete_raw(self._request, prompt)
            if raw:
                reparsed = self._turn.reparse(raw.text, raw)
            elif self._request.stream and (self._server.is_vllm or not self._response.requested_calls):
                yield from self._notify(ASKING_WHOLE_NOTICE)
                reparsed = yield from self._ask_again()
        return reparsed if reparsed and _is_richer(reparsed, self._response, self._tools) else None

    def _ask_again(self) -> Turn[Response | None]:
        """The answer to the same request, sent once more; it is not shown, since it may say no more."""
        if self._replay is None:
            return None
        try:
            turn = yield from self._replay(replace(self._request, stream=False))
        except RequestFailed as error:
            yield from self._notify(f"Asking again failed: {error.message}")
            return None
        if turn.is_empty():
            self._loss = "proven"
        return turn.mend_calls(turn.response())

    def _fetch_raw_text(self) -> Aside[str | None]:
        """The text of the answer's tokens; None if the server did not tell them."""
        turn = self._turn
        if turn.raw is None and turn.tokens.ids:
            # A busy server may take its time: without the answer calls are lost.
            turn.raw = yield from self._server.detokenize(self._request.model, turn.tokens.ids, within=None)
        return turn.raw

    def _restore(self) -> Turn[Response]:
        """The answer with what the server's parser cut beside native calls: values at a tag in them, text behind calls.

        One call of a model that writes calls without tags is believed if the answer ends as one that was whole.
        """
        response, model, end = self._response, self._request.model, self._turn.tokens.ids[-END_TOKENS:]
        origins = [call.origin for call in response.calls]
        if NATIVE not in origins[:1] or (len(origins) == 1 and self._server.is_clean_end(model, end)):
            return response
        raw = yield from self._fetch_raw_text()
        if raw is None:  # asked in vain: not again for an answer that ends so
            self._server.note_clean_end(model, end)
            return response
        read, restored = self._turn.reparse(raw), response
        if cut := _find_cut_calls(response, read):
            restored = _complete_calls(restored, cut)
            yield from self._notify(CUT_NOTICE)
        if _has_other_text(response, read):
            restored = _replace_text(restored, read.text)
            yield from self._notify(RECOVERED_NOTICE)
        if restored is response and not any(call.origin in _TAGGED for call in read.calls):
            self._server.note_clean_end(model, end)
        return restored

    def _is_unclosed_thought(self) -> Aside[bool]:
        """Whether the answer is part of a thought that was never closed."""
        if not self._response.is_only_thought:
            return False
        raw = yield from self._fetch_raw_text()
        return raw is None or raw.rstrip().endswith(self._turn.completed.raw_text.rstrip())

    def _extract_from_thought(self) -> Aside[Response]:
        """The answer from a thought: all of one that was never closed; the calls in one that was."""
        thought = self._response.thought
        if (yield from self._is_unclosed_thought()):
            answer = self._turn.reparse(thought)
            return replace_content(answer, [block for block in answer.content if not isinstance(block, Reasoning)])
        reparsed = self._turn.reparse(f"<think>{thought}</think>")
        return reparsed if reparsed.calls else self._response

    def _describe_leak(self, response: Response) -> str:
        """The notice on calls that a native server left in the text: their format, and which parser reads it."""
        clean = (call.origin for call in response.calls if not call.repaired)
        leaked = next((origin for origin in clean if origin not in (NATIVE, TEXT)), "")
        if not leaked or not self._is_native or self._choice == "none":
            return ""
        parsers = list_parsers(leaked)
        advice = f"--tool-call-parser {parsers[0]} reads it" if parsers else "no --tool-call-parser reads it"
        return f"The model's calls came in the text, in the format {leaked}; {advice}."


def _find_unmet(choice: ToolChoice, response: Response) -> str:
    """The call that was required and did not come; else an empty string."""
    names = [call.name for call in response.requested_calls]
    if isinstance(choice, Named) and choice.name not in names:
        return choice.name
    if choice == "required" and not names:
        return "a tool"
    return ""


def _is_signed(response: Response) -> bool:
    """A provider that signs its blocks parses its own calls, and its thoughts may be summaries."""
    return any(block.metadata for block in response.content if isinstance(block, (Text, Reasoning)))


def _is_richer(whole: Response, response: Response, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the text of the tokens holds more than what the server returned."""
    fitting = sum(fits(call, tools) for call in response.calls)
    if sum(fits(call, tools) for call in whole.calls) > fitting:
        return True
    if response.calls:  # of one that the model broke off, some parsers give the name without arguments
        is_hollow = not fitting and not any(call.arguments for call in response.calls)
        return is_hollow and bool(whole.malformed)
    if response.malformed:
        return False
    # Also a call that does not fit: what is wrong with it can be told.
    return bool(whole.requested_calls) or len(whole.text.strip()) > len(response.text.strip())


def _has_same_calls(response: Response, read: Response) -> bool:
    return [call.name for call in read.requested_calls] == [call.name for call in response.calls]


def _find_cut_calls(response: Response, read: Response) -> dict[str, ToolCall]:
    """By the id of a call with a cut value, the one that was read in its place."""
    cut: dict[str, ToolCall] = {}
    if not _has_same_calls(response, read):
        return cut
    for call, reread in zip(response.calls, read.calls, strict=True):
        pairs = ((value, reread.arguments.get(key)) for key, value in call.arguments.items())
        texts = ((a.strip(), b.strip()) for a, b in pairs if isinstance(a, str) and isinstance(b, str))
        if any(len(a) < len(b) and b.startswith(a) for a, b in texts):  # a is only the beginning of what was written
            cut[call.id] = reread
    return cut


def _complete_calls(response: Response, cut: Mapping[str, ToolCall]) -> Response:
    """The response, whose cut calls have the arguments of those that were read in their place."""
    content: list[Block] = []
    for block in response.content:
        if isinstance(block, ToolCall) and (reread := cut.get(block.id)):
            block = replace(
                block, arguments=reread.arguments, repaired=reread.repaired, guessed=reread.guessed, written=""
            )
        content.append(block)
    return replace_content(response, content)


def _has_other_text(response: Response, read: Response) -> bool:
    """Whether the server's parser dropped text behind calls, or left markers of them; `read`: what the tokens say."""
    if not _has_same_calls(response, read) or response.text.split() == read.text.split() or mentions_call(read.text):
        return False
    thought = response.thought.strip()
    return not thought or thought not in read.text  # a thought in a format of its own is no text


def _replace_text(response: Response, text: str) -> Response:
    others = [block for block in response.content if not isinstance(block, Text)]
    texts = [Text(text)] if text else []
    return replace(replace_content(response, [*texts, *others]), kept_text=text)


def _is_at_cap(response: Response, cap: int | None) -> bool:
    """Whether it ended at the limit of tokens, whatever stop reason the server gives."""
    used = (response.usage or Usage()).output_tokens
    return bool(cap and used >= cap) or response.stop_reason == "max_tokens"


def mark_truncated(response: Response, tools: Sequence[ToolDefinition], cap: int | None) -> Response:
    """Some servers return a call that max_tokens cut off as a whole one, with {} as arguments: it is malformed."""
    if not _is_at_cap(response, cap):
        return response
    reason = CUT_OFF.format(tokens=(response.usage or Usage()).output_tokens or "allowed")
    *before, last = response.content or (Text(""),)
    if isinstance(last, ToolCall) and not fits(last, tools):
        last = MalformedCall(last.id, last.name, "", reason, last.origin)
    elif isinstance(last, MalformedCall):
        last = MalformedCall(last.id, last.name, last.raw, reason, last.origin)
    else:
        return response
    return replace(response, content=(*before, last), stop_reason="max_tokens")
