"""The tools read, write and edit, for text files of the workspace."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, BinaryIO, Literal

from msgspec import Struct

from ...errors import ToolError
from ...types.file_names import escape_name
from ...types.images import HEAD_BYTES, describe_excess, detect_image
from ..fs.diff import make_diff
from ..fs.encoding import (
    READ_BYTES,
    UTF_8,
    Encoding,
    decode,
    encode,
    find_encoding,
    open_text,
    read_before_change,
    replace_file,
)
from ..fs.line_window import READ_BYTES as TAIL_BYTES
from ..fs.line_window import Window, count_lines, read_tail, read_window
from ..fs.replace import format_line_numbers, is_crlf, replace_text
from ..fs.text_files import OldFile
from ..sdk.context import ToolContext
from ..sdk.result import Changed, Media, NothingToChange
from ..sdk.tool import tool

SAME_CONTENT = "{path} has this content already, so nothing was changed"
MODE = Literal["auto", "exact", "line_trimmed", "block_anchor"]


@tool(risk="low")
def read(
    path: Annotated[str, "File, relative to the workspace"],
    ctx: ToolContext,
    offset: Annotated[int | None, "First line, from 1; negative: from the end"] = None,
    limit: Annotated[int | None, "Number of lines"] = None,
) -> str | list[str | Media]:
    """Read a text file, or see an image. Each line follows its number and a tab; the sha256 comes last."""
    first = 1 if offset is None else offset
    with open_text(path, ctx) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= READ_BYTES:  # it is read several times
            file = io.BytesIO(file.read())
        if kind := detect_image(file.read(HEAD_BYTES)):
            return _read_image(path, file, size, kind)
        file.seek(0)
        encoding = find_encoding(path, file, ctx.wiring.max_file_bytes)
        digest = _hash_file(file) if size <= ctx.wiring.max_file_bytes else f"not computed: the file has {size:,} bytes"
        file.seek(len(encoding.bom))
        if first < 0:
            if size > max(ctx.wiring.max_file_bytes, TAIL_BYTES):  # to count the lines would take long
                tail = read_tail(file, encoding.codec, -first, limit)
                return f"{tail}[from the end of the file; the numbers of these lines are not known]\n[sha256 {digest}]"
            first = max(count_lines(file, encoding.codec) + first + 1, 1)
            file.seek(len(encoding.bom))
        window = read_window(path, file, encoding.codec, first, limit)
    return f"{window.text}{_continuation_hint(window)}[sha256 {digest}]"


def _read_image(path: str, file: BinaryIO, size: int, kind: str) -> list[str | Media]:
    if excess := describe_excess(size):
        raise ToolError(f"{escape_name(path)} is {excess}")
    digest = _hash_file(file)
    file.seek(0)
    data = file.read(size)
    return [f"{escape_name(path)}: {kind}, {len(data):,} bytes [sha256 {digest}]", Media(data, kind)]


def preview_write(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
    """The diff of a write. Raises what the write would raise."""
    path, content = arguments["path"], arguments["content"]
    diff = _diff_write(path, read_before_change(path, ctx), content)
    if not diff:
        raise NothingToChange(SAME_CONTENT.format(path=escape_name(path)))
    return diff


def _diff_write(path: str, old: OldFile | None, content: str) -> str:
    """The diff of a write; of a binary file a sentence, and the new text."""
    if old is None:
        return make_diff(path, None, content)
    try:
        before, _ = decode(path, old.data)
    except ToolError:
        return f"{escape_name(path)} is a binary file of {len(old.data):,} bytes, replaced by:\n{content}"
    return make_diff(path, before, content)


def preview_edit(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
    """The diff of an edit. Raises what the edit would raise."""
    change = _plan_change(ctx=ctx, **{name: value for name, value in arguments.items() if name != "dry_run"})
    if change.changes_nothing:
        raise NothingToChange(_describe_unchanged(arguments["path"], change))
    return make_diff(arguments["path"], change.before, change.after or "")


@tool(risk="high", preview=preview_write)
def write(
    path: Annotated[str, "File, relative to the workspace"],
    content: Annotated[str, "The whole new content"],
    ctx: ToolContext,
) -> str | Changed:
    """Create a text file or replace its whole content. Missing folders are created."""
    old = read_before_change(path, ctx)
    data = encode(path, content, UTF_8, ctx)
    if old and old.data == data:
        return SAME_CONTENT.format(path=escape_name(path))
    diff = _diff_write(path, old, content)
    replace_file(path, data, ctx, old)
    size = f"{len(content):,} character{'s' * (len(content) != 1)}"
    done = "Replaced" if old else "Created"
    return Changed(f"{done} {escape_name(path)}: {size} [sha256 {_sha256(data)}]", diff)


@tool(risk="high", preview=preview_edit)
def edit(
    path: Annotated[str, "File, relative to the workspace"],
    oldText: Annotated[str, "Text to replace, without line numbers; empty: the whole file"],
    newText: Annotated[str, "Its replacement"],
    ctx: ToolContext,
    replace_all: Annotated[bool, "Replace every occurrence, not just one"] = False,
    match_mode: Annotated[
        MODE, "line_trimmed ignores indentation, block_anchor all but first and last line; auto tries all"
    ] = "auto",
    expected_replacements: Annotated[int | None, "Refuse another number of replacements"] = None,
    dry_run: Annotated[bool, "Only show the diff"] = False,
    expected_hash: Annotated[str | None, "sha256 that read showed; refuse a changed file"] = None,
) -> str | Changed:
    """Replace text in a file and show the diff."""
    change = _plan_change(
        path,
        oldText,
        newText,
        ctx,
        replace_all=replace_all,
        match_mode=match_mode,
        expected_replacements=expected_replacements,
        expected_hash=expected_hash,
    )
    if change.after is None or change.changes_nothing:
        return _describe_unchanged(path, change)
    data = encode(path, change.after, change.encoding, ctx)
    if not dry_run:
        replace_file(path, data, ctx, change.old)
    done = "Would change" if dry_run else "Changed"
    diff = make_diff(path, change.before, change.after)
    return Changed(f"{done} {escape_name(path)}: {change.how} [sha256 {_sha256(data)}]\n{diff}", diff)


class PlannedEdit(Struct, frozen=True):
    """The result of an edit: the text before (None: no file) and after, and `how` the place was found, in words."""

    old: OldFile | None
    encoding: Encoding
    before: str | None
    after: str | None
    how: str

    @property
    def changes_nothing(self) -> bool:
        return self.after is None or self.before == self.after


def _describe_unchanged(path: str, change: PlannedEdit) -> str:
    return f"{escape_name(path)} stays as it is, 0 replacements: {change.how}"


def _plan_change(
    path: str,
    oldText: str,
    newText: str,
    ctx: ToolContext,
    *,
    replace_all: bool = False,
    match_mode: str = "auto",
    expected_replacements: int | None = None,
    expected_hash: str | None = None,
) -> PlannedEdit:
    old = read_before_change(path, ctx)
    _refuse_changed(path, old, expected_hash)
    before, encoding = None, UTF_8
    if old:
        before, encoding = decode(path, old.data)
    elif oldText:
        raise ToolError(f"{escape_name(path)} does not exist", "An empty oldText creates it.")
    if oldText == newText:
        return PlannedEdit(old, encoding, before, before, "oldText and newText are equal")
    if not before and not oldText:
        return PlannedEdit(old, encoding, before, newText, "created" if before is None else "was empty")
    text = before or ""
    if not oldText:
        adopted = newText
        if is_crlf(text):
            adopted = newText.replace("\r\n", "\n").replace("\n", "\r\n")
        return PlannedEdit(old, encoding, before, adopted, "the whole of it")
    done = replace_text(text, oldText, newText, every=replace_all, mode=match_mode, expected=expected_replacements)
    times = f"{done.times:,} replacement{'s' * (done.times > 1)}"
    how = f"{times}, mode {done.mode}, at {format_line_numbers(done.lines)}"
    return PlannedEdit(old, encoding, before, done.text, how)


def _refuse_changed(path: str, old: OldFile | None, expected: str | None) -> None:
    if expected is None:
        return
    now = "that of no file"
    if old:
        now = _sha256(old.data)
    if expected.strip().lower().removeprefix("sha256").lstrip(": ") != now:
        raise ToolError(
            f"{escape_name(path)} is not as it was: its sha256 is {now}, not {expected[:80]}", "Read it again."
        )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash_file(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    for data in iter(partial(file.read, READ_BYTES), b""):
        digest.update(data)
    return digest.hexdigest()


def _continuation_hint(window: Window) -> str:
    if window.next:
        return f"[more lines follow; read on with offset={window.next}]\n"
    if not window.text:
        return "[the file is empty]\n"
    if not window.final_newline:
        return "[no newline at the end]\n"
    return ""
