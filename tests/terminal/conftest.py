"""Chats on a full terminal."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from .terminal import Server, Terminal


@pytest.fixture
def open_chat(tmp_path):
    """Opens a terminal with a chat on it, whose server answers with the scripts, and waits for its prompt."""
    with ExitStack() as stack:

        def start(*scripts, fresh=False, **options):
            server = stack.enter_context(Server(*scripts))
            terminal = stack.enter_context(Terminal(tmp_path, server, fresh=fresh, **options))
            terminal.prompts()
            return terminal

        yield start
