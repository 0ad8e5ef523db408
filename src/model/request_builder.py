"""The request of a turn: what one model's options, a call path, a conversation and tools make. Pure.

What does not change from turn to turn is made once: of each message its rendering and its bytes, of a tool set its
strictness and its grammar. A request that is asked for twice, to be measured and to be sent, is built once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from ..negotiation.call_path import GRAMMAR_FIELD, THOUGHTS_FIELD, CallPath
from ..negotiation.formats.structural_tags import find_format
from ..negotiation.formats.written_format import constrain_calls
from ..negotiation.history.mending import Mended, mend_history
from ..negotiation.thoughts import holds_thoughts, sends_thoughts
from ..parsing import GivenText, mentions_call, render_choice
from ..providers import vllm
from ..providers.base import ChatRequest, Codec, HttpRequest
from ..providers.openai import CHAT_PATH
from ..providers.wire_json import as_dict, as_dicts, encode_json, load_json
from ..types.caching import LastMemo, MessageMemo, count_shared
from ..types.messages import (
    JSON,
    MalformedCall,
    Message,
    Response,
    ToolChoice,
    ToolDefinition,
    ToolResults,
    UserMessage,
)
from ..types.tool_schema import to_strict
from .request_messages import MessageRenderer


class ModelOptions(Struct, frozen=True):
    """How one model is asked.

    `is_vllm`: whether to use what only vLLM has. `strict`: whether the server can hold calls to this schema.
    `stream`: false asks for answers as a whole. `constrained`: "auto", "on" or "off": whether a grammar allows only
    valid calls behind what begins one in the text; "auto" goes on without one if the server refuses it.
    `answer_schema`: of an answer's text, if the API supports it. `extra`: more fields of each request's body.
    `send_thoughts`: "auto", "always" or "never"; see negotiation/thoughts.py. `recovers_parser_errors`: a turn on whose
    answer the server's parser fails is asked once more, in text.
    """

    is_vllm: bool = True
    temperature: float | None = None
    strict: Callable[[Mapping[str, JSON]], bool] = vllm.fits_nothing
    stream: bool = True
    constrained: str = "auto"
    answer_schema: Mapping[str, JSON] | None = None
    extra: Mapping[str, JSON] = {}
    send_thoughts: str = "auto"
    recovers_parser_errors: bool = True


class _Input(Struct, frozen=True):
    """What a message gives the model to read: texts, each with the id of the call that it answers, or an empty one.

    `mentions_calls`: it holds a tag that calls are written in. `malformed`: ids of calls that only get an error.
    """

    texts: list[tuple[str, GivenText]]
    mentions_calls: bool
    malformed: list[str]


class RequestBuilder:
    """Builds and encodes the requests of one model."""

    def __init__(self, codec: Codec, options: ModelOptions) -> None:
        self._codec = codec
        self._options = options
        self._renderer = MessageRenderer(keeps_malformed=codec.signs_calls)
        self._inputs = MessageMemo(_find_input)
        self.given: list[GivenText] = []  # what the model is given in the last request, but for the system prompt
        self._strict_tools = LastMemo[tuple[ToolDefinition, ...], tuple[ToolDefinition, ...]](
            lambda tools: tuple(make_strict(tool, options.strict) for tool in tools)
        )
        self._plain_tools = LastMemo(_make_plain)
        self._grammars = LastMemo[tuple[tuple[ToolDefinition, ...], ToolChoice, str], dict[str, JSON]](
            lambda key: self._constrain(*key)
        )
        self._encoded: tuple[ChatRequest, HttpRequest] | None = None
        self._messages: list[Message] = []  # of the last request
        self._built: tuple[tuple[object, ...], ChatRequest] | None = None

    def build(
        self,
        model: str,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        path: CallPath,
        max_tokens: int | None,
        choice: ToolChoice = "auto",
        writer: str = "",
    ) -> ChatRequest:
        """`writer`: the name of the model on its server, whose thoughts may go back; see Response."""
        if self._codec.shows_tools:
            path = replace(path, template_shows_tools=True)
        key = model, tuple(tools), path, path.mended, max_tokens, choice, writer
        shared = count_shared(self._messages, messages)
        if not self._built or self._built[0] != key or not len(messages) == len(self._messages) == shared:
            self._built = None  # in case that it is interrupted here
            self._messages[shared:] = messages[shared:]
            self._built = key, self._build(model, tuple(tools), path, max_tokens, choice, writer, messages)
        return self._built[1]

    def _build(
        self,
        model: str,
        tools: tuple[ToolDefinition, ...],
        path: CallPath,
        max_tokens: int | None,
        choice: ToolChoice,
        writer: str,
        messages: Sequence[Message],
    ) -> ChatRequest:
        allow_grammar = self._take_in(messages)
        options = self._build_options(tools, path, allow_grammar, choice)
        # A grammar is no part of the prompt: it also allows the tools that the prompt only names.
        offered = tuple(tool for tool in tools if not tool.named_by)
        if path.mode != "native" and (wish := render_choice(choice)) and not _is_held(options, path):
            messages = [*messages, UserMessage(wish)]
        reader = writer if sends_thoughts(path, self._options.send_thoughts) else None
        return ChatRequest(
            model,
            self._renderer.render(messages, offered, path, reader, model),
            self._offer_tools(offered, path, allow_grammar),
            self._options.temperature,
            max_tokens,
            "none" if path.prompt_style == "template" else choice,
            options,
            self._options.stream and "stream" not in path.disabled_fields,
            self._options.extra,
            "max_completion_tokens" if "max_tokens" in path.disabled_fields else "",
            is_mended=path.mended,
        )

    def _take_in(self, messages: Sequence[Message]) -> bool:
        """Note what the model is given. Whether a grammar is allowed.

        It turns every tag that begins a call into one, so a conversation about tags goes without.
        """
        inputs = self._inputs(messages)
        # An error of this program shows a correct call, which the model is to repeat.
        malformed = {id for each in inputs for id in each.malformed}
        self.given = [text for each in inputs for id, text in each.texts if id not in malformed]
        return not any(each.mentions_calls for each in inputs)

    def encode(self, request: ChatRequest) -> HttpRequest:
        """The request's bytes. They are made once: a request is measured before it is sent."""
        if self._encoded is None or self._encoded[0] is not request:
            wire = self._codec.encode(request)
            if request.is_mended:
                body = as_dict(load_json(wire.body))
                wire = replace(wire, body=encode_json({**body, "messages": self._mend(wire).messages}))
            self._encoded = request, wire
        return self._encoded[1]

    def list_mended(self, request: ChatRequest) -> tuple[str, ...]:
        """What of the request would be sent otherwise where it is mended."""
        wire = self.encode(request)
        return self._mend(wire).what if wire.path == CHAT_PATH else ()

    def _mend(self, wire: HttpRequest) -> Mended:
        return mend_history(as_dicts(as_dict(load_json(wire.body)).get("messages")))

    def measure_bytes(self, request: ChatRequest) -> int:
        return len(self.encode(request).body)

    def list_optional_fields(self, request: ChatRequest) -> frozenset[str]:
        """The fields that may be left out of a request that was refused, or sent otherwise."""
        sent = {
            "strict": any(tool.strict for tool in request.tools),
            "stream": request.stream,
            "max_tokens": request.max_tokens,
            THOUGHTS_FIELD: any(map(holds_thoughts, request.messages)),
        }
        optional = {*request.options, *filter(sent.get, sent)}
        if self._options.constrained == "on":
            optional.discard(GRAMMAR_FIELD)
        return frozenset(optional)

    def _offer_tools(
        self, tools: tuple[ToolDefinition, ...], path: CallPath, allow_grammar: bool
    ) -> Sequence[ToolDefinition]:
        """The same object for the same tools, so that the codec encodes it once."""
        if path.prompt_style == "text":
            return ()
        if allow_grammar and path.mode == "native" and "strict" not in path.disabled_fields:
            return self._strict_tools(tools)
        return self._plain_tools(tools)

    def _build_options(
        self, tools: tuple[ToolDefinition, ...], path: CallPath, allow_grammar: bool, choice: ToolChoice
    ) -> dict[str, JSON]:
        given = self._options
        options: dict[str, JSON] = {"stream_options": {"include_usage": True}}
        if given.answer_schema and self._codec.has_json_schema:
            form: dict[str, JSON] = {"name": "answer", "schema": dict(given.answer_schema), "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": form}
        if given.is_vllm:
            options |= self._build_vllm_options(tools, path, allow_grammar, choice)
        return {name: value for name, value in options.items() if name not in path.disabled_fields}

    def _build_vllm_options(
        self, tools: tuple[ToolDefinition, ...], path: CallPath, allow_grammar: bool, choice: ToolChoice
    ) -> dict[str, JSON]:
        options: dict[str, JSON] = {}
        if path.mode != "tokens" or not tools:
            options["return_token_ids"] = True
        if tools and (path.mode in ("template", "tokens") or (path.mode == "native" and choice == "none")):
            options["skip_special_tokens"] = False  # in many formats the markers are special tokens
        if tools and choice != "none":
            options |= self._build_grammar(tools, path, allow_grammar, choice)
        return options

    def _build_grammar(
        self, tools: tuple[ToolDefinition, ...], path: CallPath, allow_grammar: bool, choice: ToolChoice
    ) -> dict[str, JSON]:
        """The fields that hold the model to calls which can be read; none where it writes none, or is free to."""
        constrained, is_forced = self._options.constrained, choice != "auto"
        # A call that is forced is no mention of one.
        is_wanted = constrained == "on" or (constrained == "auto" and (allow_grammar or is_forced))
        written = _find_written_format(path)
        writes_calls = path.prompt_style == "text" or written or (path.prompt_style == "template" and is_forced)
        if not (is_wanted and writes_calls):
            return {}
        fields = self._grammars((tools, choice, written))
        if path.grammar in vllm.SCHEMA_FIELDS and is_forced:
            return {**fields, path.grammar: vllm.build_choice_schema(tools, choice)}
        return fields

    @property
    def wants_grammar(self) -> bool:
        return self._options.is_vllm and self._options.constrained != "off"

    def _constrain(self, tools: tuple[ToolDefinition, ...], choice: ToolChoice, written: str) -> dict[str, JSON]:
        """structured_outputs for calls in this format, or for those behind TOOL_CALL:; none if there can be none."""
        grammar = constrain_calls(tools, choice, written, self._options.strict)
        return {GRAMMAR_FIELD: grammar} if grammar else {}


