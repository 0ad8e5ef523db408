"""What still fits into the model's context, exactly: the server's tokenizer counts, where a bound does not settle it.

A token is at least a byte, and the last answer told the size of the prompt before, so most turns need no counting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ..errors import ContextTooLong
from ..providers.base import ChatRequest
from ..types.messages import Message, Usage
from .server import Server

TEMPLATE_OVERHEAD_TOKENS = 2000  # tokens that a chat template may add to what it is given
MIN_ANSWER_TOKENS = 256  # tokens that an answer needs at the least
MARGIN_TOKENS = 1  # some servers count one token more than they say


class _Counted(NamedTuple):
    """The size of a prompt that the server has counted: how many messages, the last of them, bytes, tokens."""

    messages: int
    last: Message
    size: int
    tokens: int


class TokenBudget:
    """`size` gives the bytes that a request's body has."""

    def __init__(self, server: Server, size: Callable[[ChatRequest], int]) -> None:
        self._server = server
        self._size = size
        self._counted: _Counted | None = None

    def fit_max_tokens(self, request: ChatRequest) -> ChatRequest:
        """The request, its answer cut to the room there is. Raises ContextTooLong where there is none."""
        limit = self._server.context_length(request.model)
        if (
            limit is None
            or self._estimate_tokens(request) + (request.max_tokens or MIN_ANSWER_TOKENS) + MARGIN_TOKENS <= limit
        ):
            return request
        tokens = self.count_tokens(request)
        if tokens is None:
            return request
        room = limit - tokens - MARGIN_TOKENS
        least = min(request.max_tokens or MIN_ANSWER_TOKENS, MIN_ANSWER_TOKENS, limit // 8)
        if room < least:
            raise _too_long(tokens, limit, least - room)
        return replace(request, max_tokens=min(request.max_tokens, room)) if request.max_tokens else request

    def measure_fill(self, request: ChatRequest, exact_from: float) -> float | None:
        """The share of the context that the prompt takes; below `exact_from` a bound will do. None: not known."""
        limit = self._server.context_length(request.model)
        if not limit:
            return None
        bound = self._estimate_tokens(request) / limit
        if bound < exact_from:
            return bound
        tokens = self.count_tokens(request)
        return None if tokens is None else tokens / limit

    def count_tokens(self, request: ChatRequest) -> int | None:
        """How many its prompt has, exactly; None where the server does not count."""
        prompt = self._server.tokenize_prompt(request)
        return len(prompt.tokens) if prompt else None

    def record_usage(self, request: ChatRequest, size: int, usage: Usage | None) -> None:
        """What the server counted for this request, whose body has `size` bytes."""
        if usage and request.messages:
            self._counted = _Counted(len(request.messages), request.messages[-1], size, usage.input_tokens)

    def limit_output(self, request: ChatRequest, usage: Usage | None) -> int | None:
        """The most tokens that its answer could have."""
        limit = self._server.context_length(request.model)
        return request.max_tokens or (limit - usage.input_tokens if limit and usage else None)

    def _estimate_tokens(self, request: ChatRequest) -> int:
        size, known = self._size(request), self._counted
        if known and len(request.messages) >= known.messages and request.messages[known.messages - 1] is known.last:
            return known.tokens + size - known.size
        return size + TEMPLATE_OVERHEAD_TOKENS


def _too_long(tokens: int, limit: int, excess: int) -> ContextTooLong:
    error = ContextTooLong(
        f"The conversation has {tokens:,} tokens and the model's context {limit:,}: no room is left for an answer.",
        "Use /compact or /new, or ask for less at once.",
    )
    error.excess = excess
    return error
