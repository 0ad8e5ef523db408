"""The line below the prompt: model, path, context, tokens."""

from __future__ import annotations

from ....security.text.sanitize import plain
from ....types.messages import Usage
from ..state import State

GAP = "  "


def status_line(state: State, columns: int | None = None) -> str:
    """Drawn with every key, so nothing is asked of the server. Leaves out tokens, then the path, to fit `columns`."""
    path = f"{state.path} calls" if state.path else ""
    name, context, tokens = plain(state.model_name), _context(state), _tokens(state)
    ways = ((name, path, context, tokens), (name, path, context), (name, context))
    lines = [GAP.join(filter(None, way)) for way in ways]
    return next((line for line in lines if columns is None or len(line) <= columns), lines[-1])


def _context(state: State) -> str:
    about = "" if state.last else "~"
    used, length = state.context_used, state.context_length
    return f"context {about}{used:,} of {length:,} ({used / length:.0%})" if length else f"context {about}{used:,}"


def _tokens(state: State) -> str:
    spent = state.spent
    return f"tokens {spent.input_tokens:,} in, {spent.output_tokens:,} out" if spent != Usage() else ""
