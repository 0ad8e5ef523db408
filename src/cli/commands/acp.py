"""`vllm-bot acp`: the agent in an editor, over the Agent Client Protocol. See docs/editors.md."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ...acp.greeting import SETUP_OPTION
from ...config import Settings
from ...errors import ConfigError
from ..arguments import load_settings

WAITING = "vllm-bot acp waits for an editor on standard input; docs/editors.md shows how one starts it. Ctrl-C ends it."


def add_acp_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(SETUP_OPTION, action="store_true", help="ask for the server's address and key, and save them")


def run_acp(options: argparse.Namespace) -> int:
    """Runs until the editor closes standard input. Raises ConfigError."""
    if options.setup:
        from ..setup import set_up

        return set_up(load_settings(options))
    if not find_spec("acp"):
        raise ConfigError(
            "An editor's protocol needs agent-client-protocol.", "Install it: pip install 'vllm-bot[acp]'"
        )
    if sys.stdin.isatty():
        print(WAITING, file=sys.stderr, flush=True)
    from ...acp.run import serve_editor

    def make_settings(folder: Path) -> Settings:
        return load_settings(options, **{"workspace.dir": str(folder)})

    with _reserve_streams() as (incoming, outgoing):
        serve_editor(make_settings, incoming, outgoing)
    return 0


@contextmanager
def _reserve_streams() -> Iterator[tuple[int, int]]:
    """Standard input and output for the protocol alone.

    What threads and programs of tools print goes to standard error, and what they read is empty.
    """
    incoming, outgoing = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    yield incoming, outgoing
