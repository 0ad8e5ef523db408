"""Rows that are searched and taken, with keys as a terminal sends them."""

from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from src.cli.chat.input.picker import pick_row
from tests.each import check_rows

UP, DOWN, PAGE_DOWN, ESCAPE, CTRL_C, CTRL_D = "\x1b[A", "\x1b[B", "\x1b[6~", "\x1b", "\x03", "\x04"
ROWS = [(str(number), f"row {number}") for number in range(25)]


def search(typed):
    return [row for row in ROWS if typed in row[1]]


@check_rows(
    "keys, taken",
    [
        ("\r", "0"),
        (f"{DOWN}{DOWN}\r", "2"),
        (f"{DOWN}{UP}{UP}\r", "0"),
        (f"{PAGE_DOWN}\r", "10"),
        (PAGE_DOWN * 4 + "\r", "24"),
        ("24\r", "24"),
        (f"{DOWN}2{DOWN}\r", "12"),
        ("none\r\x7f\x7f\x7f\x7f3\r", "3"),
        (ESCAPE, None),
        (CTRL_C, None),
        (CTRL_D, None),
    ],
)
def test_typing_searches_arrows_move_and_enter_takes(keys, taken):
    with create_pipe_input() as terminal:
        terminal.send_text(keys)
        assert pick_row("Which?", search, input=terminal, output=DummyOutput()) == taken
