"""One model on one server: a conversation in, the model's turn out, as events.

Two choices are combined here and nowhere else: the codec (which provider's API) and the call path (how tools are
offered, see call_path.py). On every path the answer's text goes through the stream parser, so that all end in the same
blocks. When a server refuses a request, the path is changed and the request sent again; what the server's tool parser
lost is recovered from the answer's tokens (see recovery.py).
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from ..errors import BotError, ModelNotFound, ServerError, ToolsUnsupported
from ..parsing import mentions_call
from ..providers import vllm
from ..providers.base import ChatRequest, Codec, HttpRequest, decode
from ..providers.openai import OpenAICodec
from ..providers.vllm import fits_nothing
from ..transport import Client
from ..transport.retry import RetryPolicy, with_retries
from ..types.caching import MessageMemo
from ..types.events import ModelEvent, Notice
from ..types.messages import JSON, Message, ToolDefinition, ToolResults, UserMessage
from .call_path import CallPath, blames_grammar
from .recovery import Recovery
from .request_messages import MessageRenderer
from .response_assembler import ResponseAssembler
from .server import Server, read_refusal
from .token_budget import TokenBudget

_ALPHANUMERIC = string.ascii_letters + string.digits

GRAMMAR_FIELDS = frozenset({"structured_outputs", "strict"})
OK, INTERNAL_ERROR = 200, 500


def random_id() -> str:
    """9 letters and digits: the only shape that every chat template takes (Mistral's raises on others)."""
    return "".join(random.choices(_ALPHANUMERIC, k=9))  # noqa: S311 - names a call, guards nothing


def list_models(client: Client, codec: Codec | None = None) -> list[str]:
    """The names of the models that the server has. Raises ClientError, ServerError, WireError."""
    return Server(client, codec or OpenAICodec(random_id), is_vllm=False).list_models()


class Model:
    """A model that answers a conversation.

    `path`: the call path to begin with; it is changed as the server refuses requests. `codec`: OpenAI's by default.
    `is_vllm`: whether to use what only vLLM has. `max_tokens`: of one answer; None leaves it to the server.
    `strict`: whether the server can hold calls to this schema. `stream`: false asks for answers as a whole.
    `constrained`: "auto", "on" or "off": whether a grammar allows only valid calls after TOOL_CALL: on the text path;
    "auto" goes on without one if the server refuses it. `answer_schema`: of an answer's text, if the API supports it.
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
        strict: Callable[[Mapping[str, JSON]], bool] = fits_nothing,
        stream: bool = True,
        constrained: str = "auto",
        answer_schema: Mapping[str, JSON] | None = None,
        new_id: Callable[[], str] = random_id,
        retry_policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - a NamedTuple
    ) -> None:
        self.name = name
        self.path = path or CallPath()
        self._client = client
        self._codec = codec or OpenAICodec(new_id)
        self._server = Server(client, self._codec, is_vllm=is_vllm)
        self._budget = TokenBudget(self._server, lambda request: len(self._encode(request).body))
        self._retry_policy = retry_policy
        self._renderer = MessageRenderer()
        # A grammar turns every tag that begins a call into one, so a conversation about tags goes without.
        self._mentions = MessageMemo(lambda message: any(map(mentions_call, _collect_inputs([message]))))
        self._temperature = temperature
        self.max_tokens = max_tokens
        self._strict = strict
        self._stream = stream
        self._constrained = constrained
        self._answer_schema = answer_schema
        self._new_id = new_id
        self._sent_notices: set[str] = set()  # about what a server lost: each is given once
        self._grammar_tried = False
        self._grammar_failures = 0  # turns in a row in which a request failed with a grammar only
        self._last: tuple[ChatRequest, HttpRequest] | None = None

    @property
    def context_length(self) -> int | None:
        """In tokens; None if the server does not say."""
        return self._server.context_length(self.name)

    @property
    def server_version(self) -> str:
        """The version of vLLM; empty if the server does not say."""
        return self._server.version()

    def measure_fill(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), *, exact_from: float = 0.0
    ) -> float | None:
        """The share of the context that the prompt takes, from 0; None if not known.

        Below `exact_from` an upper bound is enough; the server counts tokens above it.
        """
        return self._budget.measure_fill(self._build_request(messages, tools), exact_from)

    def respond(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> Iterator[ModelEvent]:
        """The model's next turn; the last event is Completed.

        Raises ClientError, ServerError, WireError. No call of a turn that raises may be run.
        """
        self._grammar_tried = False
        disabled = list(self.path.disabled_fields)
        try:
            yield from self._answer(messages, tools)
        except BotError:  # disabling these fields did not help
            self.path.disabled_fields = disabled
            raise

    def _answer(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Iterator[ModelEvent]:
        while True:
            request = self._budget.fit_max_tokens(self._build_request(messages, tools))
            try:
                attempt = partial(self._attempt, request, tools)
                sleep, ready = self._client.sleep, self._server.check_health
                yield from with_retries(attempt, self._retry_policy, sleep, random.random, ready)
                return
            except ModelNotFound as refusal:
                yield Notice(self._take_the_only_model(refusal))
            except ServerError as refusal:
                shown = isinstance(refusal, ToolsUnsupported) and self._template_shows_tools(request)
                self._server.hint_base_url(refusal)
                if notice := self.path.downgrade(refusal, self._list_optional_fields(request), shown):
                    yield Notice(notice)

    def _take_the_only_model(self, refusal: ModelNotFound) -> str:
        """Returns the notice. Raises the refusal if the server has several models, or none."""
        names = self._server.try_list_models()
        if len(names) != 1 or names == [self.name]:
            if names:
                refusal.hint = f"It serves {', '.join(names)}: choose one with --model or vllm.model."
            raise refusal
        missing, self.name = self.name, names[0]
        return f"The server has no model {missing}; using {self.name}, the only one it serves."

    def _build_request(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> ChatRequest:
        allow_grammar = not any(self._mentions(messages))
        options = {
            name: value
            for name, value in self._build_options(tools, allow_grammar).items()
            if name not in self.path.disabled_fields
        }
        return ChatRequest(
            self.name,
            self._renderer.render(messages, tools, self.path),
            self._offer_tools(tools, allow_grammar),
            self._temperature,
            self.max_tokens,
            "none" if self.path.mode == "template" else "auto",
            options,
            self._stream,
        )

    def _offer_tools(self, tools: Sequence[ToolDefinition], allow_grammar: bool) -> Sequence[ToolDefinition]:
        if self.path.mode == "text":
            return ()
        allow_grammar = allow_grammar and self.path.mode == "native" and "strict" not in self.path.disabled_fields
        return [self._make_strict(tool) if allow_grammar else replace(tool, strict=False) for tool in tools]

    def _make_strict(self, tool: ToolDefinition) -> ToolDefinition:
        if tool.strict or self._strict(tool.parameters):
            return replace(tool, strict=True)
        full = tool.strict_parameters
        return replace(tool, strict=True, parameters=full) if full and self._strict(full) else tool

    def _build_options(self, tools: Sequence[ToolDefinition], allow_grammar: bool) -> dict[str, JSON]:
        options: dict[str, JSON] = {"stream_options": {"include_usage": True}}
        if self._answer_schema and self._codec.has_json_schema:
            form: dict[str, JSON] = {"name": "answer", "schema": dict(self._answer_schema), "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": form}
        if not self._server.is_vllm:
            return options
        options["return_token_ids"] = True
        if tools and self.path.mode == "template":
            options["skip_special_tokens"] = False  # in many formats the markers are special tokens
        wanted = self._constrained == "on" or (allow_grammar and self._constrained == "auto")
        if tools and self.path.mode == "text" and wanted:
            options["structured_outputs"] = vllm.constrain_calls(tools)
        return options

    def _list_optional_fields(self, request: ChatRequest) -> frozenset[str]:
        """The fields that may be left out of a request that was refused."""
        strict = ["strict"] if any(tool.strict for tool in request.tools) else []
        wanted = ["structured_outputs"] if self._constrained == "on" else []
        return frozenset([*request.options, *strict]) - frozenset(wanted)

    def _template_shows_tools(self, request: ChatRequest) -> bool:
        """Whether the prompt is longer with the tools than without them."""
        shown, hidden = self._budget.count_tokens(request), self._budget.count_tokens(replace(request, tools=()))
        return shown is not None and hidden is not None and shown > hidden

    def _attempt(self, request: ChatRequest, tools: Sequence[ToolDefinition]) -> Iterator[ModelEvent]:
        grammar = GRAMMAR_FIELDS & self._list_optional_fields(request)
        try:
            turn = yield from self._stream_answer(request, tools)
        except ServerError as refused:
            if refused.status != INTERNAL_ERROR or refused.in_answer or self._grammar_tried or not grammar:
                raise
            # Some servers answer a grammar that they cannot use with status 500: the request without one will tell.
            self._grammar_tried = True
            try:
                turn = yield from self._stream_answer(_remove_fields(request, grammar), tools)
            except ServerError:
                raise refused from None
            self._grammar_failures += 1
            if self._grammar_failures > 1 or blames_grammar(refused):
                self.path.disabled_fields += sorted(grammar)
        else:
            self._grammar_failures = 0 if grammar else self._grammar_failures
        replay = partial(self._stream_answer, tools=tools)
        for event in Recovery(turn, request, tools, self.path, self._server, self._budget, replay).run():
            if isinstance(event, Notice):
                if event.text in self._sent_notices:
                    continue
                self._sent_notices.add(event.text)
            yield event

    def _stream_answer(
        self, request: ChatRequest, tools: Sequence[ToolDefinition]
    ) -> Generator[ModelEvent, None, ResponseAssembler]:
        """Yields the events of one answer; returns the whole."""
        wire = self._encode(request)
        turn = ResponseAssembler(tools, self._new_id, _collect_inputs(request.messages, self._renderer.system))
        with self._client.open("POST", wire.path, wire.body) as reply:
            if reply.status != OK:
                raise read_refusal(reply)
            try:
                for events in decode(self._codec.make_decoder(reply.content_type), reply.chunks):
                    for event in events:
                        yield from turn.feed(event)
                    if turn.repeats:
                        break
            except BotError:
                yield from turn.flush()
                raise
        self._budget.record_usage(request, len(wire.body), turn.completed.usage)
        return turn

    def _encode(self, request: ChatRequest) -> HttpRequest:
        """The body of a request, which is measured before it is sent, and encoded once."""
        if self._last is None or self._last[0] is not request:
            self._last = request, self._codec.encode(request)
        return self._last[1]


def _collect_inputs(messages: Sequence[Message], system: str = "") -> list[str]:
    """The texts that the model was given.

    `system` is left out where it was put before the first question: its examples of calls are no echo.
    """
    texts: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            texts.append(message.text.removeprefix(system))
        elif isinstance(message, ToolResults):
            texts += [result.value for result in message.results if isinstance(result.value, str)]
    return texts


def _remove_fields(request: ChatRequest, fields: Set[str]) -> ChatRequest:
    options = {name: value for name, value in request.options.items() if name not in fields}
    tools = [replace(tool, strict=False) for tool in request.tools] if "strict" in fields else request.tools
    return replace(request, options=options, tools=tools)
