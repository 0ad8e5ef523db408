"""Adds what a message mentions as `@path`: the content of files, up to MAX_CONTENT_BYTES for all, folders, and images.

`@clipboard` is the image on the clipboard. In the chat, the path of an image is a mention too, as terminals paste it
when a file is dropped on them. What was added, and what was not found, is said in a line each.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import Struct

from ..beneath import find_place, split_place
from ..errors import ToolError
from ..types.file_names import escape_name, read_name
from ..types.images import MAX_IMAGE_BYTES, SUFFIXES, describe_excess, detect_image
from ..types.messages import ContentBlock, UserMessage
from ..types.special_tokens import neutralize_with_note

if TYPE_CHECKING:
    from ..tools.fs.paths import Target

MENTION = re.compile(r"(?:^|(?<=[\s(]))@(?:\"([^\"\n]+)\"|([^\s\"]+))")
# A path of its own in quotes, or with a backslash before each blank, or as a URL.
DROPPED = re.compile(r"(?:^|(?<=\s))(?:'([^'\n]+)'|\"([^\"\n]+)\"|((?:file://|~?/|\.\.?/)(?:\\.|[^\s\\])+))(?=\s|$)")
CLIPBOARD = "clipboard"
CLIPBOARD_TIMEOUT_S = 3.0
# What prints the image on the clipboard: the platform, or the variable of the environment, where it works; the command.
CLIPBOARD_READERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("darwin", ("pngpaste", "-")),
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
)
PUNCTUATION = ".,;:!?)"  # that may follow a path
MAX_CONTENT_BYTES = 50_000  # of all files of one message; the model can read the rest
MAX_FOLDER_ENTRIES = 200  # of a folder
MAX_IMAGES = 10  # of one message


class Mentions(Struct, frozen=True):
    """A message with what it mentions. `notes`: a line about each mention, for the user.

    `images`: of each its name and its content block.
    """

    typed: str
    text: str
    images: tuple[tuple[str, ContentBlock], ...] = ()
    notes: tuple[str, ...] = ()

    def make_message(self, before: str = "", after: str = "") -> UserMessage:
        """The message for the model, with notes before the own text and material after it."""
        text = f"{before}{self.text}{after}"
        typed = self.typed + after  # what /retry sends again
        blocks: list[ContentBlock] = []
        for name, image in self.images:
            blocks += {"type": "text", "text": f"Image {name}:"}, image
        if blocks:
            return UserMessage("", (*blocks, {"type": "text", "text": text}), typed)
        return UserMessage(text, typed=typed if typed != text else "")


class _Reader:
    """Reads the files that one message mentions. `is_denied`: whether a rule denies reading a place, see find_place."""

    def __init__(self, root: Path, is_denied: Callable[[str], bool], added: Sequence[Path]) -> None:
        self._root = root
        self._added = added
        self._is_denied = is_denied
        self._room = MAX_CONTENT_BYTES
        self.parts: list[str] = []
        self.images: list[tuple[str, ContentBlock]] = []
        self.notes: list[str] = []

    def add(self, path: Path, name: str) -> None:
        name = escape_name(name)
        try:
            self.notes.append(f"{name} added: {self._read(self._find_target(path, name), name)}")
        except OSError as error:
            self.notes.append(f"{name} not added: {error.strerror}")
            self.parts.append(f"{name} cannot be read: {error.strerror}")
        except ValueError as error:
            self.notes.append(f"{name} not added: {error}")
            self.parts.append(f"{name} is {error}.")

    def add_clipboard(self) -> None:
        try:
            self.notes.append(f"{CLIPBOARD} added: {self._add_image(_read_clipboard_image(), CLIPBOARD)}")
        except ValueError as error:
            self.notes.append(f"{CLIPBOARD} not added: {error}")

    def _find_target(self, path: Path, name: str) -> Target:
        """What a path leads to. Raises ValueError where a link of the workspace, or of an added folder, which the user
        may not know of, leads out of them, or to a file that a rule denies to the tool read.
        """
        from ..tools.fs.paths import Target  # start-up is measured

        named = Path(os.path.abspath(path))  # noqa: PTH100 - without following links
        place = find_place(str(path), self._root, self._added)
        if place is None:
            real = Path(os.path.realpath(path))
            if any(named.is_relative_to(top) for top in (self._root, *self._added)):
                raise ValueError(f"a link out of the workspace, to {escape_name(real)}: name that file instead")
            return Target(name, real.parent, tuple(filter(None, [real.name])))
        top, below = split_place(place, self._root, self._added)
        if top / below != named and self._is_denied(place):
            raise ValueError(f"a link to {escape_name(place)}, which a rule denies reading: name that file instead")
        return Target(name, Path(os.path.realpath(top)), Path(below).parts)

    def _read(self, target: Target, name: str) -> str:
        """Add a file or folder, and describe what was added. Raises OSError, or ValueError if it cannot be added."""
        from ..tools.fs import paths

        try:
            folder = paths.open_folder(target)
        except NotADirectoryError:
            return self._read_file(target, name)
        try:
            with os.scandir(folder) as listing:
                entries = sorted(escape_name(each.name) + ("/" if each.is_dir() else "") for each in listing)
        finally:
            os.close(folder)
        more = f"\n({len(entries) - MAX_FOLDER_ENTRIES} more)" if len(entries) > MAX_FOLDER_ENTRIES else ""
        self.parts.append(f"In the folder {name}:\n" + "\n".join(entries[:MAX_FOLDER_ENTRIES]) + more)
        return f"a list of {len(entries):,} entr{'y' if len(entries) == 1 else 'ies'}"

    def _read_file(self, target: Target, name: str) -> str:
        from ..tools.fs import paths

        try:
            descriptor = paths.open_to_read(target)
        except ToolError as error:
            raise ValueError("not a file") from error
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            data = file.read(max(self._room, 0) + 1)
            if detect_image(data):
                return self._add_image(data + file.read(MAX_IMAGE_BYTES + 1 - len(data)), name, size)
        if b"\0" in data:
            raise ValueError(f"not text ({size:,} bytes)")
        return self._add_text(data, name, size)

    def _add_text(self, data: bytes, name: str, size: int) -> str:
        cut = len(data) > self._room
        text = data[: self._room].decode("utf-8", "replace")
        note = f"\n[cut: the file has {size:,} bytes; read it for the rest]" if cut else ""
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        self.parts.append(f"Content of {name}:\n{fence}\n{text}\n{fence}{note}")
        shown, self._room = min(len(data), self._room), max(self._room - len(data), 0)
        if cut:
            return f"the first {shown:,} of {size:,} bytes"
        lines = text.count("\n") + (not text.endswith("\n") and bool(text))
        return f"{lines:,} line{'s' * (lines != 1)}, {shown:,} bytes"

    def _add_image(self, data: bytes, name: str, size: int = 0) -> str:
        kind = detect_image(data)
        if excess := describe_excess(max(size, len(data))):
            raise ValueError(excess)
        if len(self.images) == MAX_IMAGES:
            raise ValueError(f"an image, and the message has {MAX_IMAGES} already")
        block: ContentBlock = {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": kind}
        self.images.append((name, block))
        return f"{kind}, {len(data):,} bytes"


def read_mentions(
    text: str,
    root: Path,
    is_denied: Callable[[str], bool] = lambda _: False,
    added: Sequence[Path] = (),
    *,
    dropped: bool = False,
) -> Mentions:
    """The message with what it mentions. `dropped`: the paths of images are mentions without an @ too.

    `is_denied`: whether a rule denies reading a place; `added`: the folders added to `root`. See find_place.
    """
    reader, seen = _Reader(root, is_denied, added), set()
    for path, name in [*_find_mentions(text, root), *(_find_dropped(text, root) if dropped else ())]:
        if (path or name) in seen:
            continue
        seen.add(path or name)
        if path:
            reader.add(path, name)
        elif name == CLIPBOARD:
            reader.add_clipboard()
        else:
            reader.notes.append(f"{escape_name(name)}: no such file, so nothing was added")
    whole_text = "\n\n".join([text, *map(neutralize_with_note, reader.parts)])
    return Mentions(text, whole_text, tuple(reader.images), tuple(reader.notes))


def _find_mentions(text: str, root: Path) -> Iterator[tuple[Path | None, str]]:
    """Yield the path of each mention, if it exists, and how it is written, without punctuation after it."""
    for match in MENTION.finditer(text):
        written = match[1] or match[2]
        bare = written.rstrip(PUNCTUATION)
        existing = ((path, name) for name in (written, bare) if name and (path := _resolve(root, name)))
        if (mention := next(existing, None)) or bare:
            yield mention or (None, bare)


def _find_dropped(text: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each path of an image that stands in the text as a terminal pastes it."""
    for match in DROPPED.finditer(text):
        written = match[1] or match[2] or re.sub(r"\\(.)", r"\1", match[3])
        if written.startswith("file://"):
            written = unquote(written.removeprefix("file://"))
        if written.lower().endswith(SUFFIXES) and (path := _resolve(root, written)) and path.is_file():
            yield path, written


def _resolve(root: Path, name: str) -> Path | None:
    try:
        for each in (name, read_name(name)):
            if (path := root / Path(each).expanduser()).exists():
                return path
        return None
    except (OSError, RuntimeError, ValueError):  # too long for a path; no user has that home; a NUL
        return None


def _read_clipboard_image() -> bytes:
    """The image as a file. Raises ValueError where there is none, with the reason."""
    import subprocess  # start-up is measured

    usable = [command for place, command in CLIPBOARD_READERS if place == sys.platform or os.environ.get(place)]
    if not usable:
        raise ValueError("there is no clipboard here")
    missing: list[str] = []
    for command in usable:
        try:
            done = subprocess.run(  # noqa: S603 - fixed commands
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=CLIPBOARD_TIMEOUT_S, check=False
            )
        except FileNotFoundError:
            missing.append(command[0])
        except (OSError, subprocess.SubprocessError):
            continue
        else:
            if detect_image(done.stdout):
                return done.stdout
    if len(missing) == len(usable):
        raise ValueError(f"install {' or '.join(missing)}, which reads it")
    raise ValueError("there is no image on it")
