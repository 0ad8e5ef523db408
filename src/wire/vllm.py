"""What vLLM serves beside the OpenAI interface. Pure: requests to make, answers read. Facts: vLLM 0.32.

/tokenize      messages and tools -> the exact prompt's length and tokens (serve/tokenize/serving.py)
/detokenize    tokens -> the text they were
/version
structured_outputs.structural_tag: free text until a trigger, then a grammar (sampling_params.py, xgrammar)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import WireError
from ..messages import JSON, ToolDefinition

TRIGGER = "TOOL_CALL:"
# A grammar that allows blanks without end lets a weak model write nothing else.
MAX_BLANKS = 16


class Prompt(NamedTuple):
    """A conversation as the server's template and tokenizer make it."""

    tokens: list[int]
    max_model_len: int


def prompt_of(body: bytes) -> Prompt:
    """The answer of /tokenize. Raises WireError."""
    value = _object(body)
    tokens, limit = value.get("tokens"), value.get("max_model_len")
    if not isinstance(tokens, list) or not isinstance(limit, int):
        raise WireError("The server's answer to /tokenize is not vLLM's.")
    return Prompt(tokens, limit)


def detokenize(model: str, tokens: Sequence[int]) -> bytes:
    return json.dumps({"model": model, "tokens": list(tokens)}).encode()


def text_of(body: bytes) -> str:
    """The answer of /detokenize. Raises WireError."""
    text = _object(body).get("prompt")
    if not isinstance(text, str):
        raise WireError("The server's answer to /detokenize is not vLLM's.")
    return text


def constrained(tools: Sequence[ToolDefinition]) -> dict[str, JSON]:
    """structured_outputs that let a model say anything, and after TOOL_CALL: nothing but a call of an offered tool."""
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


# What a request that is too long is told, by vLLM 0.32 and before (serve/utils/api_utils.py, renderers/params.py).
_TOO_MANY_IN_PROMPT = re.compile(r"maximum context length is (\d+) tokens.*?contains at least (\d+) input tokens", re.S)
_TOO_MANY_IN_ALL = re.compile(r"maximum context length is (\d+) tokens.*?requested (\d+) tokens", re.S)
_TOO_MANY_CHARACTERS = re.compile(r"contains (\d+) characters \(more than (\d+) characters.*?for (\d+) input tokens", re.S)


def excess_tokens(message: str) -> int:
    """By how many tokens a request was too long, as far as the refusal's message says; else 0."""
    if match := _TOO_MANY_IN_PROMPT.search(message) or _TOO_MANY_IN_ALL.search(message):
        limit, came = map(int, match.groups())
        return max(came - limit, 0)
    if match := _TOO_MANY_CHARACTERS.search(message):
        characters, most, tokens = map(int, match.groups())
        return (characters - most) * tokens // max(most, 1)
    return 0


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError as error:
        raise WireError("The server's answer is no JSON.") from error
    if not isinstance(value, dict):
        raise WireError("The server's answer is no JSON object.")
    return value
