"""exec: one command line, run by the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...errors import ToolError
from ...types.lazy_pattern import LazyPattern
from ...types.sandbox import Access
from ..sdk.context import ToolContext
from ..sdk.output_store import ToolOutput
from ..sdk.tool import tool

END_JOB = LazyPattern(r"kill (?:-\w+ )?%(\d{1,6})")  # no job of any shell that a command could start
SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


@tool(risk="high")
def exec(
    command: Annotated[str, "Command line for the shell"],
    ctx: ToolContext,
    access: Annotated[Access | None, "What it may do; default: read"] = None,
    timeout: Annotated[float | None, "Seconds it may take"] = None,
    background: Annotated[bool, "Leave it running, such as a server"] = False,
) -> str | ToolOutput:
    """Run a shell command in the workspace and show its output and exit code. With access=read the workspace is
    read-only; use write to change files, network if it also needs the network.
    """
    from ..process.background import end_job
    from ..process.run_command import run_command  # start-up is measured

    if ended := END_JOB.fullmatch(command.strip()):
        return end_job(ctx, int(ended[1]))
    if timeout is not None and not 0 < timeout <= ctx.wiring.exec_max_timeout:
        raise ToolError(f"timeout is more than 0 and at most {ctx.wiring.exec_max_timeout:g} s", "Or use background.")
    argv = [SHELL, "-c", "--", command]
    return run_command(argv, ctx, access, timeout_s=timeout, in_background=background)
