"""One model on one server: a conversation in, the model's turn out, as events.

Two choices are composed here and nowhere else: the codec (whose bytes) and the call path (how tools
are asked for). On the native path tools are sent as `tools`, and the text instructions stand in the
system prompt as well; on the text path there is only the text. Either way the answer's text goes
through the stream parser, so that both end in the same blocks. What a server refuses is learnt from
its refusal, the turn is asked for again in another way, and the rest of the conversation stays with it.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from .client import Client, HttpReply
from .errors import ServerError, TemplateRejected, ToolsUnsupported
from .messages import (
    Block,
    Completed,
    MalformedCall,
    Message,
    ModelEvent,
    Notice,
    PerMessage,
    Reasoning,
    Response,
    StopReason,
    SystemMessage,
    Text,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolResults,
    UserMessage,
)
from .protocol import Malformed, ParsedCall, ParserEvent, StreamParser, as_text, instructions
from .retry import Patience, persist
from .wire.codec import ChatRequest, Codec, decode
from .wire.openai import OpenAICodec

_ALPHANUMERIC = string.ascii_letters + string.digits

TEXT_FALLBACK = (
    "This server takes no native tool calls; going on with calls in the text. "
    "To enable native ones, start it with --enable-auto-tool-choice --tool-call-parser PARSER."
)
ROLES_MERGED = "The model's chat template takes only user and assistant in turn; the conversation is sent that way."
SYSTEM_FOLDED = "The model's chat template takes no system prompt; it is sent with the first user message."


def random_id() -> str:
    """9 letters and digits: the only shape that every chat template takes (Mistral's raises on others)."""
    return "".join(random.choices(_ALPHANUMERIC, k=9))  # noqa: S311 - names a call, guards nothing


@dataclass(slots=True)
class Path:
    """How this server is spoken to; what it refuses changes it for good."""

    native: bool
    alternate: bool = False
    fold_system: bool = False

    def adapt(self, refusal: ServerError) -> str:
        """Give up what the server refused and say so. Raises the refusal where there is nothing left to give up."""
        if isinstance(refusal, ToolsUnsupported) and self.native:
            self.native = False
            return TEXT_FALLBACK
        if isinstance(refusal, TemplateRejected) and not self.alternate:
            self.alternate = True
            return ROLES_MERGED
        if isinstance(refusal, TemplateRejected) and not self.fold_system:
            self.fold_system = True
            return SYSTEM_FOLDED
        raise refusal


def served_models(client: Client) -> list[str]:
    """The names of the models that the server has. Raises ClientError, ServerError, WireError."""
    codec = OpenAICodec(random_id)
    with client.open("GET", "models") as reply:
        if reply.status != 200:
            raise _refusal(codec, reply)
        return codec.models(reply.read())


def _refusal(codec: Codec, reply: HttpReply) -> ServerError:
    refusal = codec.refusal(reply.status, reply.read(), reply.location)
    refusal.retry_after = reply.retry_after
    return refusal


class Model:
    """`native`: send `tools` until the server refuses them. `max_tokens`: of one answer; None is the server's own."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        native: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        new_id: Callable[[], str] = random_id,
        patience: Patience = Patience(),  # noqa: B008 - a NamedTuple
    ) -> None:
        self.name = name
        self.path = Path(native)
        self._client = client
        self._codec: Codec = OpenAICodec(new_id)
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._new_id = new_id
        self._patience = patience
        self._as_text = PerMessage(as_text)
        self._instructed = PerMessage(as_text)
        self._instructed_for: tuple[Sequence[ToolDefinition], bool] | None = None

    def respond(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> Iterator[ModelEvent]:
        """The model's next turn; the last event is Completed.

        Raises ClientError, ServerError, WireError. Nothing of a turn that raises may be run.
        """
        while True:
            try:
                attempt = partial(self._attempt, messages, tools)
                yield from persist(attempt, self._patience, self._client.sleep, random.random)
                return
            except (ToolsUnsupported, TemplateRejected) as refusal:
                yield Notice(self.path.adapt(refusal))

    def _attempt(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Iterator[ModelEvent]:
        request = self._codec.encode(
            ChatRequest(
                self.name,
                self._render(messages, tools),
                tools if self.path.native else (),
                self._temperature,
                self._max_tokens,
            )
        )
        turn = _Turn(tools, self._new_id)
        with self._client.open("POST", request.path, request.body) as reply:
            if reply.status != 200:
                raise _refusal(self._codec, reply)
            for events in decode(self._codec.decoder(reply.content_type), reply.chunks):
                for event in events:
                    yield from turn.take(event)

    def _render(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> list[Message]:
        """The conversation as the path in use wants it."""
        wanted = tools, self.path.native
        if wanted != self._instructed_for:
            self._instructed_for = wanted
            text = instructions(tools, native=self.path.native)
            self._instructed = PerMessage(lambda message: _instruct(message, text))
        if not messages or not isinstance(messages[0], SystemMessage):
            messages = [_NO_SYSTEM, *messages]
        rendered = [*self._instructed(messages[:1]), *self._textual(messages[1:])]
        if self.path.fold_system:
            rendered = _fold_system(rendered)
        return _merge(rendered) if self.path.alternate else [m for m in rendered if m is not _NO_SYSTEM]

    def _textual(self, messages: Sequence[Message]) -> list[Message]:
        """Every exchange as text on the text path; on the native path those that went through text."""
        as_text_from = self._as_text(messages)
        if not self.path.native or self.path.alternate:
            return as_text_from
        rendered: list[Message] = []
        native = False
        for message, textual in zip(messages, as_text_from, strict=True):
            if isinstance(message, Response):
                native = _is_native(message)
            rendered.append(message if native and isinstance(message, (Response, ToolResults)) else textual)
        return rendered


_NO_SYSTEM = SystemMessage("")


def _instruct(message: Message, text: str) -> Message:
    if not text or not isinstance(message, SystemMessage):
        return message
    return SystemMessage(f"{message.text}\n\n{text}" if message.text else text)


def _is_native(response: Response) -> bool:
    return any(block.origin == "native" for block in response.content if isinstance(block, (ToolCall, MalformedCall)))


def _fold_system(messages: list[Message]) -> list[Message]:
    system, *rest = messages
    return [UserMessage(system.text), *rest] if isinstance(system, SystemMessage) and system.text else rest


def _merge(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of one role as one message. Empty messages go: a template counts them as turns."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            merged[-1] = UserMessage(f"{last.text}\n\n{message.text}")
        elif isinstance(message, Response) and isinstance(last, Response):
            merged[-1] = Response((Text(f"{last.text}\n\n{message.text}"),))
        elif isinstance(message, ToolResults) or message.text:
            merged.append(message)
    return merged


class _Turn:
    """One answer as it comes: the server's text goes through the parser, and both kinds of calls into one Response."""

    def __init__(self, tools: Sequence[ToolDefinition], new_id: Callable[[], str]) -> None:
        self._parser = StreamParser(tools, new_id=new_id)
        self._blocks: list[Block] = []
        self._text: list[str] = []

    def take(self, event: ModelEvent) -> list[ModelEvent]:
        if isinstance(event, TextDelta):
            return self._parsed(self._parser.feed(event.text))
        if isinstance(event, Completed):
            rest = self._parsed(self._parser.close())
            self._end_text()
            return [*rest, Completed(self._whole(event.response))]
        return [event]

    def _parsed(self, found: Sequence[ParserEvent]) -> list[ModelEvent]:
        shown: list[ModelEvent] = []
        for event in found:
            if isinstance(event, TextDelta):
                self._text.append(event.text)
                shown.append(event)
            elif isinstance(event, (ParsedCall, Malformed)):
                self._end_text()
                self._blocks.append(event.call if isinstance(event, ParsedCall) else event.malformed)
        return shown

    def _end_text(self) -> None:
        if text := "".join(self._text):
            self._blocks.append(Text(text))
        self._text = []

    def _whole(self, answered: Response) -> Response:
        """The server's text replaced by what was found in it; a native call repeated in the text is one call."""
        native: list[Block] = [*answered.calls, *answered.malformed]
        repeated = {(call.name, repr(call.arguments)) for call in answered.calls}
        parsed = [b for b in self._blocks if not (isinstance(b, ToolCall) and (b.name, repr(b.arguments)) in repeated)]
        thoughts = [block for block in answered.content if isinstance(block, Reasoning)]
        content = (*thoughts, *parsed, *native)
        return Response(content, _stop_reason(answered.stop_reason, content), answered.usage, answered.model)


def _stop_reason(said: StopReason, content: Sequence[Block]) -> StopReason:
    """The server does not know of calls in the text, and may speak of calls that it then lost."""
    if said == "max_tokens":
        return said
    if any(isinstance(block, ToolCall) for block in content):
        return "tool_use"
    return "end_turn" if said == "tool_use" else said
