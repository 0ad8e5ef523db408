"""Commands that only show something."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

from .... import app
from ....config import list_settings
from ....negotiation.call_path import CallPath, Reason
from ....negotiation.continuity import describe_kept
from ....parsing import list_parsers
from ....providers.vllm_parsers import name_tool_parser
from ....security.permissions.modes import MODES
from ....security.text.sanitize import sanitize
from ....types.file_names import escape_name
from ....types.messages import NATIVE, TEXT, Response, SystemMessage, ToolResults, Usage, UserMessage
from ...commands.doctor import print_report
from ...render.plain import PATH_DESCRIPTIONS
from ...render.words import fill
from ..state import State, estimate_tokens
from ..status_line import describe_context
from .table import format_help

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


def run_help(state: State, _: str) -> None:
    state.screen.say("\n".join(format_help()))


def run_tools(state: State, _: str) -> None:
    tools = app.toolset.make_tools(state.settings, get_context=lambda: state.context_length)
    offered = {each.name for each in app.toolset.list_offered(state.settings, tools)}
    for tool in tools:
        if tool.definition.name in offered:
            note = "  (only named in prompts)" * bool(tool.definition.named_by)
            state.screen.say(f"  {tool.signature}{note}\n      {tool.definition.description}")
    if left_out := [each.definition.name for each in tools if each.definition.name not in offered]:
        state.screen.say(f"  Not offered in mode {state.mode}: {', '.join(left_out)}")


def run_models(state: State, _: str) -> None:
    for name, length in state.factory.connections.list_models().items():
        mark = "*" if name == state.model_name else " "
        state.screen.say(f"{mark} {sanitize(name)}{fill('  {:,} tokens', length)}")


def run_status(state: State, _: str) -> None:
    rows = {
        "server": state.settings.vllm.base_url,
        "model": state.model_name,
        "tools": PATH_DESCRIPTIONS.get(state.path, "not needed yet"),
        "workspace": escape_name(state.settings.root),
        "added": ", ".join(map(escape_name, state.settings.added)),
        "context": describe_context(state),
        "tokens": _describe_tokens(state),
    }
    state.screen.say("\n".join(f"  {name:10} {sanitize(value)}" for name, value in rows.items() if value))


def describe_path(state: State) -> list[str]:
    """How tools are called, how the calls of this conversation came, and how to have the server read them."""
    path = state.ensure_runtime().model.path
    lines = [f"{path.mode}: {PATH_DESCRIPTIONS[path.mode]}"]
    if path.reason is Reason.NO_TOKENS:
        lines.append("tokens is another way, on a server that was started with --enable-scale-out")
    elif path.reason is not Reason.DEFAULT:
        lines[0] += f"; {path.reason.value}"
    answers = (message for message in state.conversation if isinstance(message, Response))
    if origins := Counter(call.origin for answer in answers for call in answer.calls):
        ways = (f"{number:,} {CALL_ORIGINS.get(way, f'in the text ({way})')}" for way, number in origins.items())
        lines.append(f"calls so far: {', '.join(ways)}")
    return [*lines, *_suggest_parser(state, origins, path)]


def _suggest_parser(state: State, origins: Iterable[str], path: CallPath) -> list[str]:
    """How to have the server read the calls, where the formats that came or the model tell it."""
    is_missing = path.reason is Reason.NO_PARSER
    if not is_missing and path.mode != "native":
        return []
    parsers = [name for origin in origins for name in list_parsers(origin)[:1]]
    if is_missing and not parsers:  # no call has come yet in a format that tells
        root = state.factory.connections.find_root(state.model_name)
        parsers = [name_tool_parser(root, state.model_name)]
    flags = "To have the server read the calls, start it with --enable-auto-tool-choice --tool-call-parser"
    return [f"{flags} {parser}" for parser in parsers[:1]]


def run_context(state: State, _: str) -> None:
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
    state.screen.say("\n".join([f"{bar}  {describe_context(state)}", *rows]))


def run_tokens(state: State, _: str) -> None:
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


def run_config(state: State, words: str) -> None:
    """Show the settings; with words: those that contain them."""
    rows = [
        f"  {key} = {json.dumps(value, ensure_ascii=False)}  ({place})"
        for key, value, place in list_settings(state.settings)
    ]
    shown = [sanitize(row) for row in rows if words.lower() in row.lower()]
    state.screen.say("\n".join(shown) or f"No setting matches {sanitize(words)}.")


def run_copy(state: State, what: str) -> None:
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


def run_permissions(state: State, words: str) -> None:
    """Show what runs without asking, and why."""
    memory = state.factory.rule_memory
    if words == "forget":
        memory.forget()
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
        f"  always allowed in this folder: {sanitize(json.dumps(each, ensure_ascii=False))}" for each in memory.read()
    ]
    sandbox = state.ensure_runtime().sandbox
    rows.append(f"  commands run in: {sandbox.description if sandbox else 'no sandbox'}")
    state.screen.say("\n".join(rows))


def run_todos(state: State, _: str) -> None:
    todos = state.ensure_runtime().todos or ()
    state.screen.say(
        "\n".join(f"  {status:12} {sanitize(content)}" for content, status in todos) or "  The list is empty."
    )


def run_skills(state: State, _: str) -> None:
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


def run_doctor(state: State, _: str) -> None:
    print_report(lambda: state.settings)


def run_expand(state: State, _: str) -> None:
    state.expand()
