"""Run a tool's command with an access, and say what the access refused.

The sandbox holds the command to its access. Programs report a refusal in many ways, or not at all: mypy says INTERNAL
ERROR in a read-only folder, and `curl -s` nothing. So a command that fails is told what its access does not include.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...types.sandbox import Access, Grant, Sandbox
from ..sdk.context import ToolContext
from ..sdk.output_store import ToolOutput
from .background import adopt, run_in_background
from .run import SentToBackground, run

TEMPORARY = "/tmp/"  # noqa: S108 - which is not the command's own where there is no bubblewrap
USE_TMPDIR = "a command cannot write to /tmp here: use $TMPDIR"
NO_SEMAPHORES = "multiprocessing has no shared memory here: use threads or subprocesses, or install bubblewrap"
NO_LOOPBACK = "no network here, not even loopback: install bubblewrap"
MAX_SILENT_CHARS = 120  # of an output that hardly says why a command failed
NETWORK_FAILURE = re.compile(
    r"network|resolv|getaddrinfo|name or service|unknown host|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|connect"
    r"|dial tcp|download|fetch|socket|registry|index url|no matching distribution|offline|proxy|host|listen|inet",
    re.IGNORECASE,
)
READ_ONLY = re.compile(r"read-only file system|permission denied|EROFS|EACCES", re.IGNORECASE)
FILE_REFUSAL = re.compile(
    r"read-only file system|permission denied|operation not permitted|resource busy|EROFS|EACCES|EBUSY", re.IGNORECASE
)

MAY_BE_REFUSAL = re.compile(  # in words of the program's own
    r"access ?denied|read-?only|not writable|(?:unable to|cannot|can't|could not|couldn't|failed to)"
    r" (?:access|create|lock|make|open|remove|save|touch|update|write)",
    re.IGNORECASE,
)
SHARED_MEMORY = re.compile(r"\bSemLock\b|/dev/shm\b")  # what a traceback of multiprocessing names


def run_command(
    argv: Sequence[str],
    ctx: ToolContext,
    named: Access | None,
    *,
    is_tool: bool = False,
    timeout_s: float | None = None,
    in_background: bool = False,
) -> ToolOutput:
    """Run a command with the access it was allowed, else with the one it names, else with read.

    `is_tool`: the access is the tool's, so the model cannot name another. `timeout_s`: None is that of the settings; in
    the background, none. Raises ToolError if it cannot be started, or is cancelled.
    """
    access: Grant = ctx.wiring.access or named or "read"
    if in_background:
        done = run_in_background(argv, ctx, access, timeout_s)
    else:
        try:
            if timeout_s:
                ctx = ctx.rewire(exec_timeout=timeout_s)
            done = run(argv, ctx, access)
        except SentToBackground as sent:
            done = adopt(sent, ctx)
    _report_failure(done, ctx, access, names_none=named is None, is_tool=is_tool)
    return done


def _report_failure(done: ToolOutput, ctx: ToolContext, access: Grant, *, names_none: bool, is_tool: bool) -> None:
    """What the sandbox may have to do with a command that failed."""
    sandbox, report = ctx.wiring.sandbox, ctx.wiring.report
    if not done.exit_code or not sandbox or not sandbox.is_enforcing:
        return
    report.exit_code, report.cause = done.exit_code, find_refusal(done, ctx)
    # More access cures no lack of a loopback or of shared memory, and no refusal of /tmp, so it is not asked for.
    is_cureless = lacks_loopback(done, sandbox) or TEMPORARY in report.cause or lacks_shared_memory(done)
    report.named_none = access == "read" and names_none and not is_cureless and may_lack_access(done)
    report.explanation = explain_failure(access, done, ctx, is_tool=is_tool)


def lacks_loopback(done: ToolOutput, sandbox: Sandbox) -> bool:
    """Whether a command may have failed since commands without the network have no loopback here."""
    text = done.text
    return not sandbox.has_loopback and bool(NETWORK_FAILURE.search(text)) and not READ_ONLY.search(text)


def may_lack_access(done: ToolOutput) -> bool:
    """Whether the output says that something was refused, or hardly anything; failed tests say what else it was."""
    return len(done.text) < MAX_SILENT_CHARS or any(each.search(done.text) for each in (FILE_REFUSAL, MAY_BE_REFUSAL))


def lacks_shared_memory(done: ToolOutput) -> bool:
    """Whether a command failed at the semaphores of multiprocessing in /dev/shm, of which bubblewrap gives its own."""
    text = done.text
    return bool(SHARED_MEMORY.search(text)) and bool(FILE_REFUSAL.search(text))


def find_refusal(done: ToolOutput, ctx: ToolContext) -> str:
    """The last line of the output that says that a file may not be changed; the workspace is named from inside."""
    lines = (line for line in reversed(done.text.splitlines()) if FILE_REFUSAL.search(line))
    return next(lines, "").replace(f"{ctx.workspace}/", "")


def explain_failure(access: Grant, done: ToolOutput, ctx: ToolContext, *, is_tool: bool = False) -> str:
    """What the access does not include, if that may be why the command failed; else ""."""
    sandbox = ctx.wiring.sandbox
    if sandbox is None or access == "outside":
        return ""
    has_network = sandbox.has_network(access)
    parts = []
    if not has_network and lacks_loopback(done, sandbox):
        parts.append(NO_LOOPBACK)
    if TEMPORARY in find_refusal(done, ctx):
        parts.append(USE_TMPDIR)
    if lacks_shared_memory(done):
        parts.append(NO_SEMAPHORES)
    if access == "read":
        return "; ".join([*parts, _explain_read_access(ctx, is_tool=is_tool)])
    return "; ".join([*parts, *_explain_write_access(done.text, has_network=has_network, is_tool=is_tool)])


def _explain_write_access(text: str, *, has_network: bool, is_tool: bool) -> Iterator[str]:
    if FILE_REFUSAL.search(text):
        what_runs = "what runs by itself, such as .git/config and .git/hooks"
        yield f"nothing outside the workspace can be changed, nor {what_runs}"
    if has_network or (len(text) >= MAX_SILENT_CHARS and not NETWORK_FAILURE.search(text)):
        return
    if is_tool:
        yield "there is no network for this tool"
    else:
        yield "there is no network for access=write; call again with access=network if the command needs it"


def _explain_read_access(ctx: ToolContext, *, is_tool: bool) -> str:
    if is_tool:
        return "the workspace is read-only for this tool, and there is no network"
    if ctx.wiring.report.widest_access == "read":
        return "the workspace is read-only for access=read, and there is no network; no other access is offered now"
    return (
        "the workspace is read-only for access=read; call again with access=write if the command must change "
        "files, or with access=network if it needs the network"
    )
