"""What still fits into the model's context. Where an upper bound is not enough, the server's tokenizer counts.

A token has at least one byte, and each answer tells the size of its prompt, so most turns need no counting.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ASK_FOR_LESS, ContextTooLong
from ..providers.base import ChatRequest
from ..types.effects import Aside
from ..types.messages import Message, Usage
from .server import ServerApi

TEMPLATE_OVERHEAD_TOKENS = 2000  # that a chat template may add
MIN_ANSWER_TOKENS = 256  # that an answer needs
MARGIN_TOKENS = 1  # some servers count one more than they say


class _Counted(Struct, frozen=True):
    """A prompt whose tokens the server has counted; `size` is in bytes."""

    messages: int
    last: Message
    size: int
    tokens: int


class TokenBudget:
    """`size` gives the length of a request's body, in bytes."""

    def __init__(self, server: ServerApi, size: Callable[[ChatRequest], int]) -> None:
        self._server = server
        self._size = size
        self._counted: _Counted | None = None

    def fit_max_tokens(self, request: ChatRequest) -> Aside[ChatRequest]:
        """The request, with max_tokens lowered to what the context leaves. Raises ContextTooLong if that is nothing."""
        limit = yield from self._server.context_length(request.model)
        wanted = request.max_tokens or MIN_ANSWER_TOKENS
        if limit is None or self._estimate_tokens(request) + wanted + MARGIN_TOKENS <= limit:
            return request
        tokens = yield from self.count_tokens(request)
        if tokens is None:
            return request
        room = limit - tokens - MARGIN_TOKENS
        least = min(request.max_tokens or MIN_ANSWER_TOKENS, MIN_ANSWER_TOKENS, limit // 8)
        if room < least:
            raise _build_too_long(tokens, limit, least - room)
        if not request.max_tokens:
            return request
        return replace(request, max_tokens=min(request.max_tokens, room))

    def measure_fill(self, request: ChatRequest, exact_from: float) -> Aside[float | None]:
        """See ModelState.measure_fill."""
        limit = yield from self._server.context_length(request.model)
        if not limit:
            return None
        bound = self._estimate_tokens(request) / limit
        if bound < exact_from:
            return bound
        tokens = yield from self.count_tokens(request)
        return None if tokens is None else tokens / limit

    def count_tokens(self, request: ChatRequest) -> Aside[int | None]:
        """Of its prompt, exactly; None if the server does not count."""
        prompt = yield from self._server.tokenize_prompt(request)
        return len(prompt.tokens) if prompt else None

    def record_usage(self, request: ChatRequest, size: int, usage: Usage | None) -> None:
        """Remember what the server counted for this request, whose body has `size` bytes."""
        if usage and request.messages:
            self._counted = _Counted(len(request.messages), request.messages[-1], size, usage.input_tokens)

    def limit_output(self, request: ChatRequest, usage: Usage | None) -> Aside[int | None]:
        """The most tokens that its answer could have; None if not known."""
        limit = yield from self._server.context_length(request.model)
        return request.max_tokens or (limit - usage.input_tokens if limit and usage else None)

    def _estimate_tokens(self, request: ChatRequest) -> int:
        size, counted, messages = self._size(request), self._counted, request.messages
        if counted and len(messages) >= counted.messages and messages[counted.messages - 1] is counted.last:
            return counted.tokens + size - counted.size
        return size + TEMPLATE_OVERHEAD_TOKENS


def _build_too_long(tokens: int, limit: int, excess: int) -> ContextTooLong:
    error = ContextTooLong(
        f"The conversation has {tokens:,} tokens and the model's context {limit:,}: no room is left for an answer.",
        ASK_FOR_LESS,
    )
    error.excess = excess
    return error
