"""The prompt on a full terminal: editing, history and completion, with prompt_toolkit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Offer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

from ..state import State
from .completion import complete
from .multiline import is_open, start_next_line

MAX_INLINE_PASTE_CHARS, MAX_INLINE_PASTE_LINES = 2_000, 20  # of a longer paste the line shows a note
MAX_HISTORY_CHARS = 20_000  # of one entry
STYLE = Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack", "prompt": "bold"})


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
        whole = self._pastes.expand(string)
        try:
            super().store_string(whole if len(whole) <= MAX_HISTORY_CHARS else string)
        except OSError:  # a full disk, a read-only home: it is kept in memory
            return


class _PromptCompleter(Completer):
    def __init__(self, state: State) -> None:
        self._state = state

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Offer]:  # noqa: ARG002
        for each in complete(document.text_before_cursor, self._state):
            yield Offer(each.text, -each.start, display_meta=each.about)


class ChatPrompt:
    """Reads messages and answers. `expand` shows the last folded item; `toolbar` returns the line below the prompt."""

    def __init__(
        self, state: State, folder: Path | None, expand: Callable[[], None], toolbar: Callable[[], str]
    ) -> None:
        self._state = state
        self._pastes = Pastes()
        self._history = _open_history(folder, self._pastes)
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", "> ")],
            history=self._history,
            completer=_PromptCompleter(state),
            complete_while_typing=True,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_make_key_bindings(self._pastes, expand, state.switch_to_next_mode),
            bottom_toolbar=lambda: _toolbar(toolbar()),
            style=STYLE,
            reserve_space_for_menu=6,
        )
        self._question_session: PromptSession[str] = PromptSession(history=InMemoryHistory())

    def read(self) -> str:
        """Read a message. Raises EOFError and KeyboardInterrupt."""
        draft, self._state.draft = self._state.draft, ""
        return self._pastes.expand(self._session.prompt(default=draft))

    def ask(self, question: str, default: str = "") -> str:
        """Read one line that is typed after the question. Raises EOFError and KeyboardInterrupt."""
        clear_typeahead(self._question_session.input)
        return self._question_session.prompt(question, default=default)

    def remember(self, text: str) -> None:
        """Add a message that was not typed at the prompt to the history."""
        self._history.append_string(text)

    def take_typed_ahead(self) -> str:
        """Remove and return the keys that came after the last Enter."""
        return "".join(key.data for key in get_typeahead(self._session.input))


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


def _make_key_bindings(pastes: Pastes, expand: Callable[[], None], switch_mode: Callable[[], None]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.cursor_position == len(buffer.text) and is_open(buffer.text):
            buffer.text = start_next_line(buffer.text)
            buffer.cursor_position = len(buffer.text)
        else:
            buffer.validate_and_handle()

    @keys.add("enter", filter=completion_is_selected & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # the line has the completion already

    @keys.add("escape", "enter")
    @keys.add("c-j", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.append_to_history()
            buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @keys.add("c-z")
    def _(_event: KeyPressEvent) -> None:
        run_in_terminal(lambda: os.kill(os.getpid(), signal.SIGSTOP))

    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()  # prompt_toolkit's own binding would send the text even after :q!

    @keys.add("s-tab", filter=~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        switch_mode()
        event.app.invalidate()

    @keys.add("c-v")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("@clipboard ")  # the image on it; a terminal pastes text itself

    @keys.add("c-o")
    def _(_event: KeyPressEvent) -> None:
        run_in_terminal(expand)

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(pastes.shorten(text))

    return keys


def _toolbar(text: str) -> StyleAndTextTuples:
    return [("class:bottom-toolbar", text)]
