"""The GitHub Copilot CLI: neutral request -> what a session is made of, its events -> neutral events. No I/O.

The CLI keeps the conversation, and asks the model itself. A request therefore holds the whole conversation, from which
transport/copilot.py takes what the session does not have yet. Each message has a `text` that tells it in a session that
did not see it. Everything of the CLI's own is off: its tools, instructions, hooks, skills and memory.
Shapes: @github/copilot 1.0.102, protocol version 3, and the types of github-copilot-sdk 1.0.27.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ..errors import WireError
from ..types.caching import LastMemo, MessageMemo
from ..types.messages import (
    JSON,
    Message,
    Reasoning,
    Response,
    StopReason,
    SystemMessage,
    Text,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    join_block_texts,
    list_blocks,
)
from .base import ChatRequest, Codec, Decoder, HttpRequest, WireEvent, make_sendable
from .server_errors import read_mid_stream_error
from .stream.decoder import BodySniffer, StreamDecoder
from .wire_json import StructReader, WireStruct, as_dicts, dump_json, encode_body, encode_json

# As github-copilot-sdk's mode "empty", and without its own summaries and files for long results.
_ISOLATED: dict[str, JSON] = {
    "enableConfigDiscovery": False,
    "enableFileHooks": False,
    "enableHostGitOperations": False,
    "enableOnDemandInstructionDiscovery": False,
    "enableSessionStore": False,
    "enableSessionTelemetry": False,
    "enableSkills": False,
    "customAgentsLocalOnly": True,
    "skipEmbeddingRetrieval": True,
    "embeddingCacheStorage": "in-memory",
    "mcpOAuthTokenStorage": "in-memory",
    "memory": {"enabled": False},
    "infiniteSessions": {"enabled": False},
    "largeOutput": {"enabled": False},
    "modelCapabilities": {"supports": {"vision": True}},
    "requestPermission": True,
    "envValueMode": "direct",
}
_RESULT_TYPES = {"": "success", "error": "failure", "denied": "denied"}


class CopilotCodec(Codec):
    """`new_id` makes ids for calls without one."""

    counts_output = False
    shows_tools = True
    signs_calls = True

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._fragments = MessageMemo(_encode_message)
        self._tools = LastMemo(_encode_tools)
        self._fields = LastMemo[dict[str, JSON], bytes](encode_json)

    def encode(self, request: ChatRequest) -> HttpRequest:
        """`session` holds the parameters of session.create. A session cannot be made to call a tool."""
        tools = self._tools(request.tools) if request.tool_choice != "none" else []
        system = [each.text for each in request.messages if isinstance(each, SystemMessage) and each.text]
        session: dict[str, JSON] = {
            **_ISOLATED,
            "model": request.model,
            "streaming": request.stream,
            "tools": tools,
            "availableTools": ["custom:*"] if tools else [],
            "systemMessage": {"mode": "replace", "content": "\n\n".join(system)},
            **request.extra,
        }
        if request.max_tokens is not None:
            session["provider"] = {"maxOutputTokens": request.max_tokens}
        messages = [each for each in self._fragments(request.messages) if each]
        return HttpRequest("session", encode_body("messages", messages, self._fields({"session": session})))

    def make_decoder(self, content_type: str) -> Decoder:
        return BodySniffer(content_type, CopilotStream(self._new_id))


def _encode_tools(tools: Sequence[ToolDefinition]) -> list[JSON]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": {"type": "object", **tool.parameters},
            "overridesBuiltInTool": True,
        }
        for tool in tools
    ]


def _encode_message(message: Message) -> bytes:
    """Empty for a system prompt, which is a setting of the session."""
    if isinstance(message, UserMessage):
        text, images = _detach_images(message.blocks, message.text)
        attachments = [{**each, "type": "blob"} for each in images]
        return encode_json({"role": "user", "text": text, "attachments": attachments})
    if isinstance(message, Response):
        sendable = [make_sendable(call) for call in message.requested_calls]
        calls = [f"Calls {name}: {dump_json(arguments)}" for name, arguments in sendable]
        ids = [call.id for call in message.requested_calls]
        text = "\n".join(filter(None, [message.text, *calls]))
        return encode_json({"role": "assistant", "text": text, "id": message.id, "answer": message.text, "calls": ids})
    if isinstance(message, ToolResults):
        results = [_encode_result(each) for each in message.results]
        texts = [f"Result of {each.name} ({each.tool_call_id}): {each.text}" for each in message.results]
        return encode_json({"role": "tool", "text": "\n".join(texts), "results": results})
    return b""


def _detach_images(blocks: Sequence[JSON], text: str) -> tuple[str, list[dict[str, JSON]]]:
    """The text beside the images among the blocks, and these; `text` where there are none."""
    images: list[dict[str, JSON]] = [
        {"data": block.get("data", ""), "mimeType": block.get("mimeType", "image/png")}
        for block in as_dicts(blocks)
        if block.get("type") == "image"
    ]
    if images:
        text = join_block_texts(each for each in as_dicts(blocks) if each.get("type") != "image")
    return text, images


def _encode_result(result: ToolResult) -> dict[str, JSON]:
    text, images = _detach_images(list_blocks(result), result.text)
    sent: dict[str, JSON] = {"textResultForLlm": text, "resultType": _RESULT_TYPES[result.failure]}
    if images:
        sent["binaryResultsForLlm"] = [{**each, "type": "image"} for each in images]
    return {"id": result.tool_call_id, "result": sent}


class CopilotToolRequest(WireStruct, rename="camel"):
    tool_call_id: str | None = None
    name: str | None = None
    arguments: Any = None


class CopilotData(WireStruct, rename="camel"):
    """What the events hold that are read here; each has some of it."""

    message_id: str | None = None
    delta_content: str | None = None
    content: str | None = None
    reasoning_text: str | None = None
    tool_requests: list[CopilotToolRequest] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    input_delta: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    message: str | None = None


class CopilotEvent(WireStruct, rename="camel"):
    """`agent_id` names one of the CLI's agents that is not the conversation's."""

    type: str | None = None
    data: CopilotData | None = None
    agent_id: str | None = None


_EVENTS = StructReader(CopilotEvent)
_DELTAS: Mapping[str | None, type[Text] | type[Reasoning]] = {
    "assistant.message_delta": Text,
    "assistant.reasoning_delta": Reasoning,
}


class CopilotStream(StreamDecoder):
    """A turn ends with a message that calls tools, or when the session is idle."""

    STOP_REASONS: ClassVar[Mapping[str, StopReason]] = {"tool_use": "tool_use", "end_turn": "end_turn"}

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._indexes: dict[str, int] = {}  # of calls, by their id
        self._streamed: set[type[Text] | type[Reasoning]] = set()  # what came in pieces of the current message
        self._output_tokens = 0

    def read_event(self, data: bytes, found: list[WireEvent]) -> None:
        event = _EVENTS.read(data)
        if not event.agent_id:
            self._read(event.type, event.data or CopilotData(), found)

    def _read(self, kind: str | None, what: CopilotData, found: list[WireEvent]) -> None:
        if kind in _DELTAS:
            self._add_text(_DELTAS[kind], what.delta_content, found)
        elif kind == "assistant.tool_call_delta":
            self._add_call(what.tool_call_id, what.tool_name, what.input_delta, found)
        elif kind == "assistant.usage":
            self._add_usage(what)
        elif kind == "assistant.message":
            self._read_message(what, found)
        elif kind == "session.error" and not self._stop_reason:  # else it says that an answer was empty
            raise read_mid_stream_error({"error": {"message": what.message or "The session failed."}})
        elif kind == "session.idle":
            self._is_done = True

    def _add_text(self, kind: type[Text] | type[Reasoning], piece: str | None, found: list[WireEvent]) -> None:
        if not piece:
            return
        self._streamed.add(kind)
        found.append(self._builder.continue_text(kind, {}).add(piece))

    def _add_usage(self, usage: CopilotData) -> None:
        if usage.input_tokens:  # 0 where the server did not count
            self._output_tokens += usage.output_tokens or 0
            self._usage = Usage(usage.input_tokens, self._output_tokens, usage.cache_read_tokens or 0)

    def _add_call(self, id: str | None, name: str | None, arguments: object, found: list[WireEvent]) -> None:
        index = self._indexes.setdefault(id or "", len(self._indexes))
        found.append(self._builder.add_call(index, id, name, arguments))

    def _read_message(self, message: CopilotData, found: list[WireEvent]) -> None:
        """Take in a whole message, and of its parts those that did not come in pieces."""
        for kind, text in ((Reasoning, message.reasoning_text), (Text, message.content)):
            if kind not in self._streamed:
                self._add_text(kind, text, found)
        self._streamed.clear()
        for call in message.tool_requests or ():
            if call.tool_call_id not in self._indexes:
                self._add_call(call.tool_call_id, call.name, call.arguments, found)
        self._model = message.model or self._model
        self._id = message.message_id or self._id
        self._stop_reason = "end_turn"
        if message.tool_requests:
            self._stop_reason, self._is_done = "tool_use", True

    def read_whole(self, answer: Any) -> list[WireEvent]:  # noqa: ARG002
        """Raises WireError, always: a session answers with events."""
        raise WireError("The Copilot CLI sent an answer that is no event.")
