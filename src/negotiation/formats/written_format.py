"""The format in which a model writes calls: as its chat template writes one, or as the model's name tells.

A prompt is made of a conversation with one call in it, and the call is looked for in the prompt's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ...parsing import extract_tool_calls
from ...parsing.formats.table import FORMATS
from ...providers import vllm
from ...providers.base import ChatRequest
from ...providers.vllm_parsers import find_family
from ...types.effects import Aside
from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON, Message, Response, ToolCall, ToolChoice, ToolDefinition, UserMessage
from ..server import ServerApi
from .structural_tags import find_format, make_structural_tag

UNKNOWN = "none"  # stored where neither tells, so that it is not asked again
_QUESTION = "What is the weather in Oslo?"
PROBE_TOOL = ToolDefinition(
    "get_weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
PROBE_CALL = ToolCall("000000001", PROBE_TOOL.name, {"city": "Oslo"})
PROBE: tuple[Message, ...] = (UserMessage(_QUESTION), Response((PROBE_CALL,)))
_BLANKS = LazyPattern(r"\s+")


def detect_format(server: ServerApi, probe: ChatRequest) -> Aside[str]:
    """The name of the format, or UNKNOWN. `probe`: the request that PROBE and PROBE_TOOL make."""
    text = yield from server.show_prompt(probe)
    return read_format(text or "") or guess_format(probe.model) or UNKNOWN


def read_format(prompt: str) -> str:
    """The name of the format in which the text of the probe's prompt has the call; empty if it has none."""
    written = prompt.rpartition(_QUESTION)[2]
    calls = [call for call in extract_tool_calls(written, [PROBE_TOOL]).calls if call.arguments == PROBE_CALL.arguments]
    if not calls:
        return ""
    bare = _BLANKS.sub("", written)
    exact = [row for row in FORMATS if _BLANKS.sub("", row.write(PROBE_CALL.name, PROBE_CALL.arguments)) in bare]
    origin = calls[0].origin
    if exact:
        origin = max(exact, key=lambda row: len(row.example)).name
    return _require_grammar(origin)


def guess_format(model: str) -> str:
    """The name of the format that models of this name write; empty if that is not known."""
    family = find_family(model)
    rows = [row for row in FORMATS if family and family.tool_parser in re.split(r", ?", row.parser)]
    return _require_grammar(rows[0].name) if rows else ""


def choose_format(known: str, origin: str) -> str:
    """The format after a call of this origin was seen. One without a marker counts only if no other is known."""
    row = find_format(origin)
    if row and (row.marker or find_format(known) is None):
        return origin
    return known


def constrain_calls(
    tools: Sequence[ToolDefinition],
    choice: ToolChoice,
    written: str,
    fits: Callable[[Mapping[str, JSON]], bool] = vllm.fits_xgrammar,
) -> dict[str, JSON]:
    """structured_outputs for calls in the format of this name, or behind TOOL_CALL: without one; empty if none can be.

    `fits`: whether the server can make a grammar of a schema.
    """
    row = find_format(written)
    if row is None:
        return vllm.constrain_calls(tools, choice)
    offered = [replace(tool, parameters=vllm.relax_schema(tool.parameters, fits)) for tool in tools]
    tag = make_structural_tag(row, offered, choice)
    return {"structural_tag": tag} if tag else {}


def _require_grammar(name: str) -> str:
    """The name of a format; empty where no grammar can hold the model to it."""
    return name if find_format(name) else ""
