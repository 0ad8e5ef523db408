"""Run code of a tool, turn what it returned into a result, and cut that to what a model sees at once.

A str is text, media are multimodal, anything else is data. What a model does not see of an output is kept in the output
store; what it sees whole is stored once it leaves the conversation (agent/pruning.py).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...errors import ToolError
from ...types.images import describe_excess
from ...types.messages import JSON, MEDIA, ContentBlock, ToolCall, ToolResult
from .output_store import Outputs, ToolOutput

R = TypeVar("R")
Kind = Literal["text", "data", "error", "multimodal"]
MAX_SHOWN_BYTES = 50 * 1024  # of UTF-8, in one result


def attempt(work: Callable[[], R], on_error: Callable[[Exception], R]) -> R:
    """Run code of a tool or a plugin; an Exception goes to `on_error`, so that it cannot end the loop."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - a tool may raise anything; it is called in this place only
        return on_error(error)


class Media(Struct, frozen=True):
    """An image or a sound that a tool returns, alone or in a list with strings; `mime_type` is e.g. "image/png"."""

    data: bytes
    mime_type: str

    def to_block(self) -> ContentBlock:
        """The content block of a ToolResult. Raises ToolError for media that no model takes."""
        kind = self.mime_type.partition("/")[0]
        if kind not in MEDIA:
            raise ToolError(f"only images and sounds can be shown to a model, not {self.mime_type}")
        if not self.data:
            raise ToolError(f"the {kind} is empty")
        return {"type": kind, "data": base64.b64encode(self.data).decode("ascii"), "mimeType": self.mime_type}


class NothingToChange(ToolError):
    """Raised by a preview: the call would change nothing. The message is its result, without a run."""


class Changed(Struct, frozen=True):
    """What a tool returns that changed a file: the text for the model, and a unified diff for the user."""

    text: str
    diff: str


class Outcome(NamedTuple):
    """The result of a run; `ref` is set if the tool stored its whole output itself, the others as in ToolResult."""

    kind: Kind
    value: JSON
    ref: str = ""
    diff: str = ""
    ending: str = ""
    exit_code: int | None = None

    def to_result(self, call: ToolCall, outputs: Outputs | None) -> ToolResult:
        """The result of this call, as the model sees it."""
        result = ToolResult(
            call.id,
            call.name,
            self.kind,
            self.value,
            diff=self.diff,
            ending=self.ending,
            exit_code=self.exit_code,
        )
        return store_and_truncate(result, outputs, self.ref)


def to_outcome(value: object) -> Outcome:
    """Convert what a tool returned. Data becomes JSON, and is copied, so that no state of the tool is shared.

    Raises TypeError or ValueError for a value that has no JSON, ToolError for media that no model takes.
    """
    if isinstance(value, ToolOutput):
        text = replace_surrogates(value.text)
        return Outcome("text", text, value.ref, ending=value.ending, exit_code=value.exit_code)
    if isinstance(value, Changed):
        return Outcome("text", replace_surrogates(value.text), diff=replace_surrogates(value.diff))
    if isinstance(value, str):
        return Outcome("text", replace_surrogates(value))
    if isinstance(value, Media):
        return Outcome("multimodal", [_to_small_block(value)])
    if isinstance(value, list) and any(isinstance(each, Media) for each in value):
        return Outcome("multimodal", [_to_small_block(each) for each in value])
    return Outcome("data", json.loads(replace_surrogates(_dump(value))))


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def to_content_block(part: object) -> ContentBlock:
    """Media, a text, or a JSON value as text. Raises what to_outcome raises."""
    if isinstance(part, Media):
        return part.to_block()
    if not isinstance(part, str):
        part = _dump(part)
    return {"type": "text", "text": replace_surrogates(part)}


def _dump(value: object) -> str:
    """A value as JSON, also dataclasses, pydantic models, sets, dates, Enums, Paths and, in Base64, bytes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except TypeError:
        built = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode)
        return json.dumps(built, ensure_ascii=False, allow_nan=False)


def _encode(value: Any) -> object:
    """An object of a type that msgspec does not know: a pydantic model, a path, or a number or an array of numpy."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    kind = type(value).__name__
    raise TypeError(f"a tool cannot return an object of the type {kind}; return a str, JSON, a dataclass or a model")


def _to_small_block(part: object) -> ContentBlock:
    """As to_content_block, with a note in place of an image that is too large to be sent."""
    if isinstance(part, Media) and part.mime_type.startswith("image/") and (excess := describe_excess(len(part.data))):
        return {"type": "text", "text": f"[left out: {excess}]"}
    return to_content_block(part)


def store_and_truncate(result: ToolResult, outputs: Outputs | None, ref: str = "") -> ToolResult:
    """Cut the text of a result to MAX_SHOWN_BYTES, and store it if it is cut.

    `ref` is given if the tool stored its output itself. Media have no text to store.
    """
    if result.kind == "multimodal":
        return result
    text = write_whole(result)
    if is_short(text):
        return replace(result, ref=ref) if ref else result
    if not ref and outputs:
        ref = outputs.put(text)
    return replace(result, kind="error" if result.kind == "error" else "text", value=truncate(text, ref), ref=ref)


def write_whole(result: ToolResult) -> str:
    """The text of a result as it is stored: long data with lines, by which it can be read."""
    text = result.text
    if result.kind == "data" and len(text) > MAX_SHOWN_BYTES // 4:
        return json.dumps(result.value, ensure_ascii=False, indent=1)
    return text


def end_line(text: str) -> str:
    """The text, after which another line may begin."""
    return f"{text}\n" if text and not text.endswith("\n") else text


def is_short(text: str) -> bool:
    """Whether a result shows all of it."""
    return len(text) <= MAX_SHOWN_BYTES // 4 or len(text.encode("utf-8", "replace")) <= MAX_SHOWN_BYTES


def truncate(text: str, ref: str) -> str:
    """The whole lines that fit into MAX_SHOWN_BYTES, and how to read on; the text itself if all of it fits."""
    if is_short(text):
        return text
    data = text.encode("utf-8", "replace")
    head = data[: data.rfind(b"\n", 0, MAX_SHOWN_BYTES) + 1] or data[:MAX_SHOWN_BYTES]
    shown = head.decode("utf-8", "ignore")
    hint = "the rest could not be stored: ask for less at once"
    if ref:
        offset = shown.count("\n") + 1
        hint = f'read on with tool_output_cache(ref_id="{ref}", offset={offset}) or search with tool_output_cache_grep'
    return f"{end_line(shown)}[cut: {len(head):,} of {len(data):,} bytes are shown; {hint}]"
