"""What a tool prints goes to standard error, and nothing it raises ends the program; a signal still does."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path

import pytest

from src.tools import ToolContext, tool
from tests.each import check_rows
from tests.waiting import PATIENCE_S

CTX = ToolContext(Path("/"))


def run(function) -> str:
    """What the model is told by a tool without arguments."""
    return str(tool(function).execute({}, CTX).value)


def leave() -> str:
    """Leave."""
    sys.exit(3)


def interrupt() -> str:
    """Interrupt."""
    raise KeyboardInterrupt


async def leave_async() -> str:
    """Leave."""
    sys.exit(3)


async def interrupt_async() -> str:
    """Interrupt."""
    raise KeyboardInterrupt


def cancel() -> str:
    """Cancel, as code of asyncio does that is run by a plain function."""
    raise asyncio.CancelledError


class Untold(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise AttributeError


def break_twice() -> str:
    """Break, and break again when the error is told."""
    raise Untold


ENDINGS = [
    (cancel, "CancelledError: "),
    (break_twice, "Untold: its text cannot be made (AttributeError)"),
    (leave, "SystemExit: 3"),
    (interrupt, "KeyboardInterrupt: "),
    (leave_async, "SystemExit: 3"),
    (interrupt_async, "KeyboardInterrupt: "),
]


@check_rows("function, said", ENDINGS)
def test_what_would_end_the_program_is_an_error_of_the_tool(function, said):
    assert run(function) == f"Error executing tool: {said}"


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGQUIT, SystemExit)],
)
def test_a_signal_during_a_tool_ends_what_it_ends_elsewhere(number, error):
    def wait() -> str:
        """Wait."""
        signal.raise_signal(number)
        return "waited"

    def handle(*_: object) -> None:
        raise error

    before = signal.signal(number, handle)
    try:
        with pytest.raises(error):
            run(wait)
        assert signal.getsignal(number) is handle
    finally:
        signal.signal(number, before)


def test_a_handler_that_a_tool_sets_stays():
    def mine(*_: object) -> None: ...

    def set_handler() -> str:
        """Set a handler."""
        signal.signal(signal.SIGTERM, mine)
        return "set"

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        run(set_handler)
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_it_prints_goes_to_standard_error(capsys):
    def speak() -> str:
        """Speak."""
        print("sync")
        asyncio.run(asyncio.to_thread(print, "thread"))
        return "said"

    async def speak_async() -> str:
        """Speak."""
        print("async")
        return "said"

    stdout = sys.stdout
    assert [run(speak), run(speak_async)] == ["said", "said"]
    assert sys.stdout is stdout
    print("ours")
    assert capsys.readouterr() == ("ours\n", "sync\nthread\nasync\n")


def test_what_other_threads_print_in_the_meantime_stays_where_it_is(capsys):
    begun, printed = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        print("tool")
        begun.set()
        printed.wait(PATIENCE_S)
        return "waited"

    with_tool = threading.Thread(target=run, args=[wait])
    with_tool.start()
    begun.wait(PATIENCE_S)
    print("main")
    printed.set()
    with_tool.join()
    assert capsys.readouterr() == ("main\n", "tool\n")


def test_a_preview_is_contained_too(capsys):
    def preview(*_: object) -> str:
        print("looking")
        sys.exit(1)

    assert tool(leave, preview=preview).preview_call({}, CTX) == ""
    assert capsys.readouterr() == ("", "looking\n")
