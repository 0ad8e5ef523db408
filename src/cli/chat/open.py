"""Open a chat: find the server, print the banner, choose the screen."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ... import __version__
from ...app.discovery import ServerTarget, discover, place_server, probe_call_path
from ...app.factory import Factory
from ...config import Settings, get_user_file, write_setting
from ...config.settings import SecuritySettings
from ...errors import BotError, ConfigError, NeverReached, RequestFailed
from ...security.permissions.modes import MODES
from ...security.text.sanitize import sanitize
from ...types.events import Notice
from ...types.file_names import escape_name
from ..render.plain import PATH_DESCRIPTIONS, PlainScreen, format_model, get_columns
from ..render.words import fill
from ..render.wrap import wrap_text
from ..tracing.debug import Debug

BETTER_SANDBOX = "install bubblewrap: commands get a /tmp, loopback, shared memory"
ASK_ADDRESS = "Where is your server? HOST, HOST:PORT or a URL (Enter leaves): "


def open_chat(
    factory: Factory,
    debug: Debug,
    *,
    yes: bool,
    resume: str | None = None,
    only_plain: bool = False,
    message: str = "",
) -> int:
    """Open a chat and run it. Returns the exit code. Raises BotError.

    `resume`: the session to continue; "" is the last one. `only_plain`: never redraw, as with --plain. `message`: the
    first one.
    """
    can_dim = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    screen = PlainScreen(sys.stdout, sys.stderr, thoughts=True, styled=can_dim and not only_plain)
    target = _find_server(factory, screen)
    if not factory.settings.vllm.model:  # the server was asked for its models, so it may be asked for this
        target = probe_call_path(target)
    print(format_banner(target, yes=yes, columns=get_columns(sys.stdout)))
    if theirs := factory.trust_memory.find_untrusted():
        screen.say(f"  {', '.join(theirs)} of this folder are not used; /trust lets them in.")
    if not only_plain and _can_redraw():
        from .rich_chat import run_rich_chat

        return run_rich_chat(target, debug, yes=yes, resume=resume, message=message)
    from .plain_chat import run_plain_chat  # loads the chat: behind the banner

    return run_plain_chat(target, screen, debug, yes=yes, resume=resume, message=message)


def _find_server(factory: Factory, screen: PlainScreen) -> ServerTarget:
    """The server and model that answer; where there is no server, the user is asked for its address. Raises BotError.

    What is typed is saved in the user's settings file once it has been found to work.
    """
    try:
        return discover(factory, _choose_model, screen.draw)
    except NeverReached as error:
        if factory.settings.is_server_named or not sys.stdin.isatty():
            raise
        not_found = error
    screen.say(sanitize(not_found.message))
    while True:
        try:
            typed = input(ASK_ADDRESS).strip()
        except EOFError:
            typed = ""
        if not typed:
            raise not_found
        try:
            settings = place_server(factory.settings, typed)
            screen.draw(Notice(f"The server is at {settings.vllm.base_url}."))
            target = discover(factory.with_settings(settings), _choose_model, screen.draw)
        except (ConfigError, RequestFailed) as error:
            screen.say(sanitize(str(error)))
            continue
        screen.draw(Notice(_save_server(settings)))
        return target


def _save_server(settings: Settings) -> str:
    """Keep the address for the next time. Returns a sentence about it."""
    file = get_user_file(os.environ)
    if file is None:
        return "It is not saved: there is no home folder for a settings file."
    saved = {"vllm.base_url": settings.vllm.base_url}
    if settings.vllm.provider != "vllm":
        saved["vllm.provider"] = settings.vllm.provider
    try:
        for key, value in saved.items():
            write_setting(file, key, value)
    except ConfigError as error:
        return f"It could not be saved: {error.message}"
    return f"Saved as {' and '.join(saved)} in {file}."


def _can_redraw() -> bool:
    """Whether the terminal can redraw lines, and rich and prompt_toolkit are installed."""
    from importlib.util import find_spec

    if os.environ.get("TERM", "dumb") == "dumb" or sys.platform == "win32":
        return False
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(each.isatty() for each in streams) and all(map(find_spec, ("rich", "prompt_toolkit")))


def _choose_model(names: list[str]) -> str:
    """Ask which of several models to use. Raises BotError where the user leaves."""
    for number, name in enumerate(names, 1):
        print(f"  {number}  {sanitize(name)}")
    while True:
        try:
            answer = input("Which model? ").strip()
        except EOFError:
            print()
            raise BotError("No model was chosen.", "Name one with --model, or set vllm.model.") from None
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]


def format_banner(target: ServerTarget, *, yes: bool, columns: int = 0) -> str:
    """Lines about the server, the model and the workspace.

    `columns`: of the terminal; 0 if there is none.
    """
    settings = target.settings
    context = fill(", {:,} tokens of context", target.context)
    mode = settings.security.mode_in_force
    asking = f"mode {mode}: {MODES[mode].about}"
    if yes:
        asking = f"mode {mode}, and what asks is answered with yes"
    path = PATH_DESCRIPTIONS["text"]
    if target.path:
        path = PATH_DESCRIPTIONS[target.path.mode]
    elif settings.get_model_settings(target.model).enable_function_calling:
        path = "native tool calls, else in its text"
    rows = {
        "server": f"{settings.vllm.base_url}{fill(' (vLLM {})', target.version)}",
        "model": f"{format_model(target.model)}{context}, {path}",
        "workspace": f"{escape_name(settings.root)}; {asking}",
    }
    if settings.added:
        rows["added"] = ", ".join(map(escape_name, settings.added))
    if lacks_bubblewrap(settings.security, os.environ):
        rows["sandbox"] = BETTER_SANDBOX
    lines = [f"  {name:9}  {sanitize(value)}" for name, value in rows.items()]
    text = "\n".join([f"vLLM Bot {__version__}", *lines, "  /help for commands, Ctrl-D to leave"])
    return wrap_text(text, columns - 1)


def lacks_bubblewrap(security: SecuritySettings, environment: Mapping[str, str]) -> bool:
    """Whether commands run in a weaker sandbox, or in none, since the program of the better one is not installed."""
    if sys.platform != "linux" or not security.exec_enabled or security.sandbox == "off":
        return False
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return not any(os.access(os.path.join(folder, "bwrap"), os.X_OK) for folder in folders)  # noqa: PTH118 - start-up
