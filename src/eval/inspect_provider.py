"""A model provider for inspect-ai, so that its evals run on any call path: `--model vllm-bot/NAME`.

    inspect eval tasks.py --model vllm-bot/NAME --model-base-url http://gpu:8000/v1 -M path=text

inspect-ai finds it by the entry point `inspect_ai`. `path` pins a call path; other `-M` arguments are keys of the
section `vllm` of the settings. Where a call came from, and what the chat would have told, is in an output's metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    Content,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    modelapi,
)
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.tool import ToolChoice as InspectChoice
from inspect_ai.tool import ToolFunction, ToolInfo
from msgspec.structs import replace

from ..app.async_model import AsyncModel, make_async_client
from ..app.endpoint import DEFAULT_URL, make_core, make_settings
from ..errors import BotError, ContextTooLong
from ..types.events import Completed, Notice
from ..types.messages import (
    Block,
    Message,
    Named,
    Reasoning,
    RequestedCall,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)

STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "repetition": "stop",
}
SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "seed", "presence_penalty", "frequency_penalty")


@modelapi(name="vllm-bot")
class VllmBot(ModelAPI):  # type: ignore[misc]  # unknown where the extra is not installed
    """`path`: of CALL_PATHS; "": the first that the server takes. `values`: keys of the section `vllm`."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 - as in ModelAPI
        path: str = "",
        **values: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, ["VLLM_API_KEY"], config)
        if path:
            values["paths"] = [path]
        self._settings = make_settings(base_url or DEFAULT_URL, api_key=api_key or "", **values)

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: InspectChoice, config: GenerateConfig
    ) -> ModelOutput:
        """One turn. Raises BotError."""
        sampling = {name: value for name in SAMPLING if (value := getattr(config, name)) is not None}
        if config.stop_seqs:
            sampling["stop"] = tuple(config.stop_seqs)
        if config.reasoning_effort:
            sampling["reasoning_effort"] = config.reasoning_effort
        settings = replace(self._settings, vllm=replace(self._settings.vllm, **sampling))
        core = make_core(settings, self.model_name, is_name_fixed=True)
        notices: list[str] = []
        async with AsyncModel(make_async_client(settings), core) as model:
            turn = model.respond(
                _convert_messages(input), list(map(_convert_tool, tools)), _convert_choice(tool_choice)
            )
            try:
                async for event in turn:
                    if isinstance(event, Notice):
                        notices.append(event.text)
                    elif isinstance(event, Completed):
                        return _make_output(event.response, self.model_name, notices)
            except ContextTooLong as error:
                return ModelOutput.from_content(self.model_name, str(error), "model_length")
        raise AssertionError("a turn ends with Completed")


def _convert_messages(given: Sequence[ChatMessage]) -> list[Message]:
    """Raises BotError for what would be lost: an image of a user."""
    messages: list[Message] = []
    for each in given:
        message = _convert_message(each)
        last = messages[-1] if messages else None
        if isinstance(message, ToolResults) and isinstance(last, ToolResults):
            messages[-1] = ToolResults((*last.results, *message.results))
        else:
            messages.append(message)
    return messages


def _convert_message(given: ChatMessage) -> Message:
    if isinstance(given, ChatMessageSystem):
        return SystemMessage(given.text)
    if isinstance(given, ChatMessageAssistant):
        calls = [ToolCall(call.id, call.function, call.arguments) for call in given.tool_calls or ()]
        return Response((*_convert_content(given.content), *calls))
    if isinstance(given, ChatMessageTool):
        return ToolResults((_convert_result(given),))
    parts: Sequence[Content] = () if isinstance(given.content, str) else given.content
    if kinds := sorted({part.type for part in parts if not isinstance(part, ContentText)}):
        raise BotError(f"A message holds {', '.join(kinds)}: this provider sends text only.")
    return UserMessage(given.text)


def _convert_result(given: ChatMessageTool) -> ToolResult:
    call_id, name = given.tool_call_id or "", given.function or ""
    if given.error:
        return ToolResult(call_id, name, "error", given.error.message)
    return ToolResult(call_id, name, "text", given.text)


def _convert_content(content: str | Sequence[Content]) -> Iterable[Block]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    blocks: list[Block] = []
    for each in content:
        if isinstance(each, ContentReasoning):
            blocks.append(Reasoning(each.reasoning))
        elif isinstance(each, ContentText) and each.text:
            blocks.append(Text(each.text))
    return blocks


def _convert_tool(tool: ToolInfo) -> ToolDefinition:
    return ToolDefinition(tool.name, tool.description, tool.parameters.model_dump(exclude_none=True))


def _convert_choice(choice: InspectChoice) -> ToolChoice:
    if isinstance(choice, ToolFunction):
        return Named(choice.name)
    return "required" if choice == "any" else choice


def _make_output(response: Response, model: str, notices: Sequence[str]) -> ModelOutput:
    content: list[Content] = []
    for block in response.content:
        if isinstance(block, Text):
            content.append(ContentText(text=block.text))
        elif isinstance(block, Reasoning):
            content.append(ContentReasoning(reasoning=block.text))
    calls = [_make_call(call) for call in response.requested_calls]
    message = ChatMessageAssistant(content=content, tool_calls=calls or None, model=model, source="generate")
    usage = response.usage
    counts = ModelUsage()
    if usage:
        total = usage.input_tokens + usage.output_tokens
        counts = ModelUsage(
            input_tokens=usage.input_tokens - usage.cached_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=total,
            input_tokens_cache_read=usage.cached_tokens,
        )
    metadata = {
        "origins": [call.origin for call in response.requested_calls],
        "repaired": [list(call.repaired) for call in response.calls],
        "notices": list(notices),
    }
    reason = STOP_REASONS.get(response.stop_reason, "unknown")
    choice = ChatCompletionChoice(message=message, stop_reason=reason)
    return ModelOutput(model=model, choices=[choice], usage=counts, metadata=metadata)


def _make_call(call: RequestedCall) -> InspectCall:
    """One that cannot be read is told to the model by inspect-ai."""
    if isinstance(call, ToolCall):
        return InspectCall(id=call.id, function=call.name, arguments=dict(call.arguments))
    return InspectCall(id=call.id, function=call.name, arguments={}, parse_error=call.reason)
