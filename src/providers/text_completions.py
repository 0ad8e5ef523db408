"""A chat completion asked for as the text behind a prompt, on llama.cpp's server: no parser reads the answer. No I/O.

The prompt is what /apply-template makes of the conversation and its tools. The request goes to /v1/completions with the
settings of the chat completion, and its answer is turned into one, chunk by chunk or whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .wire_json import as_dicts

# Of a chat completion alone: the prompt holds them, or there is nothing that they would be about.
_CHAT_FIELDS = frozenset(
    (
        "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "chat_template",
        "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "reasoning_effort",
        "reasoning_format", "return_token_ids", "skip_special_tokens", "structured_outputs", "logprobs",
        "top_logprobs", "n",
    )
)  # fmt: skip


def make_body(chat: Mapping[str, Any], prompt: str, markers: Sequence[str]) -> dict[str, Any]:
    """The request for the text behind `prompt`. `markers`: to be kept in it where they are tokens of their own."""
    body = {name: value for name, value in chat.items() if name not in _CHAT_FIELDS}
    if (limit := body.pop("max_completion_tokens", None)) is not None:
        body.setdefault("max_tokens", limit)
    return {**body, "prompt": prompt, "preserved_tokens": list(markers)}


def convert_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer as a chat completion. Anything else, such as an error, stays as it is."""
    if not any("text" in choice for choice in as_dicts(answer.get("choices"))):
        return answer
    choices = [_convert(choice, {"role": "assistant"}, "message") for choice in as_dicts(answer["choices"])]
    return {**answer, "object": "chat.completion", "choices": choices}


def convert_chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    """As convert_answer, for a chunk of a stream."""
    if not any("text" in choice for choice in as_dicts(chunk.get("choices"))):
        return chunk
    choices = [_convert(choice, {}, "delta") for choice in as_dicts(chunk["choices"])]
    return {**chunk, "object": "chat.completion.chunk", "choices": choices}


def _convert(choice: dict[str, Any], shell: dict[str, Any], name: str) -> dict[str, Any]:
    text = choice.get("text")
    rest = {key: value for key, value in choice.items() if key not in ("text", "logprobs")}
    message = {**shell, "content": text} if text or shell else {}
    return {**rest, name: message}
