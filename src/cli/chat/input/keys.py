"""The keys of the chat. They work the same while the model works, a command runs or the prompt waits.

The others are prompt_toolkit's, which are those of Emacs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import NamedTuple

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import Condition, completion_is_selected, has_completions, has_focus, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys

from .multiline import is_open, start_next_line
from .prompt import ChatPrompt


class Actions(NamedTuple):
    """What keys do beyond the line. `is_busy`: the prompt waits for nothing; `take_back`: the last queued message."""

    is_busy: Callable[[], bool]
    stop: Callable[[], None]
    leave: Callable[[], None]
    take_back: Callable[[], str]
    expand: Callable[[], None]
    switch_mode: Callable[[], None]
    can_send_to_background: Callable[[], bool]
    send_to_background: Callable[[], None]


def make_key_bindings(prompt: ChatPrompt, actions: Actions) -> KeyBindingsBase:
    return merge_key_bindings([_make_line_keys(prompt), _make_chat_keys(prompt, actions)])


def _make_line_keys(prompt: ChatPrompt) -> KeyBindings:
    keys = KeyBindings()
    in_message = has_focus(prompt.message)

    @keys.add("enter", filter=in_message & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.cursor_position == len(buffer.text) and is_open(buffer.text):
            buffer.text = start_next_line(buffer.text)
            buffer.cursor_position = len(buffer.text)
        else:
            buffer.validate_and_handle()

    @keys.add("enter", filter=in_message & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer  # the line has the completion already
        state, buffer.complete_state = buffer.complete_state, None
        if state and state.current_completion and not state.current_completion.text.startswith("@"):
            buffer.validate_and_handle()  # a command; a message often goes on after a file

    @keys.add("enter", filter=has_focus(prompt.reply))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=in_message)
    @keys.add("c-j", filter=in_message)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-x", "c-e", filter=in_message)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()  # prompt_toolkit's own binding would send the text even after :q!

    @keys.add("c-v", filter=in_message)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("@clipboard ")  # the image on it; a terminal pastes text itself

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(prompt.pastes.shorten(text) if in_message() else text)

    return keys


def _make_chat_keys(prompt: ChatPrompt, actions: Actions) -> KeyBindings:
    keys = KeyBindings()
    is_busy = Condition(actions.is_busy)
    in_message = has_focus(prompt.message)

    @keys.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text and not actions.is_busy():
            buffer.append_to_history()
            buffer.reset()
        else:
            actions.stop()

    @keys.add("escape", filter=is_busy & ~has_completions & ~is_searching)
    def _(_event: KeyPressEvent) -> None:
        actions.stop()

    @keys.add("c-d", filter=Condition(lambda: not prompt.focused.text) & ~is_searching)
    def _(_event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("up", filter=in_message & Condition(lambda: not prompt.message.text))
    def _(event: KeyPressEvent) -> None:
        if text := actions.take_back():
            event.current_buffer.insert_text(text)
        else:
            event.current_buffer.auto_up(count=event.arg)

    @keys.add("c-z")
    def _(_event: KeyPressEvent) -> None:
        # To this thread: sent to the process, it may come after the terminal has its modes of the prompt again.
        run_in_terminal(lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP))

    @keys.add("s-tab", filter=~completion_is_selected)
    def _(_event: KeyPressEvent) -> None:
        actions.switch_mode()

    @keys.add("c-b", filter=Condition(actions.can_send_to_background))
    def _(_event: KeyPressEvent) -> None:
        actions.send_to_background()

    @keys.add("c-o")
    def _(_event: KeyPressEvent) -> None:
        actions.expand()

    return keys
