"""What a server tells beside the chat: its models, how it would make a prompt, what tokens were.

Only the list of models is every server's; what only vLLM has is None where it is not to be had, and the
conversation goes on without it. What holds for as long as the server runs is asked once; where it could
not be reached, it is asked again the next time.
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

LONGEST_ASIDE = 10.0  # seconds that what can be done without may take
NEAR = ("v1", "..", "../..", "../v1")  # where a list of models may be, seen from an address that is not quite right
_NOT_FOUND = 404
_UNAVAILABLE = 503  # what /health says while the server cannot serve


class Server:
    """`is_vllm`: whether it is one, and not another that speaks the same wire."""

    def __init__(self, client: Client, codec: Codec, *, is_vllm: bool) -> None:
        self._client = client
        self._codec = codec
        self.is_vllm = is_vllm
        self._lengths: dict[str, int] | None = None
        self._version: str | None = None

    def models(self) -> list[str]:
        """The names of the models served. Raises ClientError, ServerError, WireError."""
        try:
            return self._get("GET", "models", None, self._codec.models)
        except ServerError as error:
            self.point_out(error)
            raise

    def context_length(self, model: str) -> int | None:
        """In tokens."""
        return self.context_lengths().get(model)

    def context_lengths(self) -> dict[str, int]:
        """Of the models whose length the server says, in tokens."""
        if self._lengths is None:
            self._lengths = self._lasting("models", vllm.context_lengths, dict[str, int]())
        return self._lengths or {}

    def version(self) -> str:
        """Empty where it does not say."""
        if self._version is None:
            self._version = self._lasting("/version", vllm.version_of, "")
        return self._version or ""

    def healthy(self) -> bool | None:
        """Whether it says that it can serve; None where it does not say."""
        try:
            return self._get("GET", "/health", None, lambda _: True, within=LONGEST_ASIDE)
        except BotError as error:
            return False if isinstance(error, ServerError) and error.status == _UNAVAILABLE else None

    def point_out(self, refusal: ServerError) -> None:
        """Where the address is not quite the server's, name the one that has a list of models."""
        if refusal.status != _NOT_FOUND:
            return
        base = self._client.base_url
        near = {urljoin(f"{base}/", step).rstrip("/"): step for step in NEAR}
        for url, step in near.items():
            if url != base and self._softly("GET", f"{step}/models", None, self._codec.models) is not None:
                refusal.hint = f"There is a server at {url}: set vllm.base_url to that."
                return

    def served(self) -> list[str]:
        """As `models`; empty where they are not to be had."""
        return self._softly("GET", "models", None, self._codec.models) or []

    def prompt(self, request: ChatRequest) -> vllm.Prompt | None:
        """The tokens that the request's prompt has, exactly."""
        body = self._codec.encode_prompt(request) if self.is_vllm else None
        return self._softly("POST", "/tokenize", body, vllm.prompt_of) if body else None

    def size(self, model: str, text: str) -> int | None:
        """How many tokens a text has."""
        body = vllm.tokenize(model, text)
        prompt = self._softly("POST", "/tokenize", body, vllm.prompt_of) if self.is_vllm else None
        return len(prompt.tokens) if prompt else None

    def text(self, model: str, tokens: Sequence[int]) -> str | None:
        body = vllm.detokenize(model, tokens)
        return self._softly("POST", "/detokenize", body, vllm.text_of) if self.is_vllm else None

    def completion(self, request: ChatRequest) -> Response | None:
        """What the model says to the request's prompt with no parser of the server's in between; all of it is text."""
        if not (prompt := self.prompt(request)):
            return None
        return self._softly("POST", "completions", vllm.completion(request, prompt), vllm.completed, within=None)

    def _lasting(self, path: str, read: Callable[[bytes], T], nothing: T) -> T | None:
        """`nothing` where the server has no such thing; None where it could not be reached just now."""
        if not self.is_vllm:
            return nothing
        try:
            return self._get("GET", path, None, read, within=LONGEST_ASIDE)
        except ClientError:
            return None
        except BotError:
            return nothing

    def _softly(
        self,
        method: str,
        path: str,
        body: bytes | None,
        read: Callable[[bytes], T],
        within: float | None = LONGEST_ASIDE,
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
                raise refusal(reply)
            return read(reply.read())


def refusal(reply: HttpReply) -> ServerError:
    """What an answer with a status other than 200 means."""
    error = server_errors.refusal(reply.status, reply.read(), reply.location)
    error.retry_after = reply.retry_after
    return error
