"""The line below the prompt: model, path, how full the context is, tokens of the chat."""

from __future__ import annotations

from ..security.sanitise import plain
from .command import State


def status_line(state: State) -> str:
    """Short, as it is drawn with every key: nothing is asked of the server for it."""
    parts = [plain(state.model_name)]
    if state.path:
        parts.append(f"{state.path} calls")
    about = "" if state.last else "~"
    used, length = state.context_used, state.context_length
    parts.append(
        f"context {about}{used:,} of {length:,} ({used / length:.0%})" if length else f"context {about}{used:,}"
    )
    if state.last:
        parts.append(f"tokens {state.spent.input_tokens:,} in, {state.spent.output_tokens:,} out")
    return "  ".join(parts)
