"""What a server answers besides chat requests: its models, the tokens of a prompt, the text of tokens.

Every server has a list of models; what only vLLM has is None where it is missing, and the conversation goes on without
it. Answers that hold while the server runs are cached, but not a failed connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urljoin

from ..errors import BotError, ClientError, ServerError
from ..providers import server_errors, vllm
from ..providers.base import ChatRequest, Codec
from ..transport import Client, HttpReply
from ..types.messages import Response

T = TypeVar("T")

ASIDE_TIMEOUT_S = 10.0  # for questions whose answer is optional
# Where a list of models may be, seen from an address that is not quite right.
NEARBY_PATHS = ("v1", "..", "../..", "../v1")
_NOT_FOUND = 404
_UNAVAILABLE = 503  # of /health, while the server cannot serve


class Server:
    """`is_vllm`: it is vLLM, and not another server with the same API."""

    def __init__(self, client: Client, codec: Codec, *, is_vllm: bool) -> None:
        self._client = client
        self._codec = codec
        self.is_vllm = is_vllm
        self._lengths: dict[str, int] | None = None
        self._version: str | None = None

    def list_models(self) -> list[str]:
        """The names of its models. Raises ClientError, ServerError, WireError."""
        try:
            return self._get("GET", "models", None, self._codec.read_models)
        except ServerError as error:
            self.hint_base_url(error)
            raise

    def context_length(self, model: str) -> int | None:
        """In tokens."""
        return self.context_lengths().get(model)

    def context_lengths(self) -> dict[str, int]:
        """In tokens, of the models for which the server tells it."""
        if self._lengths is None:
            self._lengths = self._get_cached("models", vllm.read_context_lengths, dict[str, int]())
        return self._lengths or {}

    def version(self) -> str:
        """Empty if it does not say."""
        if self._version is None:
            self._version = self._get_cached("/version", vllm.read_version, "")
        return self._version or ""

    def check_health(self) -> bool | None:
        """Whether it can serve; None if it does not say."""
        try:
            return self._get("GET", "/health", None, lambda _: True, within=ASIDE_TIMEOUT_S)
        except BotError as error:
            return False if isinstance(error, ServerError) and error.status == _UNAVAILABLE else None

    def hint_base_url(self, refusal: ServerError) -> None:
        """If the address is not quite right, add a hint with the one that has a list of models."""
        if refusal.status != _NOT_FOUND:
            return
        base = self._client.base_url
        near = {urljoin(f"{base}/", step).rstrip("/"): step for step in NEARBY_PATHS}
        for url, step in near.items():
            if url != base and self._try_get("GET", f"{step}/models", None, self._codec.read_models) is not None:
                refusal.hint = f"There is a server at {url}: set vllm.base_url to that."
                return

    def try_list_models(self) -> list[str]:
        """As list_models; empty if that fails."""
        return self._try_get("GET", "models", None, self._codec.read_models) or []

    def tokenize_prompt(self, request: ChatRequest) -> vllm.TokenizedPrompt | None:
        """The tokens of the request's prompt."""
        body = self._codec.encode_prompt(request) if self.is_vllm else None
        return self._try_get("POST", "/tokenize", body, vllm.read_prompt) if body else None

    def count_text_tokens(self, model: str, text: str) -> int | None:
        """How many tokens a text has."""
        body = vllm.encode_tokenize(model, text)
        prompt = self._try_get("POST", "/tokenize", body, vllm.read_prompt) if self.is_vllm else None
        return len(prompt.tokens) if prompt else None

    def detokenize(self, model: str, tokens: Sequence[int]) -> str | None:
        body = vllm.encode_detokenize(model, tokens)
        return self._try_get("POST", "/detokenize", body, vllm.read_detokenized) if self.is_vllm else None

    def complete_raw(self, request: ChatRequest) -> Response | None:
        """The model's answer to the request's prompt without the server's parser: all of it is text."""
        if not (prompt := self.tokenize_prompt(request)):
            return None
        return self._try_get(
            "POST", "completions", vllm.encode_completion(request, prompt), vllm.read_completion, within=None
        )

    def _get_cached(self, path: str, read: Callable[[bytes], T], nothing: T) -> T | None:
        """`nothing` if the server has no such thing; None if it could not be reached."""
        if not self.is_vllm:
            return nothing
        try:
            return self._get("GET", path, None, read, within=ASIDE_TIMEOUT_S)
        except ClientError:
            return None
        except BotError:
            return nothing

    def _try_get(
        self,
        method: str,
        path: str,
        body: bytes | None,
        read: Callable[[bytes], T],
        within: float | None = ASIDE_TIMEOUT_S,
    ) -> T | None:
        try:
            return self._get(method, path, body, read, within)
        except BotError:
            return None

    def _get(
        self, method: str, path: str, body: bytes | None, read: Callable[[bytes], T], within: float | None = None
    ) -> T:
        with self._client.open(method, path, body, within=within) as reply:
            if reply.status != 200:
                raise read_refusal(reply)
            return read(reply.read())


def read_refusal(reply: HttpReply) -> ServerError:
    """The error for an answer with a status other than 200."""
    error = server_errors.read_refusal(reply.status, reply.read(), reply.location)
    error.retry_after = reply.retry_after
    return error
