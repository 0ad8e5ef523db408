"""The line below the prompt."""

from __future__ import annotations

from ..render.plain import format_model
from ..render.words import count, fill
from .state import State

GAP = "  "  # between the parts of the status line


def format_status_line(state: State, columns: int | None = None) -> str:
    """Mode, model, path, context, git branch, jobs and tokens, for the line below the prompt.

    Drawn with every key, so it asks the server nothing. To fit `columns`, the tokens are left out, then the branch,
    then the path, then the context, then the model.
    """
    path, effort = fill("{} calls", state.path), fill("think {}", state.effort)
    name, context = format_model(state.model_name), f"context {describe_context(state, about='~', unit='')}"
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


def describe_context(state: State, about: str = "about ", unit: str = " tokens") -> str:
    """How full the context is. `about` marks an estimate."""
    used, length = state.context_used, state.context_length
    if state.last_usage:
        about = ""
    if not length:
        return f"{about}{used:,}{unit}"
    return f"{about}{used:,} of {length:,}{unit} ({used / length:.0%})"
