"""Commands that change what happens next: model, path, new conversation, what is shown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .... import app
from ....app.discovery import locate_model
from ....config.settings import CALL_PATHS
from ....errors import BotError
from ....negotiation import MODES
from ....providers.thinking import find_thinking
from ....security.permissions.approval import MODE_AFTER_PLAN, PLAN_REASON, SUBMIT_PLAN, Answer, Request
from ....security.permissions.modes import MODES as RUN_MODES
from ....security.text.sanitize import sanitize
from ....tools.process.jobs import BackgroundJob
from ....tools.sdk.tool_search import describe_savings
from ....types.events import Notice
from ....types.file_names import escape_name
from ....types.messages import ToolCall
from ....types.special_tokens import neutralize_with_note
from ...render.words import count, fill
from ..input.programs import edit_text
from ..state import State
from .info import describe_path

if TYPE_CHECKING:
    from ....tools.sources.mcp import McpServer, McpServers

UNKNOWN_EFFORT = "Set vllm.chat_template_kwargs or vllm.reasoning_effort, see docs/configuration.md."
MAX_JOB_LINES = 20  # of the output of a command in the background
JOB_END_S = 10.0  # longest wait for one that is ended
DEBUG_LEVELS = {"off": 0, "on": 1, "bodies": 2}
THINKING = {
    "fold": "thoughts are shown as they come, then folded to one line; /expand shows the last one",
    "show": "thoughts are shown in full",
    "hide": "thoughts are not shown",
}
INIT_PROMPT = """\
Write the file AGENTS.md for this folder: what an agent that works here must know. Look first: list the files, read the
README and what configures building and testing. Then write, in at most 60 lines: what the project is, how it is laid
out, the exact commands to set up, run, test and check it, and the conventions its code keeps to. Leave out what you did
not see. If there is an AGENTS.md already, keep what still holds and improve the rest."""


def _is_one_of(state: State, what: str, word: str, words: Iterable[str]) -> bool:
    """Whether the word is one of these, or empty; the user is told if not."""
    if word and word not in words:
        state.screen.say(f"There is no {what} {sanitize(word)}. Choose one of {', '.join(words)}.")
        return False
    return True


def run_exit(state: State, _: str) -> None:
    state.should_exit = True


def run_new(state: State, _: str) -> None:
    state.start_conversation()
    state.screen.say("New conversation.")


def run_clear(state: State, _: str) -> None:
    state.screen.wipe()
    run_new(state, "")


def run_model(state: State, name: str) -> None:
    """Show the model and the servers, or switch to another model, which may be on another server."""
    if not name:
        state.screen.say("\n".join(_list_models_and_servers(state)))
        return
    settings = locate_model(state.settings, name)
    is_elsewhere = settings.server != state.settings.server
    state.switch_model(settings)
    name = settings.vllm.model
    if is_elsewhere:
        name += f" at {settings.server} ({settings.vllm.base_url})"
    state.screen.say(f"  {sanitize(name)} now answers.")


def _list_models_and_servers(state: State) -> Iterable[str]:
    servers = state.settings.servers
    yield f"  {sanitize(state.model_name)}; /models lists what the server serves, /model NAME switches"
    for name, vllm in servers.items():
        mark = "*" if name == state.settings.server else " "
        yield sanitize(f"{mark} {name:10} {vllm.base_url}  {vllm.model}".rstrip())
    if servers:
        yield "  /model SERVER or SERVER:MODEL switches to another server; the conversation is kept"


def run_path(state: State, mode: str) -> None:
    """Show the call path and the reason for it, or switch to another one."""
    model = state.ensure_runtime().model
    if _is_one_of(state, "path", mode, MODES):
        for each in MODES:
            if each == mode:
                model.path = model.path.choose(each)
        state.screen.say("\n".join(f"  {sanitize(line)}" for line in describe_path(state)))


def run_mode(state: State, mode: str) -> None:
    """Show the modes, or switch to another one."""
    if mode in RUN_MODES:
        state.switch_mode(mode)
        state.screen.say(f"  mode {mode}: {RUN_MODES[mode].about}")
    elif _is_one_of(state, "mode", mode, RUN_MODES):
        marks = dict.fromkeys(RUN_MODES, " ") | {state.mode: "*"}
        state.screen.say("\n".join(f"{marks[name]} {name:6} {row.about}" for name, row in RUN_MODES.items()))


def run_plan(state: State, _: str) -> None:
    """Have the user accept, edit or send back the last answer, as the plan that mode plan ends in."""
    plan = state.last_answer.strip()
    if state.mode != "plan" or not plan:
        why = "There is no answer yet."
        if state.mode != "plan":
            why = f"This is mode {state.mode}."
        state.screen.say(f"{why} In mode plan, /plan accepts the last answer as the plan, or sends it back.")
        return

    def make_request(call: ToolCall) -> Request:
        return Request(call, PLAN_REASON, make_request, needs_person=True)

    reply = state.ensure_runtime().agent.approver.approve(make_request(ToolCall("", SUBMIT_PLAN, {"plan": plan})))
    answer = reply if isinstance(reply, Answer) else reply.result()
    if answer.allowed is True:
        state.switch_mode(MODE_AFTER_PLAN)
        changed = str((answer.arguments or {}).get("plan", plan)).strip()
        if changed == plan:
            state.queue.insert(0, "Carry out your plan.")
        else:
            state.queue.insert(0, f"Carry out this plan:\n\n{changed}")
    elif answer.reply:
        state.queue.insert(0, answer.reply)


def run_trust(state: State, word: str) -> None:
    """Let in the skills and commands of the workspace, or keep them out."""
    if word not in ("", "off"):
        state.screen.say("/trust lets in the skills, commands and checkers of this folder, /trust off keeps them out.")
        return
    try:
        state.trust_workspace(is_trusted=not word)
    except OSError as error:
        raise BotError(f"That could not be saved: {error.strerror or error}") from error
    what = "are not used any more" if word else "are used now"
    state.screen.say(
        f"  The skills, commands and checkers of {escape_name(state.settings.root)} {what}. /skills lists all."
    )


def run_debug(state: State, level: str) -> None:
    if _is_one_of(state, "level", level, DEBUG_LEVELS):
        state.debug.level = DEBUG_LEVELS.get(level, state.debug.level)
        name = next(name for name, number in reversed(DEBUG_LEVELS.items()) if state.debug.level >= number)
        state.screen.say(f"  debug is {name}")


def run_thinking(state: State, mode: str) -> None:
    if _is_one_of(state, "mode", mode, THINKING):
        state.screen.thinking = mode or state.screen.thinking
        state.screen.say(f"  {state.screen.thinking}: {THINKING[state.screen.thinking]}")


def run_think(state: State, word: str) -> None:
    """Show or choose whether and how much the model thinks."""
    model, settings = state.model_name, state.settings
    root = state.factory.connections.find_root(model)
    thinking = find_thinking(settings.vllm.provider, *filter(None, (root, model)))
    name = sanitize(root or model)
    if not word:
        state.screen.say(f"  earlier thoughts: {state.ensure_runtime().model.core.thoughts}")
    if thinking is None:
        state.screen.say(f"Nothing is known of how {name} is told to think. {UNKNOWN_EFFORT}")
        return
    if word not in thinking.fields:
        shown = f"  think {state.effort or 'as set elsewhere'}"
        if word:
            shown = f"{name} cannot be set to {sanitize(word)}"
        words = fill("/think {}", ", ".join(thinking.fields))
        state.screen.say("; ".join(filter(None, (shown, thinking.why, words))))
        return
    vllm = settings.get_model_settings(model)
    now = {"chat_template_kwargs": vllm.chat_template_kwargs, "reasoning_effort": vllm.reasoning_effort}
    state.settings = settings.with_model_values(model, app.sampling.merge_objects(now, thinking.fields[word]))
    state.effort = word
    state.discard_runtime()
    state.screen.say(f"  think {word}: {name} is sent {json.dumps(dict(thinking.fields[word]))}")


def run_edit(state: State, words: str) -> None:
    """Write the next message in an editor. An empty one is not sent; an unchanged one is put into the prompt."""
    before = words or state.draft
    text = edit_text(before)
    state.draft = ""
    if text == before:
        state.draft = text
    elif text.strip():
        state.queue.append(text)


def run_panel(state: State, question: str) -> None:
    """Ask the models of `review.models` side by side; then one of them, or the chat's own, sums up. Raises BotError."""
    if not question:
        state.screen.say("Ask the panel something: /panel QUESTION")
        return
    panel = state.factory.connections.make_panel()
    state.screen.say(sanitize(f"  Asking {', '.join(member.name for member in panel.members)}..."))
    material = app.panel.hold_panel(
        panel.members,
        question,
        state.settings.review.timeout,
        lambda answer: state.screen.say(sanitize(f"{answer}\n")),
    )
    request = app.panel.REQUEST.format(question=question)
    state.notes.append(material)
    if (chair := panel.chair) is None:
        state.queue.insert(0, request)
        return
    summary = chair.ask(f"{material}\n\n{request}")
    state.screen.say(sanitize(f"{chair.name} sums up:\n{summary}"))
    state.notes.append(f"{chair.name} summed them up:\n{neutralize_with_note(summary)}")


