"""The table of providers: for each its codec, and how the API key is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType

from msgspec import Struct

from ..types.messages import JSON
from .base import Codec
from .openai import OpenAICodec
from .vllm import fits_nothing, fits_openai_strict, fits_xgrammar

NewId = Callable[[], str]


class Provider(Struct, frozen=True):
    """`strict`: whether a tool with this schema may be sent as strict.

    `sampling`: what its API calls the settings of sampling; a dot leads into an object. `has_temperature`: whether
    requests can set that one, too.
    """

    codec: Callable[[NewId], Codec]
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = MappingProxyType({})  # sent with every request
    strict: Callable[[Mapping[str, JSON]], bool] = fits_nothing
    sampling: Mapping[str, str] = MappingProxyType({})
    has_temperature: bool = True


def _load_codec(module: str, name: str, new_id: NewId) -> Codec:
    """One that is loaded when it is first used: start-up is measured."""
    codec: Codec = getattr(import_module(module, __package__), name)(new_id)
    return codec


_ANTHROPIC_CODEC = partial(_load_codec, ".anthropic", "AnthropicCodec")
_GEMINI_CODEC = partial(_load_codec, ".gemini.codec", "GeminiCodec")
_COPILOT_CODEC = partial(_load_codec, ".copilot", "CopilotCodec")


_OPENAI = {
    name: name for name in ("top_p", "presence_penalty", "frequency_penalty", "seed", "stop", "reasoning_effort")
}
_VLLM = {**_OPENAI, **{name: name for name in ("top_k", "min_p", "repetition_penalty", "chat_template_kwargs")}}
_ANTHROPIC = {"top_p": "top_p", "top_k": "top_k", "stop": "stop_sequences"}
_GEMINI = {
    "top_p": "generationConfig.topP",
    "top_k": "generationConfig.topK",
    "presence_penalty": "generationConfig.presencePenalty",
    "frequency_penalty": "generationConfig.frequencyPenalty",
    "seed": "generationConfig.seed",
    "stop": "generationConfig.stopSequences",
}
_COPILOT = {"reasoning_effort": "reasoningEffort"}  # of session.create

PROVIDERS: Mapping[str, Provider] = {
    "vllm": Provider(OpenAICodec, strict=fits_xgrammar, sampling=_VLLM),
    # Its newer models refuse max_tokens.
    "openai": Provider(
        partial(OpenAICodec, max_tokens="max_completion_tokens"), strict=fits_openai_strict, sampling=_OPENAI
    ),
    "ollama": Provider(OpenAICodec, sampling=_OPENAI),
    # Its own SDK sends the key as a bearer token too, and vLLM's /v1/messages reads it nowhere else. The version is
    # the one that vLLM and proxies speak; 2026-10-21 refuses `temperature` for every model.
    "anthropic": Provider(
        _ANTHROPIC_CODEC, headers=MappingProxyType({"anthropic-version": "2023-06-01"}), sampling=_ANTHROPIC
    ),
    "gemini": Provider(_GEMINI_CODEC, "x-goog-api-key", "", sampling=_GEMINI),
    "vertex": Provider(_GEMINI_CODEC, sampling=_GEMINI),
    "copilot": Provider(_COPILOT_CODEC, sampling=_COPILOT, has_temperature=False),
}
