"""What vLLM serves besides the OpenAI interface: making requests and reading answers. Pure. Facts: vLLM 0.32.

/tokenize      messages and tools -> the exact prompt's length and tokens (serve/tokenize/serving.py)
/detokenize    tokens -> the text they were
/v1/completions   a prompt as tokens -> what the model says, as text and unparsed (entrypoints/openai/completion)
/version
structured_outputs.structural_tag: free text until a trigger, then a grammar (sampling_params.py, xgrammar)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import WireError
from ..types.messages import JSON, Response, Text, ToolDefinition, Usage
from .base import ChatRequest
from .values import count, load, mapping, objects, text

TRIGGER = "TOOL_CALL:"
# With unlimited blanks in the grammar, a weak model may write nothing else.
MAX_BLANKS = 16


class Prompt(NamedTuple):
    """A prompt as made by the server's template and tokenizer."""

    tokens: list[int]
    max_model_len: int


def prompt_of(body: bytes) -> Prompt:
    """The answer of /tokenize. Raises WireError."""
    value = _object(body)
    tokens, limit = value.get("tokens"), value.get("max_model_len")
    if not isinstance(tokens, list) or not isinstance(limit, int):
        raise WireError("The server's answer to /tokenize is not vLLM's.")
    return Prompt(tokens, limit)


def tokenize(model: str, text: str) -> bytes:
    return json.dumps({"model": model, "prompt": text, "add_special_tokens": False}).encode()


def detokenize(model: str, tokens: Sequence[int]) -> bytes:
    return json.dumps({"model": model, "tokens": list(tokens)}).encode()


def completion(request: ChatRequest, prompt: Prompt) -> bytes:
    """The body of /v1/completions for a chat's prompt. max_tokens is always set, as the default is 16."""
    fields: dict[str, JSON] = {
        "model": request.model,
        "prompt": list(prompt.tokens),
        "max_tokens": request.max_tokens or max(prompt.max_model_len - len(prompt.tokens) - 1, 1),
        "skip_special_tokens": False,  # in many formats the markers are special tokens
    }
    if request.temperature is not None:
        fields["temperature"] = request.temperature
    return json.dumps(fields).encode()


def completed(body: bytes) -> Response:
    """The answer of /v1/completions: its text alone. Raises WireError."""
    value = _object(body)
    choice: dict[str, Any] = next(iter(objects(value.get("choices"))), {})
    if not isinstance(choice.get("text"), str):
        raise WireError("The server's answer to /v1/completions is not vLLM's.")
    usage = mapping(value.get("usage"))
    return Response(
        (Text(choice["text"]),),
        "max_tokens" if choice.get("finish_reason") == "length" else "end_turn",
        Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))),
        text(value.get("model")),
    )


def text_of(body: bytes) -> str:
    """The answer of /detokenize. Raises WireError."""
    text = _object(body).get("prompt")
    if not isinstance(text, str):
        raise WireError("The server's answer to /detokenize is not vLLM's.")
    return text


def constrained(tools: Sequence[ToolDefinition]) -> dict[str, JSON]:
    """structured_outputs that allow any text, but after TOOL_CALL: only a call of an offered tool."""
    calls: list[JSON] = [_call_schema(tool) for tool in tools]
    body: dict[str, JSON] = {
        "type": "json_schema",
        "json_schema": {"anyOf": calls},
        "max_whitespace_cnt": MAX_BLANKS,
    }
    tag: dict[str, JSON] = {"begin": f"{TRIGGER} ", "content": body, "end": ""}
    structure = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [TRIGGER], "tags": [tag]}}
    return {"structural_tag": json.dumps(structure)}


def _call_schema(tool: ToolDefinition) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "args": dict(tool.parameters)},
        "required": ["name", "args"],
        "additionalProperties": False,
    }


def version_of(body: bytes) -> str:
    """The answer of /version. Raises WireError."""
    return text(_object(body).get("version"))


def context_lengths(body: bytes) -> dict[str, int]:
    """The models in the answer of /v1/models, each with its context's length in tokens. Raises WireError."""
    models = [model for model in objects(_object(body).get("data")) if isinstance(model.get("max_model_len"), int)]
    return {text(model.get("id")): model["max_model_len"] for model in models}


def _object(body: bytes) -> dict[str, Any]:
    value = load(body)
    if not isinstance(value, dict):
        raise WireError("The server's answer is not a JSON object.")
    return value
