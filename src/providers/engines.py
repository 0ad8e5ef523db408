"""Which program a server is, by what its list of models names as their owner. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

# Sources: llama.cpp (tools/server), SGLang (srt/entrypoints), Ollama (openai/openai.go), LM Studio's REST API.
_ENGINES: Mapping[str, str] = {
    "llamacpp": "llama.cpp's server",
    "sglang": "SGLang",
    "library": "Ollama",
    "organization_owner": "LM Studio",
}


def find_engine(owner: str) -> str:
    """The name of a server other than vLLM; "" where the owner tells none."""
    return _ENGINES.get(owner, "")
