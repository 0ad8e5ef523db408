"""A request that does not fit the model's context, in the words by which the clients of each API know it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...providers.server_errors import is_about_length
from ...providers.wire_json import as_dict, encode_json
from ...types.lazy_pattern import LazyPattern

CODE = "context_length_exceeded"  # OpenAI's
PROMPT_TOO_LONG = "prompt is too long"  # Anthropic's: their clients then summarize the conversation
# vLLM's words, and the fields of llama.cpp's server.
_NUMBERS = LazyPattern(r"maximum context length is (\d+) tokens.*?contains (?:at least )?(\d+) input tokens", re.DOTALL)
_OUTPUT = LazyPattern(r"requested (\d+) output tokens")


def rename_for_openai(body: bytes) -> bytes:
    """An error in OpenAI's shape, with OpenAI's code if it is about the length of the request."""
    try:
        value = as_dict(json.loads(body))
    except ValueError:
        return body
    error = as_dict(value.get("error"))
    if not is_about_length(str(error.get("message", ""))):
        return body
    return encode_json({**value, "error": {**error, "type": "invalid_request_error", "code": CODE}})


def word_for_messages(message: str, error: Mapping[str, Any]) -> str:
    """The message of an error as Anthropic's clients know it; itself if it is not about the length of the request.

    `error`: the fields that came with it.
    """
    if not is_about_length(message):
        return message
    limit, prompt = error.get("n_ctx"), error.get("n_prompt_tokens")
    if match := _NUMBERS.search(message):
        limit, prompt = match.groups()
    if not limit or not prompt:
        return f"{PROMPT_TOO_LONG}: {message}"
    if output := _OUTPUT.search(message):
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {output[1]} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return f"{PROMPT_TOO_LONG}: {prompt} tokens > {limit} maximum"
