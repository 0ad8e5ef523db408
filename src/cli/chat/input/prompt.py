"""What is typed on a full terminal: its buffers, history, completion and layout, with prompt_toolkit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer, BufferAcceptHandler
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.layout import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import (
    HighlightIncrementalSearchProcessor,
    HighlightSelectionProcessor,
    TabsProcessor,
)
from prompt_toolkit.widgets import SearchToolbar

from ...render.wrap import TAB_COLUMNS
from ..state import State
from .completion import complete
from .multiline import PROMPT

MAX_INLINE_PASTE_CHARS, MAX_INLINE_PASTE_LINES = 2_000, 20  # of a longer paste the line shows a note
MAX_HISTORY_CHARS = 20_000  # of one entry
MAX_MENU_ROWS = 6
CONTINUATION = "  "  # begins the other lines of a message
_TABS = TabsProcessor(TAB_COLUMNS, " ", " ")


class Pastes:
    """Long pasted texts, each with the note that replaces it in the line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def shorten(self, text: str) -> str:
        """A short text itself, or a note that replaces a long one."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= MAX_INLINE_PASTE_CHARS and lines <= MAX_INLINE_PASTE_LINES:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        note = f"[pasted text {len(self._texts) + 1}: {size}]"
        self._texts[note] = text
        return note

    def expand(self, line: str) -> str:
        """The line with each note replaced by its text."""
        for note, text in self._texts.items():
            line = line.replace(note, text)
        return line


class _PasteHistory(FileHistory):
    """The history of all chats. An entry has its pasted texts in full, up to MAX_HISTORY_CHARS."""

    def __init__(self, file: Path, pastes: Pastes) -> None:
        super().__init__(str(file))
        self._pastes = pastes

    def store_string(self, string: str) -> None:
        expanded = self._pastes.expand(string)
        try:
            super().store_string(expanded if len(expanded) <= MAX_HISTORY_CHARS else string)
        except OSError:  # a full disk, a read-only home: it is kept in memory
            return


class _PromptCompleter(Completer):
    """Searches in a thread. A buffer begins no search while one goes on, so that for the next line begins behind it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        return complete(document.text_before_cursor, self._state)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        buffer = get_app().current_buffer
        completions = await asyncio.to_thread(list, self.get_completions(document, complete_event))
        # Of a text that goes on the buffer searches again by itself; where some was deleted it completes nothing.
        if not buffer.text.startswith(document.text) and not document.text.startswith(buffer.text):
            asyncio.get_running_loop().call_soon(buffer.start_completion)
        for completion in completions:
            yield completion


class ChatPrompt:
    """The line at the bottom: a message, or the reply to a question. Enter hands it to `accept` or `accept_reply`.

    Each returns whether the text stays in the line.
    """

    def __init__(
        self, state: State, folder: Path | None, accept: BufferAcceptHandler, accept_reply: BufferAcceptHandler
    ) -> None:
        self.pastes = Pastes()
        self.question = ""  # which the reply answers
        self.message = Buffer(
            history=_open_history(folder, self.pastes),
            completer=_PromptCompleter(state),
            complete_while_typing=True,
            accept_handler=accept,
            tempfile_suffix=".md",
        )
        self.reply = Buffer(multiline=False, accept_handler=accept_reply)
        self._is_asking = Condition(lambda: bool(self.question))
        search = SearchToolbar(ignore_case=True)
        shown = [HighlightIncrementalSearchProcessor(), HighlightSelectionProcessor(), _TABS]
        message = BufferControl(
            self.message, input_processors=shown, search_buffer_control=search.control, preview_search=True
        )
        reply = BufferControl(self.reply, input_processors=[_TABS])
        self.container = HSplit(
            [
                ConditionalContainer(_make_window(message, lambda: PROMPT), ~self._is_asking),
                ConditionalContainer(_make_window(reply, lambda: self.question), self._is_asking),
                search,
                ConditionalContainer(CompletionsMenu(MAX_MENU_ROWS, scroll_offset=1), has_focus(self.message)),
            ]
        )

    @property
    def focused(self) -> Buffer:
        return self.reply if self.question else self.message


def _make_window(control: BufferControl, get_prompt: Callable[[], str]) -> Window:
    def make_prefix(line: int, wrapped: int) -> StyleAndTextTuples:
        return [("", CONTINUATION)] if line or wrapped else [("class:prompt", get_prompt())]

    return Window(control, dont_extend_height=True, wrap_lines=True, get_line_prefix=make_prefix)


def _open_history(folder: Path | None, pastes: Pastes) -> History:
    """The history in a file that only the user can read, or in memory if there can be none."""
    if folder is None:
        return InMemoryHistory()
    file = folder / "history"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        file.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return _PasteHistory(file, pastes)
