"""Commands that only show something, and the status line below the prompt."""

from __future__ import annotations

import base64
import json
import os
import re
import sys

from ....security.text.sanitize import sanitize
from ....types.messages import Response, SystemMessage, ToolResults, Usage, UserMessage
from ..state import Command, State, estimated

GAP = "  "  # between the parts of the status line
KINDS = {SystemMessage: "system prompt", UserMessage: "your messages", Response: "answers", ToolResults: "tool results"}
BAR = 30  # columns
CODE = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
PROGRAMS = (  # command, and the variable that must be set for it to work
    (("pbcopy",), ""),
    (("wl-copy",), "WAYLAND_DISPLAY"),
    (("xclip", "-selection", "clipboard"), "DISPLAY"),
    (("xsel", "--clipboard", "--input"), "DISPLAY"),
    (("clip.exe",), "WSL_DISTRO_NAME"),
)
CLIPBOARD_TIMEOUT_S = 5


def status_line(state: State, columns: int | None = None) -> str:
    """Model, path, context and tokens, for the line below the prompt.

    Drawn with every key, so it asks the server nothing. To fit `columns`, the tokens are left out, then the path.
    """
    path = f"{state.path} calls" if state.path else ""
    name, context = sanitize(state.model_name), f"context {_describe_context(state, about='~', unit='')}"
    tokens = f"tokens {_describe_usage(state.spent)}" if state.spent != Usage() else ""
    choices = ((name, path, context, tokens), (name, path, context), (name, context))
    lines = [GAP.join(filter(None, parts)) for parts in choices]
    return next((line for line in lines if columns is None or len(line) <= columns), lines[-1])


def _tools(state: State, _: str) -> None:
    from ....app.runtime import make_tools

    for tool in make_tools(state.settings):
        state.screen.say(f"  {tool.signature}\n      {tool.definition.description}")


def _models(state: State, _: str) -> None:
    for name, length in state.factory.connections.list_models().items():
        mark = "*" if name == state.model_name else " "
        state.screen.say(f"{mark} {sanitize(name)}" + (f"  {length:,} tokens" if length else ""))


def _status(state: State, _: str) -> None:
    made = state.made_bot
    rows = {
        "server": state.settings.vllm.base_url,
        "model": state.model_name,
        "tools": f"{made.model.path.mode}: {made.model.path.reason}" if made else state.path or "not needed yet",
        "workspace": str(state.settings.root),
        "context": _describe_context(state),
        "tokens": _describe_tokens(state),
    }
    state.screen.say("\n".join(f"  {name:10} {sanitize(value)}" for name, value in rows.items()))


def _context(state: State, _: str) -> None:
    """Show how full the context is, and with what."""
    sizes = dict.fromkeys(KINDS.values(), 0)
    for message in state.conversation:
        sizes[KINDS[type(message)]] += estimated([message])
    if state.beside:
        sizes["tools and form"] = max(0, state.context_used - sum(sizes.values()))
    rows = [f"    {name:14} about {size:,} tokens" for name, size in sizes.items() if size]
    length = state.context_length = state.bot().model.context_length
    bar = ""
    if length:
        filled = min(BAR, round(BAR * state.context_used / length))
        bar = f"  [{'#' * filled}{'.' * (BAR - filled)}]\n"
    state.screen.say("\n".join([f"{bar}  {_describe_context(state)}", *rows]))


def _describe_context(state: State, about: str = "about ", unit: str = " tokens") -> str:
    """How full the context is. `about` marks an estimate."""
    used, length = state.context_used, state.context_length
    about = "" if state.last else about
    return f"{about}{used:,} of {length:,}{unit} ({used / length:.0%})" if length else f"{about}{used:,}{unit}"


def _tokens(state: State, _: str) -> None:
    state.screen.say(f"  {_describe_tokens(state)}")


def _describe_tokens(state: State) -> str:
    if state.spent == Usage():
        return "none counted yet"
    last = f"; the last answer {_describe_usage(state.last)}" if state.last else ""
    return f"{_describe_usage(state.spent)} in this chat{last}"


def _describe_usage(usage: Usage) -> str:
    return f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"


