"""What batch and eval share: finding the server, and telling how far they are and how to go on."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from msgspec import Struct

from ...app.discovery import discover
from ...app.factory import Factory
from ...config import Settings
from ...security.text.sanitize import sanitize
from ...types.events import Event, Notice
from ..oneshot.ask import refuse_to_choose


class ProgressStep(Struct, frozen=True):
    """How far a run is; `about`: what else is worth telling."""

    done: int
    total: int
    about: str


ShowStep: TypeAlias = Callable[[ProgressStep | None], None]  # None ends it, so that other lines can be printed


def find_server(settings: Settings) -> Settings:
    """The settings with the server and the model that answer. Raises BotError."""

    def show(event: Event) -> None:
        if isinstance(event, Notice):
            print(f"! {sanitize(event.text)}", file=sys.stderr)

    return discover(Factory(settings), refuse_to_choose, show).settings


@contextmanager
def open_progress(units: str, interval_s: float) -> Iterator[ShowStep]:
    """Shows the steps: as a bar on a terminal, elsewhere as a line, at most one in `interval_s`."""
    if not sys.stderr.isatty():
        log = make_log(interval_s)

        def show_line(step: ProgressStep | None) -> None:
            if step:
                log(f"{step.done:,} of {step.total:,} {units}, {step.about}")

        yield show_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[about]}"))
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        line = bar.add_task("", total=None, about="")

        def show(step: ProgressStep | None) -> None:
            if step:
                bar.update(line, completed=step.done, total=step.total, about=step.about)
            else:
                bar.stop()

        yield show


def make_log(interval_s: float) -> Callable[[str], None]:
    """Prints a line, at most one in so many seconds."""
    last = time.monotonic()

    def log(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= interval_s:
            last = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

    return log


def tell_how_to_go_on(recorded: str) -> None:
    """Say what is recorded, and that the same command goes on from there."""
    print(f"\n{recorded} To go on: {shlex.join(['vllm-bot', *sys.argv[1:]])}", file=sys.stderr)


def format_span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes / 60:.1f} h"