def run_jobs(state: State, words: str) -> None:
    """List the commands in the background, show the end of one's output, or end one. Raises BotError."""
    jobs = state.list_jobs()
    if not words:
        lines = [f"  {job.number:3}  {job.state}: {escape_name(job.command)}" for job in jobs]
        state.screen.say("\n".join(lines) or "  No command has been started in the background.")
        return
    verb, _, number = words.rpartition(" ")
    chosen = [job for job in jobs if number in (str(job.number), f"%{job.number}") or (verb and number == "all")]
    if not chosen or verb not in ("", "end"):
        state.screen.say(
            f"  There is no job {sanitize(words)}. /jobs lists them; /jobs N shows one, /jobs end N ends it."
        )
    else:
        for job in chosen:
            _show_or_end_job(state, job, ends=bool(verb))


def _show_or_end_job(state: State, job: BackgroundJob, *, ends: bool) -> None:
    if ends:
        job.is_shown = True  # by the line below
        job.end()
        job.has_ended.wait(JOB_END_S)
    else:
        lines = job.read_output().rstrip().splitlines()[-MAX_JOB_LINES:]
        state.screen.put("\n".join(f"  {sanitize(line)}" for line in lines) or "  It has printed nothing.")
    state.screen.say(f"  {job.number}  {job.state}: {escape_name(job.command)}")


