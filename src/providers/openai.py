"""Chat completions, as vLLM serves and extends them: neutral request -> bytes, bytes -> neutral events. No I/O.

The JSON of a message is made once and kept: a turn only joins bytes, and the prompt's prefix stays identical for the
server's cache. Shapes and texts: vLLM 0.32, entrypoints/openai/chat_completion and serve/exception_handling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ..errors import CHECK_ADDRESS, WireError
from ..types.caching import LastMemo, MessageMemo
from ..types.messages import (
    JSON,
    MalformedCall,
    Message,
    Named,
    Reasoning,
    Response,
    StopReason,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    block_text,
    detach_media,
    write_arguments,
)
from ..types.special_tokens import escape_in_json
from ..types.tool_schema import to_openai_tool
from .base import (
    ChatRequest,
    Codec,
    Decoder,
    HttpRequest,
    PromptIds,
    RawTokens,
    WireEvent,
    describe_failure,
    make_sendable,
)
from .server_errors import is_error, read_mid_stream_error
from .stream.decoder import BodySniffer, StreamDecoder
from .wire_json import (
    StructReader,
    WireStruct,
    as_dict,
    as_dicts,
    as_str,
    dump_json,
    encode_body,
    encode_json,
    load_json,
    to_struct,
)

CHAT_PATH = "chat/completions"
_DONE = b"[DONE]"
# vLLM's first event repeats the whole prompt as numbers where an answer's are asked for; reading them takes longer than
# all else of a turn. In a text the quote before the colon is escaped.
_PROMPT_IDS = b'"prompt_token_ids":['


class OpenAICodec(Codec):
    """`new_id` makes ids for calls without one; `max_tokens` is the server's name for that limit."""

    has_json_schema = True

    def __init__(self, new_id: Callable[[], str], max_tokens: str = "max_tokens") -> None:
        self._new_id = new_id
        self._max_tokens = max_tokens
        self._fragments = MessageMemo(_encode_message)
        self._fields = LastMemo[dict[str, JSON], bytes](encode_json)
        self._tools = LastMemo(_encode_tools)

    def encode(self, request: ChatRequest) -> HttpRequest:
        fields: dict[str, JSON] = {"model": request.model, "stream": request.stream, **request.options}
        if not request.stream:
            fields.pop("stream_options", None)  # refused without a stream
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields[request.max_tokens_name or self._max_tokens] = request.max_tokens
        fields |= request.extra
        return HttpRequest(CHAT_PATH, self._encode_body(request, fields))

    def encode_prompt(self, request: ChatRequest) -> bytes:
        fields: dict[str, JSON] = {"model": request.model}
        if template := request.extra.get("chat_template_kwargs"):
            fields["chat_template_kwargs"] = template
        return self._encode_body(request, fields)

    def _encode_body(self, request: ChatRequest, fields: dict[str, JSON]) -> bytes:
        objects = [self._fields(fields)]
        if request.tools:  # servers refuse an empty list, and a choice without tools
            objects += self._tools(request.tools), encode_json({"tool_choice": _encode_choice(request.tool_choice)})
        return encode_body("messages", [*filter(None, self._fragments(request.messages))], *objects)

    def make_decoder(self, content_type: str) -> Decoder:
        return BodySniffer(content_type, OpenAIStream(self._new_id))


def _encode_choice(choice: ToolChoice) -> JSON:
    return {"type": "function", "function": {"name": choice.name}} if isinstance(choice, Named) else choice


def _encode_tools(tools: Sequence[ToolDefinition]) -> bytes:
    return encode_json({"tools": [to_openai_tool(tool) for tool in tools]})


def _encode_message(message: Message) -> bytes:
    return b",".join(map(encode_json, encode_messages(message)))


def encode_messages(message: Message) -> list[dict[str, JSON]]:
    """A neutral message as chat messages: one per tool result, none for an answer without anything."""
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": message.text}]
    if isinstance(message, UserMessage):
        return [{"role": "user", "content": _encode_parts(message.blocks) or message.text}]
    if isinstance(message, ToolResults):
        return _encode_results(message)
    return _encode_answer(message)


def _encode_results(message: ToolResults) -> list[dict[str, JSON]]:
    """Images and sound follow in a user message: OpenAI and most chat templates take them in no other."""
    results, media = detach_media(message.results)
    sent: list[dict[str, JSON]] = [
        {"role": "tool", "tool_call_id": result.tool_call_id, "content": _encode_result(result)} for result in results
    ]
    if media:
        sent.append({"role": "user", "content": _encode_parts(media)})
    return sent


