"""Opening a chat: finding the server, choosing the screen, printing the banner."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from ... import __version__
from ...app import discovery, factory
from ...app.discovery import Met
from ...config import Settings
from ...errors import ConfigError
from ...security.text.sanitize import sanitize
from ..render.plain import PlainScreen, get_columns
from ..render.wrap import wrap_text
from ..tracing.debug import Debug

PATHS = {
    "native": "native tool calls",
    "template": "tool calls read from its text (its template shows the tools)",
    "text": "tool calls in its text",
}


def open_chat(
    settings: Settings,
    debug: Debug,
    *,
    yes: bool,
    relearn: bool,
    resume: str | None = None,
    only_plain: bool = False,
) -> int:
    """`resume`: the session to continue; "" is the last one. `only_plain`: as with --plain. Raises BotError."""
    screen = PlainScreen(sys.stdout, sys.stderr, thoughts=True, styled=_styled() and not only_plain)
    factory.warn(settings, screen)
    met = discovery.meet(settings, screen, _choose, time.sleep)
    if not settings.vllm.model:  # the server has been asked already: it may show this, too
        met = discovery.with_path(met)
    print(banner(met, yes=yes, columns=get_columns(sys.stdout)))
    if not only_plain and _is_full():
        from .rich_chat import run_full

        return run_full(met, debug, yes=yes, relearn=relearn, resume=resume)
    from .input.approve import choose_approver
    from .loop import Front, converse, load_behind, new_state

    _edit_lines()
    state = new_state(met, screen, debug, lambda: choose_approver(yes, met.settings), relearn=relearn)
    load_behind()
    return converse(state, Front(), resume)


def _is_full() -> bool:
    """Whether the terminal supports redrawing, and rich and prompt_toolkit are installed."""
    from importlib.util import find_spec

    if "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb" or sys.platform == "win32":
        return False
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(each.isatty() for each in streams) and all(map(find_spec, ("rich", "prompt_toolkit")))


def _choose(names: list[str]) -> str:
    """Ask which of several models to use."""
    for number, name in enumerate(names, 1):
        print(f"  {number}  {sanitize(name)}")
    while True:
        try:
            answer = input("Which model? ").strip()
        except EOFError:
            print()
            raise ConfigError("No model was chosen.", "Name one with --model, or set vllm.model.") from None
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]


def _edit_lines() -> None:
    """Arrow keys and history for input(), if readline is available."""
    with contextlib.suppress(ImportError):
        import readline

        if os.environ.get("TERM") != "dumb":  # it would show the escape that asks for it
            readline.parse_and_bind("set enable-bracketed-paste on")  # lines pasted together are one question


def _styled() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def banner(met: Met, *, yes: bool, columns: int = 0) -> str:
    """Lines about the server, the model and the workspace.

    `columns`: of the terminal; 0 if there is none.
    """
    settings = met.settings
    context = f", {met.context:,} tokens of context" if met.context else ""
    asking = "write, edit and exec run without asking" if yes else "write, edit and exec ask first"
    rows = {
        "server": f"{settings.vllm.base_url}{f' (vLLM {met.version})' if met.version else ''}",
        "model": f"{met.model}{context}, {_path(met)}",
        "workspace": f"{settings.root}; {asking}",
    }
    lines = [f"  {name:9}  {sanitize(value)}" for name, value in rows.items()]
    text = "\n".join([f"vLLM Bot {__version__}", *lines, "  /help for commands, Ctrl-D to leave"])
    return wrap_text(text, columns - 1) if columns else text


def _path(met: Met) -> str:
    if met.path:
        return PATHS[met.path.mode]
    return "native tool calls, else in its text" if met.settings.vllm.enable_function_calling else PATHS["text"]
