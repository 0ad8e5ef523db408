"""What the plugin uses of vLLM, as 0.19 and 0.32 have it: names, signatures and defaults, without a server.

Sources: vllm/tool_parsers/abstract_tool_parser.py and the protocol module of chat completions in the sdists of both.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

import pytest

_ids = itertools.count()


@dataclass
class FunctionCall:
    name: str
    arguments: str


@dataclass
class FunctionCallDelta:
    name: str | None = None
    arguments: str | None = None


@dataclass
class Call:
    function: FunctionCall
    id: str = field(default_factory=lambda: f"chatcmpl-tool-{next(_ids)}")
    type: str = "function"


@dataclass
class CallDelta:
    index: int
    id: str | None = None
    type: str | None = None
    function: FunctionCallDelta | None = None


@dataclass
class MessageDelta:
    content: str | None = None
    tool_calls: list[CallDelta] = field(default_factory=list)


@dataclass
class Extracted:
    tools_called: bool
    tool_calls: list[Call]
    content: str | None = None


class BaseParser:
    """ToolParser of 0.32."""

    supports_required_and_named = True
    engine_based_streaming = False

    def __init__(self, tokenizer: Any, tools: list[Any] | None = None) -> None:
        self.model_tokenizer = tokenizer
        self.tools = tools or []

    @property
    def vocab(self) -> dict[str, int]:
        return self.model_tokenizer.get_vocab()

    def adjust_request(self, request: Any) -> Any:
        if request.tools and self.supports_required_and_named:
            request.has_grammar = request.tool_choice not in ("auto", "none")
        return request


class OldBaseParser(BaseParser):
    """ToolParser of 0.19, which has neither flag."""


class Manager:
    lazy_parsers: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def register_lazy_module(cls, name: str, module_path: str, class_name: str) -> None:
        cls.lazy_parsers[name] = (module_path, class_name)


class Tool:
    def __init__(self, entry: dict[str, Any]) -> None:
        self._entry = entry

    def model_dump(self) -> dict[str, Any]:
        return self._entry


@dataclass
class Request:
    tools: list[Tool]
    tool_choice: Any = "auto"
    messages: list[Any] = field(default_factory=list)
    max_tokens: int | None = None
    skip_special_tokens: bool = True
    has_grammar: bool = False


class Tokenizer:
    eos_token_id = 2

    def get_vocab(self) -> dict[str, int]:
        return {"a": 1, "<|im_end|>": 2}


def install_vllm(patch: pytest.MonkeyPatch, *, is_old: bool = False) -> ModuleType:
    """Puts the double in vLLM's place; returns the plugin's module for it."""
    package, parsers, abstract, protocol = map(
        ModuleType, ("vllm", "vllm.tool_parsers", "vllm.tool_parsers.abstract_tool_parser", __name__)
    )
    base = OldBaseParser if is_old else BaseParser
    if is_old:
        for flag in ("engine_based_streaming", "supports_required_and_named"):
            patch.delattr(BaseParser, flag)
    vars(protocol).update(
        ToolCall=Call, FunctionCall=FunctionCall, DeltaToolCall=CallDelta, DeltaFunctionCall=FunctionCallDelta
    )
    vars(abstract).update(ToolParser=base, DeltaMessage=MessageDelta, ExtractedToolCallInformation=Extracted)
    vars(parsers).update(ToolParserManager=Manager)
    for module in (package, parsers, abstract, protocol):
        patch.setitem(sys.modules, module.__name__, module)
    patch.delitem(sys.modules, "src.vllm_plugin.tool_parser", raising=False)
    loaded = importlib.import_module("src.vllm_plugin.tool_parser")
    patch.delitem(sys.modules, "src.vllm_plugin.tool_parser")
    return loaded
