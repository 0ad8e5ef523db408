"""How each family of models is told to think, or not to: fields of the request, by the word that the user gives.

A chat template decides by a variable of its own (`chat_template_kwargs`) or by `reasoning_effort`; the names differ.
Sources: vLLM 0.32 (vllm/parser, vllm/reasoning and vllm/renderers read these variables; docs/features/reasoning_outputs
says what is on by default), the model cards of Qwen3, SmolLM3, Seed-OSS and Hunyuan-A13B, OpenAI's and Ollama's API
references for their servers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from ..types.messages import JSON

Fields: TypeAlias = "Mapping[str, JSON]"


class Thinking(Struct, frozen=True):
    """`models`: a pattern for the lower-case name without the organization. `fields`: for each word that it knows.

    `why` it does not know the others, where there is more to say.
    """

    models: str
    fields: Mapping[str, Fields]
    why: str = ""


def _make_words(name: str, **values: JSON) -> dict[str, Fields]:
    return {word: {"chat_template_kwargs": {name: value}} for word, value in values.items()}


def _make_switch(name: str) -> dict[str, Fields]:
    return _make_words(name, on=True, off=False)


_EFFORTS: dict[str, Fields] = {word: {"reasoning_effort": word} for word in ("low", "medium", "high")}
_MEDIUM: Fields = {"reasoning_effort": "medium"}
_WITH_NONE: dict[str, Fields] = {**_EFFORTS, "on": _MEDIUM, "off": {"reasoning_effort": "none"}}
ALWAYS, NEVER = "it always thinks", "it never thinks"

# The first row that fits counts.
TABLE = (
    Thinking(r"gpt-oss", {**_EFFORTS, "on": _MEDIUM}, ALWAYS),
    Thinking(r"qwen3.*(instruct|coder)", {}, NEVER),
    Thinking(r"qwen3.*thinking|qwq|deepseek-r1|deepseek-reasoner", {}, ALWAYS),
    Thinking(r"qwen-?3|smollm3|gemma-?4|mimo|hunyuan-a13b|nemotron-3", _make_switch("enable_thinking")),
    Thinking(r"glm-?4\.[5-9]|glm-?5(?!\.[3-9])", _make_switch("enable_thinking")),
    Thinking(r"deepseek-v3\.[1-9]|deepseek-v4|granite-3\.[23]|kimi-k2\.[5-9]|kimi-k3|holo2", _make_switch("thinking")),
    Thinking(r"hy3|hunyuan-?v?3", _make_words("reasoning_effort", off="no_think", low="low", high="high", on="high")),
    Thinking(r"seed-oss", _make_words("thinking_budget", off=0, low=512, medium=4096, high=16384, on=-1)),  # tokens
)
_BY_PROVIDER = {"openai": Thinking("", _WITH_NONE), "ollama": Thinking("", _WITH_NONE)}


def find_thinking(provider: str, *names: str) -> Thinking | None:
    """The row for a model, which may have several names; None if nothing is known of it."""
    if provider != "vllm":
        return _BY_PROVIDER.get(provider)
    for name in names:
        short = name.lower().rpartition("/")[2]
        for row in TABLE:
            if re.search(rf"(?:^|[-_.])(?:{row.models})", short):
                return row
    return None
