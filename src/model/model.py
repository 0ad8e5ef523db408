"""One model on one server: a conversation in, the model's turn out, as events.

Two choices are composed here and nowhere else: the codec (whose bytes) and the call path (how tools
are asked for, see path.py). On every path the answer's text goes through the stream parser, so that all
end in the same blocks. What a server refuses is learnt from its refusal, and the turn is asked for again
in another way; what its tool parser lost is had back from the tokens it was made of (see recovery.py).
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

from ..client import Client
from ..errors import BotError, ContextTooLong, ServerError, ToolsUnsupported
from ..messages import (
    JSON,
    Completed,
    Message,
    ModelEvent,
    Notice,
    Reasoning,
    Response,
    TextDelta,
    ToolDefinition,
    ToolResults,
    UserMessage,
)
from ..protocol import parsers_of
from ..retry import Patience, persist
from ..wire import vllm
from ..wire.codec import ChatRequest, Codec, decode
from ..wire.openai import OpenAICodec
from .path import CallPath
from .recovery import Turn, fits, with_content, without_truncated
from .server import Server, refusal
from .transcript import Transcript

_ALPHANUMERIC = string.ascii_letters + string.digits

PROMPT_OVERHEAD = 2000  # tokens that a chat template may add to what it is given
ANSWER_ROOM = 256  # tokens that an answer needs at the least
LOSS = "The server's tool parser lost part of the answer; it was had back from its tokens."
MARGIN = 1  # some servers count one token more than they say


def random_id() -> str:
    """9 letters and digits: the only shape that every chat template takes (Mistral's raises on others)."""
    return "".join(random.choices(_ALPHANUMERIC, k=9))  # noqa: S311 - names a call, guards nothing


def served_models(client: Client, codec: Codec | None = None) -> list[str]:
    """The names of the models that the server has. Raises ClientError, ServerError, WireError."""
    return Server(client, codec or OpenAICodec(random_id), is_vllm=False).models()


class _Counted(NamedTuple):
    """The size of a prompt that the server has counted: how many messages, the last of them, bytes, tokens."""

    messages: int
    last: Message
    size: int
    tokens: int


class Model:
    """`path`: how to begin, and where what is learnt stays. `max_tokens`: of one answer; None is the server's own.

    `codec`: whose wire, OpenAI's where none is given; `is_vllm`: what only vLLM has may be used.
    `constrained`: "auto", "on" or "off": on the text path, whether the server must allow nothing but a valid call
    after TOOL_CALL:; "auto" goes on without where it refuses.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        codec: Codec | None = None,
        is_vllm: bool = True,
        path: CallPath | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        constrained: str = "auto",
        new_id: Callable[[], str] = random_id,
        patience: Patience = Patience(),  # noqa: B008 - a NamedTuple
    ) -> None:
        self.name = name
        self.path = path or CallPath()
        self._client = client
        self._codec = codec or OpenAICodec(new_id)
        self._is_vllm = is_vllm
        self._server = Server(client, self._codec, is_vllm=is_vllm)
        self._patience = patience
        self._transcript = Transcript()
        self._temperature = temperature
        self.max_tokens = max_tokens
        self._constrained = constrained
        self._new_id = new_id
        self._counted: _Counted | None = None
        self._told: set[str] = set()

    @cached_property
    def context_length(self) -> int | None:
        """In tokens; None where the server does not say."""
        return self._server.context_length(self.name)

    @cached_property
    def server_version(self) -> str:
        """vLLM's; empty where the server does not say."""
        return self._server.version()

    def respond(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> Iterator[ModelEvent]:
        """The model's next turn; the last event is Completed.

        Raises ClientError, ServerError, WireError. Nothing of a turn that raises may be run.
        """
        while True:
            request = self._request(messages, tools)
            try:
                attempt = partial(self._attempt, request, tools)
                yield from persist(attempt, self._patience, self._client.sleep, random.random)
                return
            except ServerError as refusal:
                shown = isinstance(refusal, ToolsUnsupported) and self._template_shows_tools(request)
                if notice := self.path.adapt(refusal, self._optional_fields(request), shown):
                    yield Notice(notice)

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> ChatRequest:
        request = ChatRequest(
            self.name,
            self._transcript.render(messages, tools, self.path),
            self._offered(tools),
            self._temperature,
            self.max_tokens,
            "none" if self.path.mode == "template" else "auto",
            {name: value for name, value in self._options(tools).items() if name not in self.path.without},
        )
        return self._fitting(request)

    def _offered(self, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        if self.path.mode == "text":
            return ()
        return [replace(tool, strict=False) for tool in tools] if "strict" in self.path.without else tools

    def _options(self, tools: Sequence[ToolDefinition]) -> dict[str, JSON]:
        options: dict[str, JSON] = {"stream_options": {"include_usage": True}}
        if not self._is_vllm:
            return options
        options["return_token_ids"] = True
        if tools and self.path.mode == "template":
            options["skip_special_tokens"] = False  # in many a format the markers are special tokens
        if tools and self.path.mode == "text" and self._constrained != "off":
            options["structured_outputs"] = vllm.constrained(tools)
        return options

    def _optional_fields(self, request: ChatRequest) -> frozenset[str]:
        """What may be left out of a request that was refused."""
        strict = ["strict"] if any(tool.strict for tool in request.tools) else []
        wanted = ["structured_outputs"] if self._constrained == "on" else []
        return frozenset([*request.options, *strict]) - frozenset(wanted)

    def _template_shows_tools(self, request: ChatRequest) -> bool:
        """Whether the prompt is longer with the tools than without."""
        shown, hidden = self._server.prompt(request), self._server.prompt(replace(request, tools=()))
        return shown is not None and hidden is not None and len(shown.tokens) > len(hidden.tokens)

    def _fitting(self, request: ChatRequest) -> ChatRequest:
        """The request, its answer cut to the room there is. Raises ContextTooLong where there is none.

        The server is asked to count only where a bound, a token being a byte at least, does not settle it.
        """
        limit = self.context_length
        if limit is None or self._bound(request) + (request.max_tokens or ANSWER_ROOM) + MARGIN <= limit:
            return request
        prompt = self._server.prompt(request)
        if prompt is None:
            return request
        room = limit - len(prompt.tokens) - MARGIN
        least = min(request.max_tokens or ANSWER_ROOM, ANSWER_ROOM, limit // 8)
        if room < least:
            raise _too_long(len(prompt.tokens), limit, least - room)
        return replace(request, max_tokens=min(request.max_tokens, room)) if request.max_tokens else request

    def _bound(self, request: ChatRequest) -> int:
        size, known = len(self._codec.encode(request).body), self._counted
        if known and len(request.messages) >= known.messages and request.messages[known.messages - 1] is known.last:
            return known.tokens + size - known.size
        return size + PROMPT_OVERHEAD

    def _attempt(self, request: ChatRequest, tools: Sequence[ToolDefinition]) -> Iterator[ModelEvent]:
        wire = self._codec.encode(request)
        turn = Turn(tools, self._new_id, _given(request.messages))
        with self._client.open("POST", wire.path, wire.body) as reply:
            if reply.status != 200:
                raise refusal(self._codec, reply)
            try:
                for events in decode(self._codec.decoder(reply.content_type), reply.chunks):
                    for event in events:
                        yield from turn.take(event)
            except BotError:
                yield from turn.rest()
                raise
        response = turn.response()
        if response.usage and request.messages:
            tokens = response.usage.input_tokens
            self._counted = _Counted(len(request.messages), request.messages[-1], len(wire.body), tokens)
        yield from self._recovered(turn, response, request, tools)

    def _recovered(
        self, turn: Turn, response: Response, request: ChatRequest, tools: Sequence[ToolDefinition]
    ) -> Iterator[ModelEvent]:
        """The rest of the turn: what the server lost is shown and counted in."""
        whole = response
        if turn.lost_something() and (reread := self._reread(turn)) and _says_more(reread, response, tools):
            whole = reread
            if len(whole.calls) > len(turn.answered.calls) or not whole.calls:
                yield from self._tell(LOSS)
        elif _is_only_thought(response):
            whole = self._out_of_thought(turn, response)
        if whole.text.startswith(response.text) and (rest := whole.text[len(response.text) :]):
            yield TextDelta(rest)
        yield from self._tell_of_leak(whole)
        room = self.context_length - whole.usage.input_tokens if self.context_length and whole.usage else None
        yield Completed(without_truncated(whole, tools, request.max_tokens or room))

    def _raw(self, turn: Turn) -> str | None:
        return self._server.text(self.name, turn.tokens.ids) if turn.tokens.ids else None

    def _reread(self, turn: Turn) -> Response | None:
        text = self._raw(turn)
        return None if text is None else turn.reread(text)

    def _out_of_thought(self, turn: Turn, response: Response) -> Response:
        """A thought that was never closed took the answer with it; one that was may end in a call."""
        thought = "".join(block.text for block in response.content if isinstance(block, Reasoning))
        raw = self._raw(turn)
        if raw is None or raw.rstrip().endswith(thought.rstrip()):
            answer = turn.reread(thought)
            return with_content(answer, [block for block in answer.content if not isinstance(block, Reasoning)])
        found = turn.reread(f"<think>{thought}</think>")
        return found if found.calls else response

    def _tell_of_leak(self, response: Response) -> Iterator[Notice]:
        """Calls that a native server left in the text: which format they are in, and what reads it."""
        clean = (call.origin for call in response.calls if not call.repaired)
        leaked = next((origin for origin in clean if origin not in ("native", "text")), "")
        if leaked and self.path.mode == "native":
            parsers = parsers_of(leaked)
            advice = f"--tool-call-parser {parsers[0]} reads it" if parsers else "no --tool-call-parser reads it"
            yield from self._tell(f"The model's calls came in the text, in the format {leaked}; {advice}.")

    def _tell(self, text: str) -> Iterator[Notice]:
        """Each thing once."""
        if text not in self._told:
            self._told.add(text)
            yield Notice(text)


def _says_more(whole: Response, response: Response, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the text that the tokens were holds more than what the server made of it."""
    if sum(fits(call, tools) for call in whole.calls) > sum(fits(call, tools) for call in response.calls):
        return True
    nothing = not response.calls and not response.malformed
    return nothing and (bool(whole.malformed) or len(whole.text.strip()) > len(response.text.strip()))


def _is_only_thought(response: Response) -> bool:
    """A thought that was never closed took the answer with it."""
    return bool(response.content) and all(isinstance(block, Reasoning) for block in response.content)


def _given(messages: Sequence[Message]) -> list[str]:
    """The texts that the model did not write itself."""
    texts: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            texts.append(message.text)
        elif isinstance(message, ToolResults):
            texts += [result.value for result in message.results if isinstance(result.value, str)]
    return texts


def _too_long(tokens: int, limit: int, excess: int) -> ContextTooLong:
    error = ContextTooLong(
        f"The conversation has {tokens:,} tokens and the model's context {limit:,}: no room is left for an answer.",
        "Use /reset, or ask for less at once.",
    )
    error.excess = excess
    return error
