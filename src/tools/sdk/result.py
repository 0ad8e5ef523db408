"""What a tool returned, as a result: a str is text, media are multimodal, anything else is data."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ...errors import ToolError
from ...types.messages import JSON, ToolResult
from .output_store import Outputs, Stored

Kind = Literal["text", "data", "error", "multimodal"]
SHOWN = 50 * 1024  # bytes (UTF-8) of a result that the model sees at once
MEDIA = ("image", "audio")


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a sound that a tool returns, alone or in a list with strings: `mime_type` is "image/png" or such."""

    data: bytes
    mime_type: str

    def block(self) -> JSON:
        """The content block of a ToolResult (messages.py). Raises ToolError for what no model takes."""
        kind = self.mime_type.partition("/")[0]
        if kind not in MEDIA:
            raise ToolError(f"only images and sounds can be shown to a model, not {self.mime_type}")
        return {"type": kind, "data": base64.b64encode(self.data).decode("ascii"), "mimeType": self.mime_type}


class Outcome(NamedTuple):
    """What came of a run; `ref` where the tool stored its whole output itself."""

    kind: Kind
    value: JSON
    ref: str = ""


def outcome(value: object) -> Outcome:
    """The result, less the call that it answers. Data must be JSON, and is copied, so that no tool's state is shared.

    Raises TypeError or ValueError for what is neither, ToolError for media that no model takes.
    """
    if isinstance(value, Stored):
        return Outcome("text", printable(value.text), value.ref)
    if isinstance(value, str):
        return Outcome("text", printable(value))
    if isinstance(value, Media):
        return Outcome("multimodal", [value.block()])
    if isinstance(value, list) and any(isinstance(each, Media) for each in value):
        return Outcome("multimodal", [_block(each) for each in value])
    return Outcome("data", json.loads(printable(json.dumps(value, ensure_ascii=False, allow_nan=False))))


def printable(text: str) -> str:
    """Without lone surrogates, which no file and no request could hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _block(part: object) -> JSON:
    if isinstance(part, Media):
        return part.block()
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, allow_nan=False)
    return {"type": "text", "text": printable(text)}


def cached(result: ToolResult, outputs: Outputs | None, ref: str = "") -> ToolResult:
    """A result as the model sees it, cut to SHOWN bytes, with the reference under which all of it is stored.

    `ref` is given where the tool stored its output itself. Images and the like have no text to store.
    """
    if result.kind == "multimodal":
        return result
    text = result.text
    if result.kind == "data" and len(text) > SHOWN // 4:
        text = json.dumps(result.value, ensure_ascii=False, indent=1)  # so that it has lines to be read by
    if not ref and outputs:
        ref = outputs.put(text)
    shown = truncated(text, ref)
    if shown is text:
        return replace(result, ref=ref)
    return replace(result, kind="error" if result.kind == "error" else "text", value=shown, ref=ref)


def truncated(text: str, ref: str) -> str:
    """The whole lines of a text that fit into SHOWN bytes, and how to read on; the text itself where all of it fits."""
    if len(text) <= SHOWN // 4:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= SHOWN:
        return text
    head = data[: data.rfind(b"\n", 0, SHOWN) + 1] or data[:SHOWN]
    shown = head.decode("utf-8", "ignore")
    line_end = "" if shown.endswith("\n") else "\n"
    return (
        f"{shown}{line_end}[cut: {len(head):,} of {len(data):,} bytes are shown; {_how_on(ref, shown.count(chr(10)))}]"
    )


def _how_on(ref: str, lines: int) -> str:
    if not ref:
        return "the rest could not be stored: ask for less at once"
    return f'read on with tool_output_cache(ref_id="{ref}", offset={lines + 1}) or search with tool_output_cache_grep'
