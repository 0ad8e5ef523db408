"""Opening a chat: what answers and where it is shown, and the first lines on the screen."""

from __future__ import annotations

import contextlib
import os
import sys

from .. import __version__
from ..config import Settings
from ..errors import ConfigError
from ..security.sanitise import plain
from . import start
from .chat import Front, converse, load_behind, new_state
from .debug import Debug
from .render import Screen


def open_chat(
    settings: Settings,
    debug: Debug,
    *,
    yes: bool,
    relearn: bool,
    resume: str | None = None,
    only_plain: bool = False,
) -> int:
    """`resume`: the session to go on with; "" is the last one. `only_plain`: whatever the terminal can do.

    Raises BotError where no model is configured and the server cannot be asked for one, or the session is not there.
    """
    screen = Screen(sys.stdout, sys.stderr, thoughts=True, styled=_styled())
    start.warn(settings, screen)
    model_name = settings.vllm.model or start.served_model(settings, screen, _choose)
    print(_banner(settings, model_name, yes=yes))
    if not only_plain and _is_full():
        from .full import run_full

        return run_full(settings, debug, model_name, yes=yes, relearn=relearn, resume=resume)
    load_behind()
    _edit_lines()
    state = new_state(settings, screen, debug, model_name, lambda: start.approver(yes), relearn=relearn)
    return converse(state, Front(), resume)


def _is_full() -> bool:
    """Whether the terminal can do more than show lines, and what that needs is installed."""
    from importlib.util import find_spec

    if "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb" or sys.platform == "win32":
        return False
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(each.isatty() for each in streams) and all(map(find_spec, ("rich", "prompt_toolkit")))


def _banner(settings: Settings, model_name: str, *, yes: bool) -> str:
    path = "native calls, text as fallback" if settings.vllm.enable_function_calling else "calls in the text only"
    asking = "write, edit and exec run without asking" if yes else "write, edit and exec ask first"
    rows = {
        "server": settings.vllm.base_url,
        "model": model_name,
        "tools": f"{path}; {asking}",
        "workspace": str(settings.root),
    }
    lines = [f"  {name:10} {plain(value)}" for name, value in rows.items()]
    return "\n".join([f"vLLM Bot {__version__}", *lines, "  /help for commands, Ctrl-D to leave"])


def _choose(names: list[str]) -> str:
    """Which of several models, asked at the terminal."""
    for number, name in enumerate(names, 1):
        print(f"  {number}  {plain(name)}")
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
    """Arrow keys and history for input(), where there is readline."""
    with contextlib.suppress(ImportError):
        import readline

        if os.environ.get("TERM") != "dumb":  # it would show the escape that asks for it
            readline.parse_and_bind("set enable-bracketed-paste on")  # lines pasted together are one question


def _styled() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
