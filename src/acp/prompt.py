"""A prompt's content blocks as a message for the model.

Text is what the user typed. Files and selections that the editor sends along are material below it: whole, as the
editor has them, which may differ from the disk. A link only names a file, which the model can read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import quoteattr

from ..app.changes import relate
from ..types.images import describe_excess, detect_image
from ..types.messages import ContentBlock, UserMessage
from ..types.special_tokens import neutralize_with_note

MAX_MATERIAL_CHARS = 400_000  # of all files of one prompt; the model can read the rest


class PromptReader:
    """Reads one prompt. `root`: the workspace, which paths are shown relative to."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._room = MAX_MATERIAL_CHARS
        self._typed: list[str] = []
        self._material: list[str] = []
        self._images: list[ContentBlock] = []

    def read(self, blocks: Sequence[Any]) -> UserMessage:
        """Raises ValueError for a block that cannot be used, and for an empty prompt."""
        for block in blocks:
            self._add(block)
        typed = "".join(self._typed).strip()
        if not (typed or self._material or self._images):
            raise ValueError("the prompt is empty")
        text = "\n\n".join(filter(None, [typed, *self._material]))
        if not self._images:
            return UserMessage(text, typed=typed if self._material else "")
        texts: list[ContentBlock] = [{"type": "text", "text": text}] if text else []
        return UserMessage("", (*self._images, *texts), typed=typed)

    def _add(self, block: Any) -> None:
        if block.type == "text":
            self._typed.append(block.text)
        elif block.type == "image":
            self._images += _read_image(block.data)
        elif block.type == "resource_link":
            self._mention(self._name(block.uri))
        elif block.type == "resource":
            self._add_resource(block.resource)
        else:
            raise ValueError(f"a prompt holds text, images and files, and not {block.type}")

    def _add_resource(self, resource: Any) -> None:
        name = self._name(resource.uri)
        self._mention(name)
        text = getattr(resource, "text", None)
        if text is None:
            self._images += _read_image(resource.blob)
            return
        shown, self._room = text[: self._room], max(self._room - len(text), 0)
        if len(shown) < len(text):
            shown += f"\n[{len(text) - len(shown):,} more characters; read the file]"
        self._material.append(neutralize_with_note(f"<file path={quoteattr(name)}>\n{shown}\n</file>"))

    def _mention(self, name: str) -> None:
        """Name a file where the editor put it in the text; two that touch each other are told apart."""
        if self._typed and self._typed[-1].endswith("`"):
            self._typed.append(" ")
        self._typed.append(f"`{name}`")

    def _name(self, uri: str) -> str:
        """A file's path, in the workspace a relative one, with the lines that were selected; else the address."""
        parts = urlsplit(uri)
        if parts.scheme not in ("file", "zed") or not parts.path:
            return uri
        name = str(relate(Path(unquote(parts.path)), self._root))
        if parts.fragment:
            name += f"#{parts.fragment}"
        return name


def _read_image(data: str) -> Iterator[ContentBlock]:
    """Raises ValueError for what is no image, or too large."""
    try:
        raw = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"an image is not base64: {error}") from error
    kind = detect_image(raw)
    if not kind:
        raise ValueError("an attachment is neither text nor an image of a known kind")
    if excess := describe_excess(len(raw)):
        raise ValueError(f"an image is {excess}")
    yield {"type": "image", "data": data, "mimeType": kind}


def read_prompt(blocks: Sequence[Any], root: Path) -> UserMessage:
    """Raises ValueError."""
    return PromptReader(root).read(blocks)
