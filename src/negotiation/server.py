"""What a server answers besides chat requests: its models, the tokens of a prompt, the text of tokens.

Each method is a generator of effects, which a driver runs. Every server has a list of models; what only vLLM has is
None where it is missing, and the conversation goes on without it. What a server tells of itself is kept for all
models of the program, but not a failed connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar
from urllib.parse import urljoin

from msgspec.structs import asdict, replace

from ..errors import Advice, ClientError, RequestFailed, ServerError, TokensUnsupported, Unauthorized
from ..providers import server_errors, vllm
from ..providers.base import ChatRequest, Codec, HttpRequest
from ..providers.vllm_tokens import RENDER_PATH, RenderedPrompt, read_rendered
from ..providers.wire_json import encode_json, load_json
from ..types.effects import READ, Aside, Fetch, ReplyHead
from ..types.events import Completed
from ..types.messages import JSON, Response, Usage, UserMessage
from .facts import FactStore, ServerInfo

WRONG_KEY = Advice(
    "The server does not accept the key that was sent: check VLLM_API_KEY and vllm.api_key.",
    "The server does not accept the key that was sent: check `api_key`.",
)
T = TypeVar("T")

OK = 200
MAX_BODY_BYTES = 256 * 1024 * 1024
MAX_REFUSAL_BYTES = 16 * 1024 * 1024
ASIDE_TIMEOUT_S = 10.0  # for questions whose answer is optional
# Where a list of models may be, seen from an address that is not quite right.
NEARBY_PATHS = ("v1", "..", "../..", "../v1")
MAX_TOKEN_DIFFERENCE = 64  # of one prompt, counted twice by one model
NO_LIST_HINT = Advice(
    "It lists no models: choose one with --model or vllm.model, or check vllm.base_url, which usually ends in /v1.",
    "It lists no models: choose one with `model`, or check `base_url`, which usually ends in /v1.",
)
_NOT_FOUND = 404
_NO_ENDPOINT = frozenset({400, 403, _NOT_FOUND, 405, 422, 501})  # vLLM without --enable-scale-out; others; a proxy
_UNAVAILABLE = 503  # of /health, while the server cannot serve


class ServerApi:
    """The server at `address`. `is_vllm`: it is vLLM, and not another server with the same API."""

    def __init__(self, codec: Codec, address: str, facts: FactStore, *, is_vllm: bool) -> None:
        self._codec = codec
        self._address = address
        self._facts = facts
        self.is_vllm = is_vllm
        self._has_tokenize = True  # unless it was seen otherwise

    def identify(self, model: str) -> str:
        """The name of a model on this server, for what only that model may read. It tells no address."""
        return sha256(f"{self._address}\n{model}".encode()).hexdigest()[:16]

    @property
    def info(self) -> ServerInfo:
        """What it told before."""
        return self._facts.infos.get(self._address)

    def forget(self) -> None:
        """It may be another server by now."""
        self._facts.infos.forget(self._address)
        self._facts.clean_ends.forget(self._address)

    def is_clean_end(self, model: str, tokens: Sequence[int]) -> bool:
        """Whether an answer of the model that ended in these tokens was seen to lack nothing, its values included."""
        return (model, tuple(tokens)) in self._facts.clean_ends.get(self._address)

    def note_clean_end(self, model: str, tokens: Sequence[int]) -> None:
        self._facts.clean_ends.update(self._address, lambda known: known | {(model, tuple(tokens))})

    def list_models(self) -> Aside[list[str]]:
        """The names of its models, asked for anew. Raises ClientError, ServerError, WireError."""
        try:
            return (yield from self._fetch_models())
        except ServerError as error:
            if not (yield from self.hint_base_url(error)) and error.status == _NOT_FOUND:
                error.hint = NO_LIST_HINT
            raise

    def find_models(self) -> Aside[list[str]]:
        """As list_models, but asked for only if they are not known, and by one conversation for all."""
        if self.info.models is None:
            yield from self._facts.ask_once(("models", self._address), self.list_models)
        if self.info.models is None:
            yield from self.list_models()
        return list(self.info.models or ())

    def try_list_models(self) -> Aside[list[str]]:
        """As list_models; empty if that fails."""
        try:
            return (yield from self._fetch_models())
        except RequestFailed:
            return []

    def context_length(self, model: str) -> Aside[int | None]:
        """In tokens."""
        return (yield from self.context_lengths()).get(model)

    def context_lengths(self) -> Aside[dict[str, int]]:
        """In tokens, of the models for which the server tells it."""
        if self.is_vllm and self.info.context_lengths is None:
            try:
                yield from self._facts.ask_once(("models", self._address), lambda: self._fetch_models(ASIDE_TIMEOUT_S))
            except ClientError:
                return {}
            except RequestFailed:
                self._remember(lambda info: replace(info, context_lengths={}))
        return dict(self.info.context_lengths or {})

    def parameter_count(self, model: str) -> Aside[int | None]:
        """How many parameters the model has; None if the server does not tell."""
        yield from self.context_lengths()
        return self.info.parameter_counts.get(model)

    def owner(self) -> Aside[str]:
        """Of its models, as its list says; empty if it does not."""
        yield from self.context_lengths()
        return self.info.owner

    def version(self) -> Aside[str]:
        """Empty if it does not say."""
        if self.is_vllm and self.info.version is None:
            try:
                version = yield from self._fetch("GET", "/version", None, vllm.read_version, ASIDE_TIMEOUT_S)
            except ClientError:
                return ""
            except RequestFailed:
                version = ""
            self._remember(lambda info: replace(info, version=version))
        return self.info.version or ""

    def check_health(self) -> Aside[bool | None]:
        """Whether it can serve; None if it does not say."""
        try:
            return (yield from self._fetch("GET", "/health", None, lambda _: True, ASIDE_TIMEOUT_S))
        except RequestFailed as error:
            return False if isinstance(error, ServerError) and error.status == _UNAVAILABLE else None

    def hint_base_url(self, refusal: ServerError) -> Aside[bool]:
        """If the address is not quite right, add a hint with the one that has a list of models. Returns whether."""
        if refusal.status != _NOT_FOUND:
            return False
        base = self._address
        near = {urljoin(f"{base}/", step).rstrip("/"): step for step in NEARBY_PATHS}
        for url, step in near.items():
            if url == base:
                continue
            if (yield from self._try_fetch("GET", f"{step}/models", None, server_errors.read_model_names)) is not None:
                there = f"There is a server at {url}:"
                refusal.hint = Advice(f"{there} set vllm.base_url to that.", f"{there} pass that as `base_url`.")
                return True
        return False

    def tokenize_prompt(self, request: ChatRequest) -> Aside[vllm.TokenizedPrompt | None]:
        """The tokens of the request's prompt."""
        if not self.is_vllm:
            return None
        return (yield from self._tokenize(self._codec.encode_prompt(request)))

    def show_prompt(self, request: ChatRequest) -> Aside[str | None]:
        """The text of the request's prompt, by its tokens."""
        prompt = yield from self.tokenize_prompt(request)
        if prompt is None:
            return None
        return (yield from self.detokenize(request.model, prompt.tokens))

    def _tokenize(self, body: bytes | None) -> Aside[vllm.TokenizedPrompt | None]:
        """By vLLM's /tokenize, whatever API the server speaks: vLLM may be behind another one, too."""
        if not body or not self._has_tokenize:
            return None
        prompt = yield from self._try_fetch("POST", "/tokenize", body, vllm.read_prompt)
        self._has_tokenize = self.is_vllm or prompt is not None
        return prompt

    def find_prompt(self, request: ChatRequest, usage: Usage | None) -> Aside[vllm.TokenizedPrompt | None]:
        """The tokens of the prompt that the request had.

        None if `usage` says that the prompt was another one: /tokenize may answer for another model.
        """
        prompt = yield from self._tokenize(self._codec.encode_prompt(request))
        if not prompt or (usage and abs(usage.input_tokens - len(prompt.tokens)) > MAX_TOKEN_DIFFERENCE):
            return None
        return prompt

    def render_text(self, request: ChatRequest) -> Aside[str | None]:
        """The text of the request's prompt, as llama.cpp's server makes it."""
        if not self.is_vllm:
            return None
        return (yield from self.apply_template(self._codec.encode_prompt(request)))

    def apply_template(self, body: bytes | None) -> Aside[str | None]:
        """As render_text. `body`: what a codec's `encode_prompt` gives."""
        if not body:
            return None
        return (yield from self._try_fetch("POST", "/apply-template", body, vllm.read_rendered_text))

    def predict_token(self, request: ChatRequest) -> Aside[dict[str, float]]:
        """The most likely first tokens of the answer, with their log probabilities; empty if it does not tell."""
        wire = self._codec.encode(request)
        likely = yield from self._try_fetch("POST", wire.path, wire.body, vllm.read_likely_tokens, within=None)
        return likely or {}

    def count_text_tokens(self, model: str, text: str) -> Aside[int | None]:
        """How many tokens a text has, by vLLM's /tokenize."""
        prompt = yield from self._tokenize(vllm.encode_tokenize(model, text))
        return len(prompt.tokens) if prompt else None

    def count_by_prompts(self, model: str, text: str) -> Aside[int | None]:
        """How many tokens a text has, by what a chat that repeats it has more; None if the server does not count so."""
        if not self._codec.counts_output:
            return None
        sizes = []
        for prompt in (text, f"{text}\n{text}"):
            answer = yield from self.ask(ChatRequest(model, [UserMessage(prompt)], max_tokens=1, stream=False))
            if not answer or not answer.usage:
                return None
            sizes.append(answer.usage.input_tokens)
        return sizes[1] - sizes[0]

    def detokenize(
        self, model: str, tokens: Sequence[int], within: float | None = ASIDE_TIMEOUT_S
    ) -> Aside[str | None]:
        if not self.is_vllm:
            return None
        body = vllm.encode_detokenize(model, tokens)
        return (yield from self._try_fetch("POST", "/detokenize", body, vllm.read_detokenized, within))

    def complete_raw(self, request: ChatRequest, prompt: vllm.TokenizedPrompt) -> Aside[Response | None]:
        """The model's answer to the request's prompt without the server's parser: all of it is text."""
        body = vllm.encode_completion(request, prompt)
        return (yield from self._try_fetch("POST", "completions", body, vllm.read_completion, within=None))

    def complete_text(self, model: str, prompt: str, max_tokens: int, fields: dict[str, JSON]) -> Aside[str | None]:
        """What follows a text, by vLLM's /v1/completions; `fields`: more of the request."""
        body = encode_json({"model": model, "prompt": prompt, "max_tokens": max_tokens, **fields})
        answer = yield from self._try_fetch("POST", "completions", body, vllm.read_completion, within=None)
        return answer.text if answer else None

    def ask(self, request: ChatRequest) -> Aside[Response | None]:
        """The whole answer to a request beside the conversation; None if it is refused, or is none."""
        wire = self._codec.encode(request)
        try:
            reply = yield Fetch("POST", wire.path, wire.body)
            if not reply.head.is_ok:
                return None
            decoder = self._codec.make_decoder(reply.head.content_type)
            events = [*decoder.feed(reply.body), *decoder.close()]
        except RequestFailed:
            return None
        return next((event.response for event in events if isinstance(event, Completed)), None)

    def render(self, wire: HttpRequest) -> Aside[RenderedPrompt]:
        """The prompt of a chat request as tokens. Raises TokensUnsupported, and ServerError as for the request."""
        reply = yield Fetch("POST", RENDER_PATH, wire.body)
        if not reply.head.is_ok:
            raise as_tokens_refusal(read_refusal(reply.head, reply.body, load_json(wire.body)))
        return read_rendered(reply.body)

    def _fetch_models(self, within: float | None = None) -> Aside[list[str]]:
        """Fills what is known of the models."""
        body = yield from self._fetch("GET", "models", None, bytes, within)
        names = server_errors.read_model_names(body)
        facts = vllm.read_model_facts(body) if self.is_vllm else vllm.ModelFacts()
        self._remember(lambda info: replace(info, models=tuple(names), **asdict(facts)))
        return names

    def _remember(self, change: Callable[[ServerInfo], ServerInfo]) -> None:
        self._facts.infos.update(self._address, change)

    def _try_fetch(
        self,
        method: str,
        path: str,
        body: bytes | None,
        read: Callable[[bytes], T],
        within: float | None = ASIDE_TIMEOUT_S,
    ) -> Aside[T | None]:
        try:
            return (yield from self._fetch(method, path, body, read, within))
        except RequestFailed:
            return None

    def _fetch(
        self, method: str, path: str, body: bytes | None, read: Callable[[bytes], T], within: float | None = None
    ) -> Aside[T]:
        reply = yield Fetch(method, path, body, within)
        if not reply.head.is_ok:
            raise read_refusal(reply.head, reply.body)
        return read(reply.body)