def _is_held(options: Mapping[str, JSON], path: CallPath) -> bool:
    """Whether the request holds the model to a call that is required, so that no words need to ask for it.

    A grammar does where the model was trained to write what it allows, or a probe was held to it.
    """
    is_proven = path.prompt_style == "text" and path.grammar == GRAMMAR_FIELD
    if GRAMMAR_FIELD in options and (is_proven or _find_written_format(path)):
        return True
    return any(name in options for name in vllm.SCHEMA_FIELDS)


def _find_written_format(path: CallPath) -> str:
    """The format of calls that the chat template shows, if a grammar can hold the model to it; else empty."""
    if path.prompt_style != "template" or find_format(path.written_format) is None:
        return ""
    return path.written_format


def _find_input(message: Message) -> _Input:
    """No texts if the model wrote the message itself."""
    if isinstance(message, Response):
        return _Input([], False, [block.id for block in message.content if isinstance(block, MalformedCall)])
    is_user = isinstance(message, UserMessage)
    texts: list[tuple[str, str]] = []
    if isinstance(message, UserMessage):
        texts = [("", message.text)]
    elif isinstance(message, ToolResults):
        texts = [(result.tool_call_id, result.text) for result in message.results]
    given_texts = [(id, GivenText(text, is_user=is_user)) for id, text in texts]
    return _Input(given_texts, any(mentions_call(text) for _, text in texts), [])


def make_strict(tool: ToolDefinition, can_hold: Callable[[Mapping[str, JSON]], bool]) -> ToolDefinition:
    """The tool as a server gets it that can hold calls to these schemas."""
    if tool.strict or can_hold(tool.parameters):
        return replace(tool, strict=True)
    if tool.drops_nulls and can_hold(full := to_strict(tool.parameters)):
        return replace(tool, strict=True, parameters=full)
    return tool


def _make_plain(tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
    return tuple(replace(tool, strict=False) for tool in tools)


def remove_fields(request: ChatRequest, fields: Set[str]) -> ChatRequest:
    options = {name: value for name, value in request.options.items() if name not in fields}
    if "strict" in fields:
        request = replace(request, tools=_make_plain(tuple(request.tools)))
    return replace(request, options=options)
