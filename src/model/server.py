"""What a server tells beside the chat: its models, how it would make a prompt, what tokens were.

Only the list of models is every server's; what only vLLM has is None where it is not to be had, and the
conversation goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..client import Client, HttpReply
from ..errors import BotError, ServerError
from ..wire import vllm
from ..wire.codec import ChatRequest, Codec
from ..wire.openai import OpenAICodec

T = TypeVar("T")

LONGEST_ASIDE = 10.0  # seconds that what can be done without may take


class Server:
    """`is_vllm`: whether it is one, and not another that speaks the same wire."""

    def __init__(self, client: Client, codec: Codec, *, is_vllm: bool) -> None:
        self._client = client
        self._codec = codec
        self._vllm_codec = codec if is_vllm and isinstance(codec, OpenAICodec) else None

    def models(self) -> list[str]:
        """The names of the models served. Raises ClientError, ServerError, WireError."""
        return self._get("GET", "models", None, self._codec.models)

    def context_length(self, model: str) -> int | None:
        """In tokens."""
        return self.context_lengths().get(model)

    def context_lengths(self) -> dict[str, int]:
        """Of the models whose length the server says, in tokens."""
        return (self._softly("GET", "models", None, vllm.context_lengths) if self._vllm_codec else None) or {}

    def version(self) -> str:
        """Empty where it does not say."""
        return (self._softly("GET", "/version", None, vllm.version_of) if self._vllm_codec else None) or ""

    def prompt(self, request: ChatRequest) -> vllm.Prompt | None:
        """The tokens that the request's prompt has, exactly."""
        codec = self._vllm_codec
        return self._softly("POST", "/tokenize", codec.prompt(request), vllm.prompt_of) if codec else None

    def text(self, model: str, tokens: Sequence[int]) -> str | None:
        body = vllm.detokenize(model, tokens)
        return self._softly("POST", "/detokenize", body, vllm.text_of) if self._vllm_codec else None

    def _softly(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], T]) -> T | None:
        try:
            return self._get(method, path, body, read, within=LONGEST_ASIDE)
        except BotError:
            return None

    def _get(
        self, method: str, path: str, body: bytes | None, read: Callable[[bytes], T], within: float | None = None
    ) -> T:
        with self._client.open(method, path, body, within=within) as reply:
            if reply.status != 200:
                raise refusal(self._codec, reply)
            return read(reply.read())


def refusal(codec: Codec, reply: HttpReply) -> ServerError:
    """What an answer with another status than 200 means."""
    error = codec.refusal(reply.status, reply.read(), reply.location)
    error.retry_after = reply.retry_after
    return error
