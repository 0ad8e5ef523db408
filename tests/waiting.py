"""Waiting for what another process or thread does. A bound only ends what hangs: no test says how long a thing takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

PATIENCE_S = 180.0  # then it hangs, on however busy a machine
POLL_S = 0.02
CLOCK_FACTORS = 1, 10, 60


# A command that prints the status of an answer and its text, or why there is none: a bare machine has no curl. It asks
# again while nobody listens, as often as `tries` says.
FETCH = """python3 -c "
import http.client, sys, threading
url, tries = sys.argv[1:]
for left in reversed(range(int(tries))):
    link = http.client.HTTPConnection(url.partition('/')[0])
    try:
        link.request('GET', '/' + url.partition('/')[2])
    except OSError as error:
        if not left: sys.exit(f'connect: {error}')
        threading.Event().wait(0.1)
        continue
    try:
        answer = link.getresponse()
    except OSError as error:
        sys.exit(f'no answer: {error}')
    print(answer.status, answer.read().decode())
    break
" """

# For a shell: a process in the background that has ended, and is no child of the shell itself.
ONE_HAS_ENDED = 'pid=$( (true >&- & echo $!) ); while grep -qs ") [^Z]" /proc/$pid/stat; do sleep 0.01; done'


def wait_until(condition: Callable[[], object], what: str) -> None:
    """`what` is said of a condition that does not come true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        threading.Event().wait(POLL_S)


def try_clocks(check: Callable[[float], None]) -> None:
    """Pass if `check` passes with the clocks of a test as they are, or so many times as long.

    A short clock that must run out keeps a test quick, but on a busy machine it runs out before what it is about.
    """
    *first, last = CLOCK_FACTORS
    for factor in first:
        with suppress(AssertionError):
            return check(factor)
    return check(last)
