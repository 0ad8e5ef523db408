"""Commands that only show something."""

from __future__ import annotations

import json

from ....app import connect, factory
from ....security.text.sanitize import plain
from ....types.messages import Response, SystemMessage, ToolResults, Usage, UserMessage
from ..state import Command, State, estimated

KINDS = {SystemMessage: "system prompt", UserMessage: "your messages", Response: "answers", ToolResults: "tool results"}
BAR = 30  # columns


def _tools(state: State, _: str) -> None:
    for tool in factory.tools(state.settings):
        state.screen.say(f"  {tool.signature}\n      {tool.definition.description}")


def _models(state: State, _: str) -> None:
    for name, length in connect.models(state.settings).items():
        mark = "*" if name == state.model_name else " "
        state.screen.say(f"{mark} {plain(name)}" + (f"  {length:,} tokens" if length else ""))


def _status(state: State, _: str) -> None:
    made = state.made_bot
    rows = {
        "server": state.settings.vllm.base_url,
        "model": state.model_name,
        "tools": f"{made.model.path.mode}: {made.model.path.why}" if made else state.path or "not needed yet",
        "workspace": str(state.settings.root),
        "context": _context_line(state),
        "tokens": _tokens_line(state),
    }
    state.screen.say("\n".join(f"  {name:10} {plain(value)}" for name, value in rows.items()))


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
    state.screen.say("\n".join([f"{bar}  {_context_line(state)}", *rows]))


def _context_line(state: State) -> str:
    used = state.context_used
    about = "" if state.last else "about "
    length = state.context_length
    return f"{about}{used:,} of {length:,} tokens ({used / length:.0%})" if length else f"{about}{used:,} tokens"


def _tokens(state: State, _: str) -> None:
    state.screen.say(f"  {_tokens_line(state)}")


def _tokens_line(state: State) -> str:
    if state.spent == Usage():
        return "none counted yet"
    last = f"; the last answer {state.last.input_tokens:,} in, {state.last.output_tokens:,} out" if state.last else ""
    return f"{state.spent.input_tokens:,} in, {state.spent.output_tokens:,} out in this chat{last}"


def _config(state: State, words: str) -> None:
    """Show the settings; with words: those that contain them."""
    from ...commands.config import in_force

    rows = [
        f"  {key} = {json.dumps(value, ensure_ascii=False)}  ({place})"
        for key, value, place in in_force(state.settings)
    ]
    shown = [plain(row) for row in rows if words.lower() in row.lower()]
    state.screen.say("\n".join(shown) or f"No setting matches {plain(words)}.")


def _copy(state: State, what: str) -> None:
    """Copy the last answer, or the last code block in it."""
    from .clipboard import copied, last_code

    text = last_code(state.last_answer) if what == "code" else state.last_answer
    if not text:
        state.screen.say("The last answer contains no code block." if state.last_answer else "There is no answer yet.")
        return
    state.screen.say(f"  {len(text):,} characters copied {copied(text)}")


def _permissions(state: State, words: str) -> None:
    """Show what runs without asking, and why."""
    from ....security.permissions.policy import PROFILES

    kept = factory.allowed(state.settings)
    if words == "forget":
        kept.forget()
        state.renew_bot()
        state.screen.say("  What you always allowed in this folder will be asked about again.")
        return
    if words:
        state.screen.say(
            f"Unknown word {plain(words)}: only /permissions forget is possible, which resets what you always allowed."
        )
        return
    security = state.settings.security
    rows = [f"  profile {security.profile}: {PROFILES[security.profile]}"]
    rows += [f"  allowed_commands: {plain(each)}" for each in security.allowed_commands]
    rows += [f"  rule in the settings: {plain(json.dumps(each, ensure_ascii=False))}" for each in security.rules]
    rows += [f"  always allowed in this folder: {plain(json.dumps(each, ensure_ascii=False))}" for each in kept.rules()]
    rows.append(f"  commands run in: {state.bot().sandbox or 'no sandbox'}")
    state.screen.say("\n".join(rows))


def _todos(state: State, _: str) -> None:
    todos = state.bot().todos or ()
    state.screen.say(
        "\n".join(f"  {status:12} {plain(content)}" for content, status in todos) or "  The list is empty."
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
