"""Long pastes in the line, and its completions."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import DummyOutput

from src.cli.chat.input.keys import Actions, make_key_bindings
from src.cli.chat.input.prompt import ChatPrompt, Pastes
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_long_paste_is_a_note_that_counts_its_lines_and_is_sent_in_full(end):
    pastes, text = Pastes(), "\n".join(["x"] * 30) + end
    assert pastes.shorten(text) == "[pasted text 1: 30 lines]"
    assert pastes.expand("See [pasted text 1: 30 lines].") == f"See {text}."


def test_one_long_line_counts_in_characters():
    assert Pastes().shorten("x" * 5000) == "[pasted text 1: 5,000 characters]"


def test_a_short_paste_stands_in_the_line():
    assert Pastes().shorten("a\nb\n") == "a\nb\n"


class SlowSkills:
    """Those of a chat; the first search for them goes on until `released`."""

    def __init__(self, is_searching):
        self.is_searching = is_searching
        self.released = threading.Event()
        self.skills = self

    def values(self):
        if not self.released.is_set():
            self.is_searching()
            self.released.wait(PATIENCE_S)
        return ()


def test_a_line_is_completed_though_the_one_before_is_still_searched_for():
    async def type_two_lines(terminal):
        searching, typed, completed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        skills = SlowSkills(lambda: loop.call_soon_threadsafe(searching.set))
        prompt = ChatPrompt(SimpleNamespace(skills=skills), None, lambda _: False, lambda _: False)
        message = prompt.message
        message.on_text_changed += lambda _: typed.set() if message.text == "/he" else None
        message.on_completions_changed += lambda _: completed.set() if is_completed(message) else None
        actions = Actions(*[lambda: False] * len(Actions._fields))
        keys = make_key_bindings(prompt, actions)
        application = Application(Layout(prompt.container, message), key_bindings=keys)
        running = asyncio.create_task(application.run_async())
        terminal.send_text("/stat")
        await searching.wait()
        terminal.send_text("\r/he")
        await typed.wait()
        skills.released.set()
        await asyncio.wait_for(completed.wait(), PATIENCE_S)
        application.exit()
        await running

    def is_completed(message):
        state = message.complete_state
        return state and [each.text for each in state.completions] == ["/help"]

    with create_pipe_input() as terminal, create_app_session(terminal, DummyOutput()):
        asyncio.run(type_two_lines(terminal))
