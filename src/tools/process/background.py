"""Run a command in the background: started, watched for a moment, and left to a thread of its own.

That thread starts the program, too: the kernel ends a sandbox with the thread that started it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from msgspec.structs import replace

from ...errors import ToolError
from ...types.sandbox import Grant
from ..sdk.context import ToolContext
from ..sdk.output_store import ToolOutput
from ..sdk.result import end_line
from .jobs import END_TIMEOUT_S, BackgroundJob
from .proc import shorten_command
from .run import POLL_S, RunningCommand, SentToBackground, describe_timeout, open_output

START_WATCH_S = 1.0  # in which a command may fail at once
NO_TIMEOUT_S = 1e9  # 31 years


def run_in_background(argv: Sequence[str], ctx: ToolContext, access: Grant, timeout_s: float | None) -> ToolOutput:
    """Start a program that goes on in the background, and watch it for START_WATCH_S.

    Raises ToolError if it cannot be started.
    """
    with ExitStack() as stack:
        output = stack.enter_context(open_output(ctx))
        job = ctx.wiring.jobs.open(shorten_command(argv), output)
        job.is_told = True  # what is returned tells of an end until then
        keep_open = stack.pop_all()

    def follow() -> str:
        with keep_open:
            command = RunningCommand(argv, ctx, access)
            return _follow(command, job, ctx, timeout_s)

    job.run(follow)
    try:
        while not job.has_begun.wait(POLL_S):
            ctx.raise_if_cancelled()
        deadline = ctx.clock.monotonic() + START_WATCH_S
        while not job.has_ended.wait(POLL_S) and ctx.clock.monotonic() < deadline:
            ctx.raise_if_cancelled()
    except BaseException:
        job.is_told = False
        job.end()
        raise
    job.is_told = job.has_ended.is_set()
    return describe_start(job)


def adopt(sent: SentToBackground, ctx: ToolContext) -> ToolOutput:
    """Leave a command that the user sent to the background to a thread."""
    job = ctx.wiring.jobs.open(sent.command.started.command, sent.output, sent.command.began_s)

    def follow() -> str:
        with sent.store:
            return _follow(sent.command, job, ctx, None)

    job.run(follow)
    job.has_begun.wait()
    return describe_start(job, "the user sent it to the background: ")


def _follow(command: RunningCommand, job: BackgroundJob, ctx: ToolContext, timeout_s: float | None) -> str:
    """Read the output of a job until it has ended. Returns how it ended, in words."""
    why_not_ended, started = describe_timeout(timeout_s or 0), replace(command.started, job=job.number)
    try:
        ctx.wiring.on_start(started)
        command.share_network()
        job.has_begun.set()
        command.read(job.feed, timeout_s or NO_TIMEOUT_S, job.raise_if_unwanted)
    except ToolError as error:
        why_not_ended = error.message
    finally:
        ending = command.finish(why_not_ended)
        job.exit_code = command.exit_code
        ctx.wiring.on_end(started)
    return ending


def describe_start(job: BackgroundJob, lead: str = "") -> ToolOutput:
    """What the model is told of a job that has just begun, and which may have ended."""
    if job.is_told:
        return ToolOutput(join_output(job, job.ending), ending=job.ending, exit_code=job.exit_code)
    read = f'tool_output_cache(ref_id="{job.ref}") reads its output; ' if job.ref else ""
    about = f"{lead}it runs in the background as job {job.number}; {read}the command `kill %{job.number}` ends it"
    return ToolOutput(join_output(job, f"{about}; you will be told when it ends"))


def end_job(ctx: ToolContext, number: int) -> str:
    """End a job, and tell how. Raises ToolError if there is none of that number."""
    job = ctx.wiring.jobs.find(number)
    job.is_told = True
    job.end()
    job.has_ended.wait(END_TIMEOUT_S)
    return join_output(job, job.state)


def join_output(job: BackgroundJob, about: str) -> str:
    return f"{end_line(job.read_output())}[{about}]"