def run_mcp(state: State, words: str) -> None:
    """Show the MCP servers, what they offer and what went wrong, or start one again."""
    if not state.settings.tools.mcp:
        state.screen.say("  No MCP servers are configured: tools.mcp names them, see docs/writing-tools.md.")
        return
    connected = app.toolset.connect_mcp(state.settings)
    if words:
        _restart_mcp(state, connected, words)
        return
    _show_servers(state, connected.servers)
    problems = [server.problem for server in connected.servers if server.problem]
    for notice in connected.notices:
        if not any(problem in notice for problem in problems):
            state.screen.draw(Notice(notice))


def _restart_mcp(state: State, connected: McpServers, words: str) -> None:
    verb, _, name = words.partition(" ")
    chosen = [server for server in connected.servers if server.config.name == name.strip()]
    if verb != "restart" or not chosen:
        names = ", ".join(server.config.name for server in connected.servers)
        state.screen.say(f"  There is no /mcp {sanitize(words)}; /mcp restart NAME starts one again: {names}.")
        return
    for server in chosen:
        connected.restart(server)
        state.discard_runtime()  # its tools may be others now
    _show_servers(state, chosen)


def _show_servers(state: State, servers: Iterable[McpServer]) -> None:
    """What they offer, and what the search of tools saves."""
    for server in servers:
        state.screen.say("\n".join(f"  {state.factory.clean(line)}" for line in describe_server(server)))
    search = state.settings.tools.search
    saved = describe_savings(state.list_tools(), search)
    state.screen.say(f"  {saved or f'Their definitions are in each prompt (tools.search: {search})'}.")


def describe_server(server: McpServer) -> list[str]:
    """Its state, its tools, and what went wrong last."""
    config, names = server.config, server.tool_names
    place = config.url or shlex.join(config.command)
    lines = [f"{config.name}  {server.state}, {count(len(names), 'tool')}: {place}"]
    if names:
        lines.append(f"    {', '.join(names)}")
    return [*lines, *(f"    {line}" for line in server.problem.splitlines())]


def run_init(state: State, _: str) -> None:
    state.queue.append(INIT_PROMPT)


def complete_model(state: State) -> Iterable[str]:
    own = state.settings.vllm.available_models or (state.model_name,)
    return filter(None, (*own, *state.settings.servers))


def complete_path(_: State) -> Iterable[str]:
    return CALL_PATHS


def complete_mode(_: State) -> Iterable[str]:
    return RUN_MODES


def complete_mcp(state: State) -> Iterable[str]:
    return [f"restart {row.get('name')}" for row in state.settings.tools.mcp]


def complete_jobs(state: State) -> Iterable[str]:
    jobs = state.list_jobs()
    return [*(str(job.number) for job in jobs), *(f"end {job.number}" for job in jobs if not job.ending)]