def _config(state: State, words: str) -> None:
    """Show the settings; with words: those that contain them."""
    from ...commands.simple import list_settings

    rows = [
        f"  {key} = {json.dumps(value, ensure_ascii=False)}  ({place})"
        for key, value, place in list_settings(state.settings)
    ]
    shown = [sanitize(row) for row in rows if words.lower() in row.lower()]
    state.screen.say("\n".join(shown) or f"No setting matches {sanitize(words)}.")


def _copy(state: State, what: str) -> None:
    """Copy the last answer, or the last code block in it."""
    text = find_last_code(state.last_answer) if what == "code" else state.last_answer
    if not text:
        state.screen.say("The last answer contains no code block." if state.last_answer else "There is no answer yet.")
        return
    state.screen.say(f"  {len(text):,} characters copied {copy_to_clipboard(text)}")


def copy_to_clipboard(text: str) -> str:
    """Copy with a program of the system, else through the terminal (OSC 52). Returns how, in words."""
    import shutil  # start-up is measured
    import subprocess

    for command, variable in PROGRAMS:
        if (not variable or os.environ.get(variable)) and shutil.which(command[0]):
            try:
                subprocess.run(  # noqa: S603 - a program of the table above
                    command, input=text.encode(), check=True, timeout=CLIPBOARD_TIMEOUT_S, stdout=subprocess.DEVNULL
                )
            except (OSError, subprocess.SubprocessError):
                continue
            return f"with {command[0]}"
    sys.stdout.write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
    sys.stdout.flush()
    return "through the terminal, if it allows that"


def find_last_code(text: str) -> str:
    """The last code block in a Markdown text; empty if there is none."""
    blocks = CODE.findall(text)
    return str(blocks[-1][1]) if blocks else ""


def _permissions(state: State, words: str) -> None:
    """Show what runs without asking, and why."""
    from ....security.permissions.policy import PROFILES

    kept = state.factory.saved_rules
    if words == "forget":
        kept.forget()
        state.renew_bot()
        state.screen.say("  What you always allowed in this folder will be asked about again.")
        return
    if words:
        state.screen.say(
            f"Unknown word {sanitize(words)}: only /permissions forget is possible, "
            "which resets what you always allowed."
        )
        return
    security = state.settings.security
    rows = [f"  profile {security.profile}: {PROFILES[security.profile]}"]
    rows += [f"  allowed_commands: {sanitize(each)}" for each in security.allowed_commands]
    rows += [f"  rule in the settings: {sanitize(json.dumps(each, ensure_ascii=False))}" for each in security.rules]
    rows += [
        f"  always allowed in this folder: {sanitize(json.dumps(each, ensure_ascii=False))}" for each in kept.read()
    ]
    rows.append(f"  commands run in: {state.bot().sandbox or 'no sandbox'}")
    state.screen.say("\n".join(rows))


def _todos(state: State, _: str) -> None:
    todos = state.bot().todos or ()
    state.screen.say(
        "\n".join(f"  {status:12} {sanitize(content)}" for content, status in todos) or "  The list is empty."
    )


def _doctor(state: State, _: str) -> None:
    from ...commands.doctor import report

    report(lambda: state.settings)


def _expand(state: State, _: str) -> None:
    state.screen.expand()


ABOUT = (
    Command(
        "/permissions",
        "show what runs without asking; forget: reset it",
        _permissions,
        "[forget]",
        complete=lambda _: ("forget",),
    ),
    Command("/todos", "show the model's to-do list", _todos),
    Command("/doctor", "check the server, the model and the terminal", _doctor),
    Command(
        "/copy",
        "copy the last answer, or the last code block in it",
        _copy,
        "[code]",
        complete=lambda _: ("code",),
    ),
    Command("/expand", "show the last call or thought in full; again: the one before", _expand),
    Command("/models", "list the server's models", _models),
    Command("/tools", "list the tools the model can call", _tools),
    Command("/status", "show server, model, workspace, context and tokens", _status),
    Command("/context", "show how full the context is, and with what", _context),
    Command("/tokens", "show the tokens used in this chat", _tokens),
    Command("/config", "show the settings and where each comes from", _config, "[WORD]"),
)
