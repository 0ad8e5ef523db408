"""exec: one command line, run by the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...types.sandbox import Access
from ..sdk.context import ToolContext
from ..sdk.output_store import Stored
from ..sdk.tool import tool

SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


@tool(risk="high")
def exec(
    command: Annotated[str, "Command line for the shell"],
    ctx: ToolContext,
    access: Annotated[Access | None, "What the command may do; default: read"] = None,
) -> str | Stored:
    """Run a shell command in the workspace and show its output and exit code. With access=read the workspace is
    read-only; use write to change files, network if it also needs the network.
    """
    from ..process.access import run_command  # start-up is measured

    return run_command([SHELL, "-c", "--", command], ctx, access)
