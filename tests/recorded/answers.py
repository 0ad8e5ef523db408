"""What servers answer: whole turns as vLLM, Anthropic and Gemini write them, streamed or not."""

from __future__ import annotations

import json
from typing import Any

from .program import JSON_TYPE, STREAM_TYPE, Answer, Answers, answer_json

USAGE = {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132}
CONTEXT = 200_000  # tokens


def make_call(name: str, arguments: Any, identifier: str = "call_1", index: int = 0) -> dict[str, Any]:
    """A native call; `arguments` as text are sent as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"index": index, "id": identifier, "type": "function", "function": {"name": name, "arguments": text}}


def stream_chat(
    text: str = "",
    *calls: dict[str, Any],
    finish: str = "",
    ids: list[int] | None = None,
    pieces: int = 7,
    thought: str = "",
) -> Answer:
    """A streamed chat completion, its text in pieces of so many characters."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning": thought}] if thought else []
    deltas += [{"content": text[at : at + pieces]} for at in range(0, len(text), pieces)]
    deltas += [{"tool_calls": [each]} for each in calls]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    reason = finish or ("tool_calls" if calls else "stop")
    choices.append({"index": 0, "delta": {}, "finish_reason": reason, **({"token_ids": ids} if ids else {})})
    chunks = [{"model": "tiny", "choices": [choice]} for choice in choices]
    chunks.append({"model": "tiny", "choices": [], "usage": USAGE})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return Answer(200, STREAM_TYPE, "".join([*lines, "data: [DONE]\n\n"]).encode())


def make_chat(text: str) -> Answer:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return answer_json(200, {"model": "tiny", "choices": choices, "usage": USAGE})


def answer_as_anthropic(text: str, *, stream: bool) -> Answer:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "tiny", "stop_reason": "end_turn"}
    usage = {"input_tokens": 120, "output_tokens": 12}
    if not stream:
        return answer_json(200, {**message, "content": [{"type": "text", "text": text}], "usage": usage})
    begin = {**message, "content": [], "stop_reason": None, "usage": usage}
    events = [
        {"type": "message_start", "message": begin},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 12}},
        {"type": "message_stop"},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return Answer(200, STREAM_TYPE, "".join(lines).encode())


def answer_as_gemini(text: str, *, stream: bool) -> Answer:
    candidate = {"index": 0, "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 120, "candidatesTokenCount": 12}
    chunk = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "tiny"}
    if not stream:
        return answer_json(200, chunk)
    return Answer(200, STREAM_TYPE, f"data: {json.dumps(chunk)}\n\n".encode())


def answer_as(provider: str, text: str, *, stream: bool = True) -> Answer:
    if provider == "anthropic":
        return answer_as_anthropic(text, stream=stream)
    if provider in ("gemini", "vertex"):
        return answer_as_gemini(text, stream=stream)
    return stream_chat(text) if stream else make_chat(text)


def refuse(status: int, message: str, provider: str = "vllm") -> Answer:
    error = {"message": message, "type": "BadRequestError", "code": status}
    return answer_json(status, {"type": "error", "error": error} if provider == "anthropic" else {"error": error})


def serve_vllm_asides(
    prompt_tokens: int = 120, *, context: int = CONTEXT, template_shows_tools: bool = False, text: str = ""
) -> Answers:
    """What vLLM serves beside the chat. `text`: what /detokenize gives; `template_shows_tools`: longer with tools.

    Its template shows thoughts.
    """

    def tokenize(body: Any) -> Answer:
        less = 80 if template_shows_tools and not body.get("tools") else 0
        thoughts = any(each.get("reasoning") for each in body.get("messages", ()))
        count = prompt_tokens - less + thoughts
        return answer_json(200, {"count": count, "max_model_len": context, "tokens": list(range(count))})

    asides: dict[str, Any] = {
        "/v1/models": answer_json(200, {"object": "list", "data": [{"id": "tiny", "max_model_len": context}]}),
        "/version": answer_json(200, {"version": "0.32.0"}),
        "/health": Answer(200, JSON_TYPE, b""),
        "/tokenize": tokenize,
    }
    if text:
        asides["/detokenize"] = answer_json(200, {"prompt": text})
    return asides
