"""`vllm-bot acp`: the agent in an editor, over the Agent Client Protocol. See docs/editors.md."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ...acp.greeting import SETUP_OPTION
from ...config import Settings, read_debug_level
from ...errors import ConfigError
from ..load_settings import load_settings
from ..pipes import reserve_streams

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

    def make_settings(folder: Path, added: Sequence[str]) -> Settings:
        folders: dict[str, object] = {"workspace.add_dirs": added} if added else {}
        return load_settings(options, **{"workspace.dir": str(folder), **folders})

    with reserve_streams() as (incoming, outgoing):
        serve_editor(make_settings, incoming, outgoing, tracebacks=bool(read_debug_level(os.environ)))
    return 0
