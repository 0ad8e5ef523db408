"""Signals that wait while a process is started and ended."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from src.tools.process.interrupts import HeldInterrupts


@pytest.fixture
def received():
    """The signals whose handlers ran; each handler raises KeyboardInterrupt."""
    numbers = []

    def handle(number, _):
        numbers.append(number)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    yield numbers
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_signal_is_held_until_the_end_of_the_block(received):
    with pytest.raises(KeyboardInterrupt), HeldInterrupts():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert received == []
    assert received == [signal.SIGTERM]


def test_one_that_came_before_is_raised_where_signals_are_allowed(received):
    with HeldInterrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            pytest.fail("it was not raised")
    assert received == [signal.SIGTERM]


def test_after_the_first_that_is_allowed_the_next_ones_are_held_while_it_is_handled(received):
    with pytest.raises(KeyboardInterrupt), HeldInterrupts() as interrupts, interrupts.allowed():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            assert received == [signal.SIGTERM]
    assert received == [signal.SIGTERM, signal.SIGINT]


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with HeldInterrupts() as interrupts, interrupts.allowed():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_it_does_nothing(received):
    def enter():
        with HeldInterrupts() as interrupts, interrupts.allowed():
            return True

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(enter).result()
    assert received == []
