"""What a server's own tool parser lost of an answer, had back.

It may swallow a call it cannot read, cut the text where a tag is merely mentioned, or make a call with a garbled
name or without its arguments. The tokens the answer was made of tell of it: where some became neither text nor
call, or a native call is not one that was offered, the text they were is read in place of what the server made
of them. docs/paths.md says in which ways that text is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..errors import BotError
from ..parsing import list_parsers
from ..providers.base import ChatRequest
from ..types.events import Completed, ModelEvent, Notice, TextDelta
from ..types.messages import NATIVE, TEXT, MalformedCall, Reasoning, Response, Text, ToolCall, ToolDefinition
from .call_path import CallPath
from .response_assembler import Turn, fits, with_content
from .server import Server
from .token_budget import Room

Replay: TypeAlias = Callable[[ChatRequest], Generator[ModelEvent, None, Turn]]

LOSS = "The server's tool parser lost part of the answer; it was recovered."
ASKED_AGAIN = "The server's tool parser seems to have lost part of the answer; asking once more without the parser."
SLACK = 6  # tokens of an answer that are no text: the end of the turn, the marks around a thought
LONG_TOKENS = 8  # characters a token that no answer exceeds in the mean
CUT_OFF = (
    "The call was cut off when the answer reached its {tokens} tokens (max_tokens), so it was not run. "
    "Send less at once: write a long file in several parts."
)


class Recovery:
    """Of one answer, which `turn` has read whole. `replay` makes a request and gives the turn that answers it."""

    def __init__(
        self,
        turn: Turn,
        request: ChatRequest,
        tools: Sequence[ToolDefinition],
        path: CallPath,
        server: Server,
        room: Room,
        replay: Replay,
    ) -> None:
        self._turn = turn
        self._request = request
        self._tools = tools
        self._path = path
        self._server = server
        self._room = room
        self._replay = replay
        self._response = turn.response()

    def events(self) -> Iterator[ModelEvent]:
        """The rest of the turn: what the server lost is shown and counted in."""
        turn = self._turn
        whole = response = self._response
        if turn.repeats:
            yield Completed(response)
            return
        if self._lost_something():
            found = yield from self._reread()
            if found:
                whole = found
                new = len(whole.calls) > len(turn.answered.calls) or not whole.calls
                if new and not self._is_unclosed_thought():
                    yield Notice(LOSS)
            elif turn.promised_calls():
                yield Notice(self._path.distrust())
        elif _is_only_thought(response):
            whole = self._out_of_thought()
        if whole.text.startswith(response.text) and (rest := whole.text[len(response.text) :]):
            yield TextDelta(rest)
        if leaked := self._leak(whole):
            yield Notice(leaked)
        yield Completed(without_truncated(whole, self._tools, self._room.cap(self._request, whole.usage)))

    def _lost_something(self) -> bool:
        """Whether the server's parser seems to have lost or garbled part of the answer."""
        turn, response = self._turn, self._response
        if not turn.tokens.ids and _is_at_cap(response, self._room.cap(self._request, response.usage)):
            return False  # it was cut off, and would be again
        if turn.lost_something(told_all=self._server.is_vllm):
            return True
        if turn.tokens.ids or not self._server.is_vllm or response.calls or not response.usage:
            return False
        said = turn.said()
        if response.usage.output_tokens <= len(said) // LONG_TOKENS:  # surely nothing, and the server is not asked
            return False
        size = self._server.size(self._request.model, said)
        return size is not None and response.usage.output_tokens - size > SLACK + response.usage.output_tokens // 20

    def _reread(self) -> Generator[ModelEvent, None, Response | None]:
        """What the answer was before the server's parser took it, where it holds more."""
        found: Response | None = None
        if (text := self._raw()) is not None:
            found = self._turn.reread(text)
        else:
            yield Notice(ASKED_AGAIN)
            if raw := self._server.completion(self._request):
                found = self._turn.reread(raw.text, raw)
            elif self._request.stream:
                found = yield from self._replayed()
        return found if found and _says_more(found, self._response, self._tools) else None

    def _replayed(self) -> Generator[ModelEvent, None, Response | None]:
        """The same asked for once more; nothing of it is shown, for it may say no more than the first."""
        replay = self._replay(replace(self._request, stream=False))
        try:
            while True:
                next(replay)
        except StopIteration as end:
            response: Response = end.value.response()
            return response
        except BotError as error:
            yield Notice(f"Asking again failed: {error.message}")
            return None

    def _raw(self) -> str | None:
        """The text that the answer's tokens were, where the server told them."""
        turn = self._turn
        if turn.raw is None and turn.tokens.ids:
            turn.raw = self._server.text(self._request.model, turn.tokens.ids)
        return turn.raw

    def _is_unclosed_thought(self) -> bool:
        """A thought that was never closed took the answer with it."""
        if not _is_only_thought(self._response):
            return False
        raw = self._raw()
        return raw is None or raw.rstrip().endswith(self._turn.said().rstrip())

    def _out_of_thought(self) -> Response:
        """A thought that was never closed is the answer; one that was may end in a call."""
        thought = "".join(block.text for block in self._response.content if isinstance(block, Reasoning))
        if self._is_unclosed_thought():
            answer = self._turn.reread(thought)
            return with_content(answer, [block for block in answer.content if not isinstance(block, Reasoning)])
        found = self._turn.reread(f"<think>{thought}</think>")
        return found if found.calls else self._response

    def _leak(self, response: Response) -> str:
        """Calls that a native server left in the text: which format they are in, and what reads it."""
        clean = (call.origin for call in response.calls if not call.repaired)
        leaked = next((origin for origin in clean if origin not in (NATIVE, TEXT)), "")
        if not leaked or self._path.mode != "native":
            return ""
        parsers = list_parsers(leaked)
        advice = f"--tool-call-parser {parsers[0]} reads it" if parsers else "no --tool-call-parser reads it"
        return f"The model's calls came in the text, in the format {leaked}; {advice}."


def _says_more(whole: Response, response: Response, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the text that the tokens were holds more than what the server made of it."""
    if sum(fits(call, tools) for call in whole.calls) > sum(fits(call, tools) for call in response.calls):
        return True
    nothing = not response.calls and not response.malformed
    return nothing and (bool(whole.malformed) or len(whole.text.strip()) > len(response.text.strip()))


def _is_at_cap(response: Response, cap: int | None) -> bool:
    """Whether it ended because it had all the tokens it could have, whatever the server says of it."""
    used = response.usage.output_tokens if response.usage else 0
    return bool(cap and used >= cap) or response.stop_reason == "max_tokens"


def without_truncated(response: Response, tools: Sequence[ToolDefinition], cap: int | None) -> Response:
    """Servers serve a call that max_tokens cut off as a whole one: {} for arguments, tokens at the cap. It is none."""
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
    return Response((*before, last), "max_tokens", response.usage, response.model)


def _is_only_thought(response: Response) -> bool:
    return bool(response.content) and all(isinstance(block, Reasoning) for block in response.content)
