"""Standard input and output for a protocol alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserve_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of what standard input and output were.

    What threads and programs of tools print goes to standard error, and what they read is empty.
    """
    incoming, outgoing = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    yield incoming, outgoing
