"""Commands that only show something, and the status line below the prompt."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .... import app
from ....config import list_settings
from ....security.permissions.modes import MODES
from ....security.text.sanitize import sanitize
from ....types.file_names import escape_name
from ....types.messages import NATIVE, TEXT, Response, SystemMessage, ToolResults, Usage, UserMessage
from ...render.plain import PATH_DESCRIPTIONS, format_model
from ...render.words import count, fill
from ..state import SlashCommand, State, estimate_tokens

if TYPE_CHECKING:
    from ....negotiation.call_path import CallPath

GAP = "  "  # between the parts of the status line
MESSAGE_KINDS = {
    SystemMessage: "system prompt",
    UserMessage: "your messages",
    Response: "answers",
    ToolResults: "tool results",
}
CALL_ORIGINS = {NATIVE: "native", TEXT: "in the text"}
BAR_COLUMNS = 30
CODE_BLOCK = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
CLIPBOARD_PROGRAMS = (  # command, and the variable that must be set for it to work
    (("pbcopy",), ""),
    (("wl-copy",), "WAYLAND_DISPLAY"),
    (("xclip", "-selection", "clipboard"), "DISPLAY"),
    (("xsel", "--clipboard", "--input"), "DISPLAY"),
    (("clip.exe",), "WSL_DISTRO_NAME"),
)
CLIPBOARD_TIMEOUT_S = 5


def format_status_line(state: State, columns: int | None = None) -> str:
    """Mode, model, path, context, git branch, jobs and tokens, for the line below the prompt.

    Drawn with every key, so it asks the server nothing. To fit `columns`, the tokens are left out, then the branch,
    then the path, then the context, then the model.
    """
    path, effort = fill("{} calls", state.path), fill("think {}", state.effort)
    name, context = format_model(state.model_name), f"context {_describe_context(state, about='~', unit='')}"
    mode = f"mode {state.mode}{', commands ask' * state.commands_ask}"
    branch, jobs, tokens = fill("git {}", state.branch), "", ""
    if state.workplace and (running := state.workplace.jobs.running):
        jobs = count(len(running), "job")
    if usage := state.last_usage:  # what the turn added, and how much of its last prompt was in the cache
        cached = fill(", {:.0%} cached", usage.cached_tokens / (usage.input_tokens or 1))
        tokens = f"turn {state.turn_input:,} in, {state.turn_output:,} out{cached}"
    choices = (
        (mode, name, effort, path, context, branch, jobs, tokens),
        (mode, name, effort, path, context, branch, jobs),
        (mode, name, effort, path, context, jobs),
        *((mode, name, effort, context, jobs), (mode, name, effort, jobs), (mode, name)),
    )
    lines = [GAP.join(filter(None, parts)) for parts in choices]
    return next((line for line in lines if columns is None or len(line) <= columns), mode)


def _list_tools(state: State, _: str) -> None:
    tools = app.toolset.make_tools(state.settings, get_context=lambda: state.context_length)
    offered = {each.name for each in app.toolset.list_offered(state.settings, tools)}
    for tool in tools:
        if tool.definition.name in offered:
            note = "  (only named in prompts)" * bool(tool.definition.named_by)
            state.screen.say(f"  {tool.signature}{note}\n      {tool.definition.description}")
    if left_out := [each.definition.name for each in tools if each.definition.name not in offered]:
        state.screen.say(f"  Not offered in mode {state.mode}: {', '.join(left_out)}")


def _list_models(state: State, _: str) -> None:
    for name, length in state.factory.connections.list_models().items():
        mark = "*" if name == state.model_name else " "
        state.screen.say(f"{mark} {sanitize(name)}{fill('  {:,} tokens', length)}")


def _show_status(state: State, _: str) -> None:
    rows = {
        "server": state.settings.vllm.base_url,
        "model": state.model_name,
        "tools": PATH_DESCRIPTIONS.get(state.path, "not needed yet"),
        "workspace": escape_name(state.settings.root),
        "added": ", ".join(map(escape_name, state.settings.added)),
        "context": _describe_context(state),
        "tokens": _describe_tokens(state),
    }
    state.screen.say("\n".join(f"  {name:10} {sanitize(value)}" for name, value in rows.items() if value))


def describe_path(state: State) -> list[str]:
    """How tools are called, how the calls of this conversation came, and how to have the server read them."""
    from ....negotiation.call_path import BY_DEFAULT, NO_TOKENS  # start-up is measured

    path = state.ensure_runtime().model.path
    lines = [f"{path.mode}: {PATH_DESCRIPTIONS[path.mode]}"]
    if path.reason == NO_TOKENS:
        lines.append("tokens is another way, on a server that was started with --enable-scale-out")
    elif path.reason != BY_DEFAULT:
        lines[0] += f"; {path.reason}"
    answers = (message for message in state.conversation if isinstance(message, Response))
    if origins := Counter(call.origin for answer in answers for call in answer.calls):
        ways = (f"{number:,} {CALL_ORIGINS.get(way, f'in the text ({way})')}" for way, number in origins.items())
        lines.append(f"calls so far: {', '.join(ways)}")
    return [*lines, *_suggest_parser(state, origins, path)]


def _suggest_parser(state: State, origins: Iterable[str], path: CallPath) -> list[str]:
    """How to have the server read the calls, where the formats that came or the model tell it."""
    from ....negotiation.call_path import NO_PARSER  # start-up is measured
    from ....parsing import list_parsers
    from ....providers.vllm_parsers import name_tool_parser

    is_missing = path.reason == NO_PARSER
    if not is_missing and path.mode != "native":
        return []
    parsers = [name for origin in origins for name in list_parsers(origin)[:1]]
    if is_missing and not parsers:  # no call has come yet in a format that tells
        root = state.factory.connections.find_root(state.model_name)
        parsers = [name_tool_parser(root, state.model_name)]
    flags = "To have the server read the calls, start it with --enable-auto-tool-choice --tool-call-parser"
    return [f"{flags} {parser}" for parser in parsers[:1]]


def _show_context(state: State, _: str) -> None:
    """Show how full the context is, and with what."""
    sizes = dict.fromkeys(MESSAGE_KINDS.values(), 0)
    for message in state.conversation:
        sizes[MESSAGE_KINDS[type(message)]] += estimate_tokens([message])
    if state.overhead_tokens:
        sizes["tools and form"] = max(0, state.context_used - sum(sizes.values()))
    rows = [f"    {name:14} about {size:,} tokens" for name, size in sizes.items() if size]
    length = state.context_length = state.ensure_runtime().model.context_length
    bar = ""
    if length:
        filled = min(BAR_COLUMNS, round(BAR_COLUMNS * state.context_used / length))
        bar = f"  [{'#' * filled}{'.' * (BAR_COLUMNS - filled)}]\n"
    state.screen.say("\n".join([f"{bar}  {_describe_context(state)}", *rows]))


def _describe_context(state: State, about: str = "about ", unit: str = " tokens") -> str:
    """How full the context is. `about` marks an estimate."""
    used, length = state.context_used, state.context_length
    if state.last_usage:
        about = ""
    if not length:
        return f"{about}{used:,}{unit}"
    return f"{about}{used:,} of {length:,}{unit} ({used / length:.0%})"


def _show_tokens(state: State, _: str) -> None:
    usage, clock = state.last_usage or Usage(), state.clock
    speeds = {"prompt read": clock.prefill, "written": clock.decode}
    rates = ", ".join(f"{what} at {speed:,.0f} tokens/s" for what, speed in speeds.items() if speed)
    rows = [
        _describe_tokens(state),
        f"{usage.cached_tokens:,} of the last prompt's {usage.input_tokens:,} were in the server's cache"
        * bool(usage.cached_tokens),
        f"the last answer: {rates}" * bool(rates),
        *_describe_continuity(state),
    ]
    state.screen.say("\n".join(f"  {row}" for row in rows if row))


def _describe_continuity(state: State) -> list[str]:
    """What of the last turn the server could use again, and what becomes of thoughts."""
    if state.runtime is None:
        return []
    from ....negotiation.continuity import describe_kept  # start-up is measured

    core = state.runtime.model.core
    thoughts = f"earlier thoughts: {core.thoughts}"
    if core.kept is None:
        return [thoughts]
    return [describe_kept(core.kept), thoughts]


def _describe_tokens(state: State) -> str:
    if state.total_usage == Usage():
        return "none counted yet"
    total = f"{_describe_usage(state.total_usage)} in this chat"
    if state.last_usage is None:
        return total
    return f"{total}; the last answer {_describe_usage(state.last_usage)}"


def _describe_usage(usage: Usage) -> str:
    return f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"


def _show_settings(state: State, words: str) -> None:
    """Show the settings; with words: those that contain them."""
    rows = [
        f"  {key} = {json.dumps(value, ensure_ascii=False)}  ({place})"
        for key, value, place in list_settings(state.settings)
    ]
    shown = [sanitize(row) for row in rows if words.lower() in row.lower()]
    state.screen.say("\n".join(shown) or f"No setting matches {sanitize(words)}.")


def _copy(state: State, what: str) -> None:
    """Copy the last answer, or the last code block in it."""
    text = state.last_answer
    if not text:
        state.screen.say("There is no answer yet.")
        return
    if what == "code":
        text = find_last_code(text)
    if not text:
        state.screen.say("The last answer contains no code block.")
        return
    state.screen.say(f"  {len(text):,} characters copied {copy_to_clipboard(text)}")


def copy_to_clipboard(text: str) -> str:
    """Copy with a program of the system, else through the terminal (OSC 52). Returns how, in words."""
    import shutil  # start-up is measured
    import subprocess

    for command, variable in CLIPBOARD_PROGRAMS:
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
    *_, last = [None, *CODE_BLOCK.finditer(text)]
    if last is None:
        return ""
    return str(last[2])


def _show_permissions(state: State, words: str) -> None:
    """Show what runs without asking, and why."""
    kept = state.factory.rule_memory
    if words == "forget":
        kept.forget()
        state.discard_runtime()
        state.screen.say("  What you always allowed in this folder will be asked about again.")
        return
    if words:
        state.screen.say(
            f"Unknown word {sanitize(words)}: only /permissions forget is possible, "
            "which resets what you always allowed."
        )
        return
    security = state.settings.security
    mode = security.mode_in_force
    rows = [f"  mode {mode}: {MODES[mode].about}"]
    rows += [f"  allowed_commands: {sanitize(each)}" for each in security.allowed_commands]
    rows += [f"  rule in the settings: {sanitize(json.dumps(each, ensure_ascii=False))}" for each in security.rules]
    rows += [
        f"  always allowed in this folder: {sanitize(json.dumps(each, ensure_ascii=False))}" for each in kept.read()
    ]
    sandbox = state.ensure_runtime().sandbox
    rows.append(f"  commands run in: {sandbox.description if sandbox else 'no sandbox'}")
    state.screen.say("\n".join(rows))


def _show_todos(state: State, _: str) -> None:
    todos = state.ensure_runtime().todos or ()
    state.screen.say(
        "\n".join(f"  {status:12} {sanitize(content)}" for content, status in todos) or "  The list is empty."
    )


def _list_skills(state: State, _: str) -> None:
    loaded = state.skills
    for skill in loaded.skills.values():
        kind = "command" if skill.is_command else "skill"
        state.screen.say(f"  /{skill.name}  {kind}: {sanitize(skill.description)}\n      {escape_name(skill.path)}")
    for problem in loaded.problems:
        state.screen.say(f"! {problem}")
    if left_out := state.factory.trust_memory.find_untrusted():
        state.screen.say(f"  Not used: {', '.join(left_out)} of this folder. /trust uses them.")
    elif not loaded.skills and not loaded.problems:
        state.screen.say("  There are none; docs/chat.md says where they are looked for.")


def _run_doctor(state: State, _: str) -> None:
    from ...commands.doctor import print_report

    print_report(lambda: state.settings)


INFO_COMMANDS = (
    SlashCommand(
        "/permissions",
        "show what runs without asking; forget: reset it",
        _show_permissions,
        "[forget]",
        complete=lambda _: ("forget",),
    ),
    SlashCommand("/todos", "show the model's to-do list", _show_todos),
    SlashCommand("/skills", "list the skills and commands that you, or a trusted folder, bring", _list_skills),
    SlashCommand("/doctor", "check the server, the model and the terminal", _run_doctor, takes_terminal=True),
    SlashCommand(
        "/copy",
        "copy the last answer, or the last code block in it",
        _copy,
        "[code]",
        complete=lambda _: ("code",),
    ),
    SlashCommand(
        "/expand",
        "show the last call or thought in full; again: the one before",
        lambda state, _: state.expand(),
    ),
    SlashCommand("/models", "list the server's models", _list_models),
    SlashCommand("/tools", "list the tools the model can call in this mode", _list_tools),
    SlashCommand("/status", "show server, model, workspace, context and tokens", _show_status),
    SlashCommand("/context", "show how full the context is, and with what", _show_context),
    SlashCommand("/tokens", "show the tokens used in this chat", _show_tokens),
    SlashCommand("/config", "show the settings and where each comes from", _show_settings, "[WORD]"),
)
