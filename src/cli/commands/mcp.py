"""`vllm-bot mcp`: the agent as a tool of other agents, over the Model Context Protocol. See docs/mcp.md."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ...config import Settings
from ...errors import ConfigError
from ...security.permissions.modes import MODES
from ..load_settings import load_settings
from ..pipes import reserve_streams

if TYPE_CHECKING:
    from ...mcp.server import DelegateServer

WAITING = "vllm-bot mcp waits for an MCP client on standard input; docs/mcp.md shows how one starts it. Ctrl-C ends it."
LISTENING = "vllm-bot mcp: http://{address}/mcp for tasks below {roots}, in mode {mode}. Ctrl-C ends it."
DEFAULT_MODE = "plan"
MAKE_KEY = "`vllm-bot serve --new-key FILE` makes a key."


def add_mcp_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--root",
        metavar="DIR",
        action="append",
        help="tasks may work in this folder and those below; may be repeated (default: the workspace)",
    )
    add("--listen", metavar="HOST:PORT", help="serve HTTP there, in place of standard input and output")
    add("--keys", metavar="FILE", help="digests of the keys of HTTP clients; `serve --new-key FILE` makes one")


def run_mcp(options: argparse.Namespace) -> int:
    """Runs until the client closes standard input; with --listen until SIGINT or SIGTERM. Raises ConfigError."""
    if not find_spec("mcp"):
        raise ConfigError("The Model Context Protocol needs mcp.", "Install it: pip install 'vllm-bot[mcp]'")
    if bool(options.listen) != bool(options.keys):
        raise ConfigError("--listen and --keys belong together: over HTTP every client has a key.", MAKE_KEY)
    delegate = make_delegate(options)
    from ...app.keys import read_keys
    from ...app.listening import find_free, parse_listen
    from ...mcp.server import serve_http, serve_pipes

    if options.listen:
        keys = read_keys(Path(options.keys))
        address = find_free("The MCP server", parse_listen(options.listen, "--listen"))
        named = ", ".join(map(str, delegate.roots))
        print(LISTENING.format(address=address, roots=named, mode=delegate.mode), file=sys.stderr, flush=True)
        serve_http(delegate, address, keys)
        return 0
    if sys.stdin.isatty():
        print(WAITING, file=sys.stderr, flush=True)
    with reserve_streams() as (incoming, outgoing):
        serve_pipes(delegate, incoming, outgoing)
    return 0


def make_delegate(options: argparse.Namespace) -> DelegateServer:
    """The tool, under the settings of the command line. Raises ConfigError."""
    if not options.mode and not options.profile:
        options.mode = DEFAULT_MODE
    settings = load_settings(options)
    roots: list[Path] = []
    for named in options.root or [str(settings.root)]:
        roots.append(Path(named).expanduser().resolve())
        if not roots[-1].is_dir():
            raise ConfigError(f"--root: there is no folder {named}.")
    from ...mcp.server import DelegateServer

    def make_settings(folder: Path) -> Settings:
        # The roots bound what another agent reaches: more folders have to be named beside them.
        return load_settings(options, **{"workspace.dir": str(folder), "workspace.add_dirs": options.add_dir or []})

    mode = settings.security.mode_in_force
    return DelegateServer(make_settings, roots, mode, MODES[mode].about)