def as_tokens_refusal(refusal: ServerError) -> ServerError:
    """The refusal, as TokensUnsupported where it says that there is no such endpoint."""
    if type(refusal) not in (ServerError, Unauthorized) or refusal.status not in _NO_ENDPOINT:
        return refusal
    return TokensUnsupported(refusal.message, refusal.hint, status=refusal.status, body=refusal.body)


def read_refusal(head: ReplyHead, body: bytes, sent: object = None) -> ServerError:
    """The error for an answer with a status other than 200. `sent`: the request's JSON, which the answer may quote."""
    error = server_errors.read_refusal(head.status, body, head.location)
    error.retry_after = head.retry_after
    error = server_errors.judge_own_words(error, sent)
    if isinstance(error, Unauthorized) and head.had_key:
        error.hint = WRONG_KEY
    return error


def read_piece() -> Aside[bytes | ClientError | None]:
    """The next bytes of an answer; None at its end, or the error that ended it."""
    try:
        piece: bytes | None = yield READ
    except ClientError as broken:
        return broken
    return piece


def read_body(limit: int = MAX_REFUSAL_BYTES) -> Aside[bytes]:
    """The body of the reply that is open, and no more than is read when `limit` bytes are there."""
    body = bytearray()
    while len(body) < limit and (chunk := (yield READ)) is not None:
        body += chunk
    return bytes(body)
