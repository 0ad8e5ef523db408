"""Text files as the editor has them: what is not saved there counts, and what is written appears there.

The protocol knows a file's text and its path, and nothing else of it. So the disk says which file a path leads to, of
what kind it is and in which encoding; a file that is no text, and one too large to be changed, is read and written
there. What the editor does not do is an error of the call, and the disk is no second choice.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event as CancelToken
from typing import Any, BinaryIO, TypeVar

from acp import RequestError

from ..errors import ToolError
from ..tools.fs import paths
from ..tools.fs.encoding import Encoding, decode, find_encoding
from ..tools.fs.text_files import DISK, OldFile, TextFiles
from ..types.images import HEAD_BYTES, detect_image
from .editor import Editor

T = TypeVar("T")
ANSWER_TIMEOUT_S = 30.0
MAY_FOLLOW = "It may still write it: read the file before you change it again."
MARK = "\ufeff"  # which some editors leave before the text


def make_files(
    editor: Editor, session_id: str, max_bytes: int, cancelled: CancelToken, has_commands: Callable[[], bool]
) -> TextFiles:
    """The editor's files; those of the disk where it does not both read and write, as an edit needs one place.

    `max_bytes`: of a file that may be changed. `has_commands`: see EditorFiles.
    """
    if editor.abilities.reads_files and editor.abilities.writes_files:
        return EditorFiles(editor, session_id, max_bytes, cancelled, has_commands)
    return DISK


class EditorFiles:
    """See TextFiles. For the threads of turns.

    An editor opens a file by its name, and follows a link that a command puts there in that moment. So while one runs
    (`has_commands`) the disk is read and written, and the editor's text is only compared with it.
    """

    def __init__(
        self,
        editor: Editor,
        session_id: str,
        max_bytes: int,
        cancelled: CancelToken,
        has_commands: Callable[[], bool] = lambda: False,
    ) -> None:
        self._editor = editor
        self._session_id = session_id
        self._max_bytes = max_bytes
        self._cancelled = cancelled
        self._has_commands = has_commands

    def open(self, target: paths.Target) -> tuple[BinaryIO, os.stat_result]:
        file, status = DISK.open(target)
        try:
            encoding = self._find_encoding(target, file, status)
            if encoding is None:
                file.seek(0)
                return file, status
            had_commands = self._has_commands()
            text = self._read(target)
            if had_commands or self._has_commands():
                _refuse_unsaved(target, text, file)
                return file, status
        except BaseException:
            file.close()
            raise
        file.close()
        return io.BytesIO(_encode(target, text, encoding)), status

    def replace(
        self, target: paths.Target, data: bytes, protected: tuple[Path, ...], old: OldFile | None = None
    ) -> None:
        try:
            text, _ = decode(target.name, data)
        except ToolError:  # an undo restores what is no text
            DISK.replace(target, data, protected, old)
            return
        paths.refuse_protected(target, protected)
        with paths.open_parent(target, create=True) as folder:
            is_new = paths.find_writable(target, folder) is None
            if is_new and not self._has_commands():
                self._write(target, text)
                return
        if self._has_commands():
            if not is_new:
                self.open(target)[0].close()  # refuses what is not saved
            DISK.replace(target, data, protected, old)
        else:
            self._change(target, data, text, protected, old)

    def _change(
        self, target: paths.Target, data: bytes, text: str, protected: tuple[Path, ...], old: OldFile | None
    ) -> None:
        """Replace the text of a file that is there."""
        file, status = DISK.open(target)
        with file:
            encoding = self._find_encoding(target, file, status)
        if encoding is None:
            DISK.replace(target, data, protected, old)
            return
        now = self._read(target)
        if old and _encode(target, now, encoding) != old.data:  # right before: a change between the two is lost
            raise ToolError(f"{target.name} was changed meanwhile, and not by this edit", "Read it again.")
        self._write(target, MARK + text if now.startswith(MARK) else text)

    def _find_encoding(self, target: paths.Target, file: BinaryIO, status: os.stat_result) -> Encoding | None:
        """That of a text which the editor is asked for; None for what is left to the disk."""
        if status.st_size > self._max_bytes or detect_image(file.read(HEAD_BYTES)):
            return None
        with suppress(ToolError):
            return find_encoding(target.name, file, self._max_bytes)
        return None

    def _read(self, target: paths.Target) -> str:
        with _map_errors(f"{target.name} could not be read by the editor"):
            answer = self._ask(self._editor.client.read_text_file(self._session_id, _get_path(target)))
        return str(answer.content)

    def _write(self, target: paths.Target, text: str) -> None:
        with _map_errors(f"{target.name} could not be written by the editor", MAY_FOLLOW):
            self._ask(self._editor.client.write_text_file(self._session_id, _get_path(target), text))

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        return self._editor.ask(work, self._cancelled, ANSWER_TIMEOUT_S)


@contextmanager
def _map_errors(what: str, hint: str = "") -> Iterator[None]:
    """Raise what goes wrong with the editor as a ToolError. `hint`: for one that has not answered yet."""
    try:
        yield
    except ToolError as error:
        raise ToolError(f"{what}: {error.message}", hint) from error
    except ConnectionError as error:
        raise ToolError(f"{what}: it is closed") from error
    except (RequestError, ValueError) as error:  # ValueError: an answer of another form
        raise ToolError(f"{what}: {error}") from error


def _get_path(target: paths.Target) -> str:
    return str(target.top.joinpath(*target.parts))


def _refuse_unsaved(target: paths.Target, text: str, file: BinaryIO) -> None:
    """Raises ToolError if the editor's text is not that of the file, which is then at its beginning."""
    file.seek(0)
    saved, _ = decode(target.name, file.read())
    file.seek(0)
    if _join_lines(text) != _join_lines(saved):
        raise ToolError(
            f"{target.name} is not saved in the editor, or changes, while a command runs",
            "Have it saved, or wait until the command has ended.",
        )


def _join_lines(text: str) -> str:
    """The text without what an editor may keep for itself."""
    return text.removeprefix(MARK).replace("\r\n", "\n")


def _encode(target: paths.Target, text: str, encoding: Encoding) -> bytes:
    """The editor's text in the encoding of the file."""
    try:
        return encoding.bom + text.removeprefix(MARK).encode(encoding.codec)
    except UnicodeEncodeError as error:
        lacking = text[error.start : error.end][:20]
        raise ToolError(
            f"{target.name} is {encoding.codec} text, and in the editor it holds {lacking!a}",
            "Save it in another encoding first.",
        ) from error