def _encode_answer(message: Response) -> list[dict[str, JSON]]:
    """Thoughts stand under two names: vLLM reads the first, older servers and DeepSeek's API the second."""
    text, thought = message.text, "".join(block.text for block in message.content if isinstance(block, Reasoning))
    calls = [_encode_call(call) for call in message.requested_calls]
    if not (text or thought or calls):
        return []
    # Not null: templates that print `message.content` would print None.
    answer: dict[str, JSON] = {"role": "assistant", "content": text}
    if thought:
        answer |= {"reasoning": thought, "reasoning_content": thought}
    if calls:
        answer["tool_calls"] = calls
    return [answer]


def _encode_call(call: ToolCall | MalformedCall) -> JSON:
    """The call as the model wrote it, but for words that a chat template would read as its own.

    Servers read the arguments and write them anew, so that a plain escape would be undone before the template.
    """
    name, arguments = make_sendable(call)
    written = (isinstance(call, ToolCall) and call.written) or write_arguments(arguments)
    function: dict[str, JSON] = {"name": name, "arguments": escape_in_json(written, r"\\u{:04x}")}
    return {"id": call.id, "type": "function", "function": function}


def _encode_result(result: ToolResult) -> JSON:
    if result.kind == "error":
        return dump_json(describe_failure(result))
    return dump_json(result.value) if result.kind == "data" else result.value


def _encode_parts(blocks: object) -> JSON:
    return [*map(_encode_part, as_dicts(blocks))]


def _encode_part(block: dict[str, Any]) -> JSON:
    data, kind = block.get("data", ""), as_str(block.get("mimeType"))
    match block.get("type"):
        case "image":
            return {"type": "image_url", "image_url": {"url": f"data:{kind or 'image/png'};base64,{data}"}}
        case "audio":
            form = kind.rpartition("/")[2]
            return {"type": "input_audio", "input_audio": {"data": data, "format": _FORMATS.get(form, form)}}
    return {"type": "text", "text": block_text(block)}


_FORMATS = {"mpeg": "mp3", "x-wav": "wav"}  # OpenAI's names of formats that MIME calls otherwise


class CompletionFunction(WireStruct):
    name: str | None = None
    arguments: Any = None


class CompletionCall(WireStruct):
    index: int | None = None
    id: str | None = None
    function: CompletionFunction | None = None


class CompletionDelta(WireStruct):
    """A piece of an answer, or the whole message, which some proxies send as the only event.

    `content` is text, or a list of parts (Mistral).
    """

    content: Any = None
    refusal: str | None = None  # OpenAI's models explain a refusal here
    reasoning: str | None = None
    reasoning_content: str | None = None  # the name before vLLM 0.16, and in DeepSeek's API
    reasoning_text: str | None = None  # GitHub's service
    thinking: str | None = None  # Ollama
    tool_calls: list[CompletionCall] | None = None
    function_call: CompletionFunction | None = None  # OpenAI's API before tool_calls


class CompletionChoice(WireStruct):
    delta: CompletionDelta | None = None
    message: CompletionDelta | None = None
    text: str | None = None  # of /v1/completions
    finish_reason: str | None = None
    stop_reason: Any = None  # vLLM: the string that ended the answer, or another token than the usual one
    token_ids: list[int] | None = None
    error: Any = None  # OpenRouter


class PromptTokensDetails(WireStruct):
    cached_tokens: int | None = None  # vLLM: with --enable-prompt-tokens-details


class CompletionTokensDetails(WireStruct):
    reasoning_tokens: int | None = None


class CompletionUsage(WireStruct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class CompletionChunk(WireStruct):
    """A chunk of a stream, or a whole answer."""

    id: Any = None
    model: str | None = None
    choices: list[CompletionChoice] | None = None  # null in a chunk that has only usage, absent in an error
    usage: CompletionUsage | None = None
    error: Any = None  # beside choices, where a provider fails behind a proxy


COMPLETIONS = StructReader(CompletionChunk)


def read_usage(completion: CompletionChunk) -> Usage | None:
    usage = completion.usage
    if usage is None or usage == CompletionUsage():
        return None
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        usage.prompt_tokens or 0,
        usage.completion_tokens or 0,
        (read and read.cached_tokens) or 0,
        (written and written.reasoning_tokens) or 0,
    )


