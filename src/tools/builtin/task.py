"""The tools that need an agent, which adds them to its registry: they are not among TOOL_DEFINITIONS.

task: a subagent does a part of the work in a context of its own, and its report comes back.
submit_plan: mode plan ends in a plan, which the user accepts, changes or sends back (src/agent/permission.py asks).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec.structs import replace

from ...errors import ToolError
from ..sdk.context import ToolContext
from ..sdk.output_store import Outputs, ToolOutput
from ..sdk.tool import Tool, tool

MAX_REPORT_BYTES = 5_000  # of UTF-8; about 1,250 tokens of English, and fewer than 2,000 of any language


@tool(risk="low")
def task(
    prompt: Annotated[str, "What to do, what it must know, and what to report"],
    ctx: ToolContext,
    may_change: Annotated[bool, "Let it change things, as far as you may; else it only reads"] = False,
    server: Annotated[str, "Server whose model does it; default: yours"] = "",
) -> str | ToolOutput:
    """Have a subagent do a part of the work and report. It has your tools, and sees nothing of this conversation.
    Use it for work that reads much; several at once work side by side.
    """
    if ctx.wiring.run_task is None:
        raise ToolError("no subagent can be started here")
    report = ctx.wiring.run_task(prompt, ctx, may_change=may_change, server=server)
    return _shorten(report, ctx.wiring.outputs)


task = replace(task, definition=task.narrow_choices("server", ()), runs_aside=True)


def offer_task(servers: Iterable[str]) -> Tool:
    """The tool, with the choice between these servers, if there are any."""
    with_servers: Tool = tool(risk="low")(task.function)
    return replace(task, definition=with_servers.narrow_choices("server", [*servers]))


@tool(risk="high")
def submit_plan(plan: Annotated[str, "The plan: what to change, step by step, in Markdown"], ctx: ToolContext) -> str:
    """Submit your plan once you know how to do the work. Nothing can be changed before the user accepts it."""
    ctx.end_run(plan)  # it runs only where nobody can be asked
    return "Nobody is there to be asked, so the plan is the answer."


def _shorten(report: str, outputs: Outputs | None) -> str | ToolOutput:
    """The beginning of a long report, and where the whole is."""
    data = report.encode("utf-8", "replace")
    if len(data) <= MAX_REPORT_BYTES:
        return report
    ref = where = ""
    if outputs and (ref := outputs.put(report)):
        where = f'; read all of it with tool_output_cache(ref_id="{ref}")'
    shown = data[:MAX_REPORT_BYTES].decode("utf-8", "ignore").rstrip()
    return ToolOutput(f"{shown}\n[cut: {MAX_REPORT_BYTES:,} of {len(data):,} bytes are shown{where}]", ref)
