"""The banner above the first prompt."""

from __future__ import annotations

from ... import __version__
from ...app.discovery import Met
from ...security.text.sanitize import plain
from ..render.wrap import wrapped

PATHS = {
    "native": "native tool calls",
    "template": "tool calls read from its text (its template shows the tools)",
    "text": "tool calls in its text",
}


def banner(met: Met, *, yes: bool, columns: int = 0) -> str:
    """Lines about the server, the model and the workspace.

    `columns`: of the terminal; 0 if there is none.
    """
    settings = met.settings
    context = f", {met.context:,} tokens of context" if met.context else ""
    asking = "write, edit and exec run without asking" if yes else "write, edit and exec ask first"
    rows = {
        "server": f"{settings.vllm.base_url}{f' (vLLM {met.version})' if met.version else ''}",
        "model": f"{met.model}{context}, {_path(met)}",
        "workspace": f"{settings.root}; {asking}",
    }
    lines = [f"  {name:9}  {plain(value)}" for name, value in rows.items()]
    text = "\n".join([f"vLLM Bot {__version__}", *lines, "  /help for commands, Ctrl-D to leave"])
    return wrapped(text, columns - 1) if columns else text


def _path(met: Met) -> str:
    if met.path:
        return PATHS[met.path.mode]
    return "native tool calls, else in its text" if met.settings.vllm.enable_function_calling else PATHS["text"]