class OpenAIStream(StreamDecoder):
    STOP_REASONS: ClassVar[Mapping[str, StopReason]] = {
        "stop": "end_turn",
        "eos": "end_turn",  # Together's
        "eos_token": "end_turn",  # this and the next: TGI's
        "stop_sequence": "end_turn",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "length": "max_tokens",
    }

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._reasoning = self._builder.begin_text(Reasoning)
        self._text = self._builder.begin_text(Text)
        self._token_ids: list[int] = []
        self._end_id: int | None = None
        self.unaccounted = 0  # tokens that became neither text nor a call

    def read_event(self, data: bytes, found: list[WireEvent]) -> None:
        if data == _DONE:
            self._is_done = True
            return
        if (start := data.find(_PROMPT_IDS)) >= 0:
            start += len(_PROMPT_IDS)
            end = data.find(b"]", start)
            found.append(PromptIds(data[start:end]))
            data = data[:start] + data[end:]
        chunk = COMPLETIONS.read(data)
        if chunk.choices is None and is_error(event := as_dict(load_json(data))):
            raise read_mid_stream_error(event)
        for choice in chunk.choices or ():
            if choice.delta is None and choice.message and self._builder.is_empty:
                _index_calls(choice.message)
                choice.delta = choice.message
        self._add(chunk, found)

    def _add(self, chunk: CompletionChunk, found: list[WireEvent]) -> None:
        self._model = self._model or chunk.model or ""
        self._id = self._id or as_str(chunk.id)
        self._usage = read_usage(chunk) or self._usage
        failure = chunk.error
        for choice in chunk.choices or ():
            self._stop_reason = choice.finish_reason or self._stop_reason
            self._add_choice(choice, found)
            failure = failure or choice.error
        if failure:
            raise read_mid_stream_error({"error": failure})

    def _add_choice(self, choice: CompletionChoice, found: list[WireEvent]) -> None:
        before = len(found)
        if choice.delta:
            self._add_delta(choice.delta, found)
        if choice.token_ids:
            count = self._add_ids(choice.token_ids, choice.finish_reason)
            if len(found) == before:
                self.unaccounted += count

    def _add_ids(self, ids: list[int], finish_reason: str | None) -> int:
        """How many are added. The token that ends the turn is kept apart; others may come in the same event."""
        if finish_reason and finish_reason != "length":
            *ids, self._end_id = ids
        self._token_ids += ids
        return len(ids)

    def _add_delta(self, delta: CompletionDelta, found: list[WireEvent]) -> None:
        content = delta.content
        if content and not isinstance(content, str):
            self._add_parts(content, found)
        elif text := content or delta.refusal:
            found.append(self._text.add(text))
        if thought := delta.reasoning or delta.reasoning_content or delta.reasoning_text or delta.thinking:
            found.append(self._reasoning.add(thought))
        if old := delta.function_call:
            found.append(self._builder.add_call(0, "", old.name, old.arguments))
        for call in delta.tool_calls or ():
            function = call.function or CompletionFunction()
            found.append(self._builder.add_call(call.index, call.id, function.name, function.arguments))

    def _add_parts(self, parts: object, found: list[WireEvent]) -> None:
        for part in as_dicts(parts):
            if text := as_str(part.get("text")):
                found.append(self._text.add(text))
            for thought in as_dicts(part.get("thinking")):
                found.append(self._reasoning.add(as_str(thought.get("text"))))

    def read_whole(self, answer: Any) -> list[WireEvent]:
        completion, events = to_struct(answer, CompletionChunk), list[WireEvent]()
        if completion.choices is None:
            if is_error(as_dict(answer)):
                raise read_mid_stream_error(answer)
            raise WireError("The server's answer is JSON, but not a chat completion.", CHECK_ADDRESS)
        for choice in completion.choices:
            choice.delta = choice.message
            _index_calls(choice.message)
        self._add(completion, events)
        self.unaccounted = len(self._token_ids)  # a whole answer does not tell which of them became nothing
        return events

    @property
    def has_token_ids(self) -> bool:
        """Whether the server has told token ids of the answer."""
        return bool(self._token_ids)

    def close(self) -> list[WireEvent]:
        completed = super().close()
        tokens = RawTokens(self._token_ids, self.unaccounted, self._end_id)
        return [tokens, *completed] if self._token_ids else completed


def _index_calls(message: CompletionDelta | None) -> None:
    """Those of a whole message have no indexes."""
    for index, call in enumerate((message and message.tool_calls) or ()):
        call.index = index
