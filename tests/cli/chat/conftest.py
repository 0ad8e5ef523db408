"""A chat without a terminal."""

import io

import pytest

from src.cli.chat.state import State
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings


@pytest.fixture
def aside():
    """What the chat tells its user beside the answers."""
    return io.StringIO()


@pytest.fixture
def state(tmp_path, aside):
    screen = PlainScreen(io.StringIO(), aside, thoughts=False, styled=False)
    state = State(Settings(root=tmp_path), screen, Debug(0), lambda _: None, "tiny")
    state.known_path, state.context_length = "native", 16_384
    return state
