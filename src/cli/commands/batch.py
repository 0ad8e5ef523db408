"""`vllm-bot batch`: many tasks, each in a clean folder, on this machine or on a Ray cluster. See docs/batch.md."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...app.discovery import discover
from ...app.factory import Factory
from ...batch.driver import Batch, BatchProgress
from ...batch.report import render_text, write_page
from ...batch.results import Results, load_rows
from ...batch.tasks import BatchOptions, Task, read_tasks, repeat_tasks
from ...config import Settings
from ...errors import FAILED, INTERRUPTED, LIMIT, BotError, ConfigError
from ...security.text.sanitize import sanitize
from ...session.export import render_markdown
from ...types.events import Event, Notice
from ..arguments import load_settings, parse_number
from ..demo.run import FILES, start_demo
from ..oneshot.ask import refuse_to_choose
from .sessions import read_conversation

JOBS = 64
LOG_INTERVAL_S = 60.0
MAX_REFUSAL_CHARS = 80
DEFAULT_OUT = Path("runs")
DEMO_TASKS = 8


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="TASKS | show ID | report",
        help="files of tasks (.jsonl, .parquet) or a data set's folder; or: show the conversation of a task; sum up",
    )
    add(
        "--out",
        metavar="DIR",
        help="where the results are (default: runs/ and the name of the file; to show: the newest)",
    )
    add("--repo", metavar="URL|DIR", default="", help="the Git repository of tasks that name none")
    add(
        "--jobs", metavar="N", type=parse_number(int, 1), default=JOBS, help=f"tasks at the same time (default: {JOBS})"
    )
    add(
        "--ray",
        metavar="ADDRESS",
        nargs="?",
        const="",
        help="run on a Ray cluster; without ADDRESS, one on this machine",
    )
    add(
        "--upstream",
        metavar="URL",
        action="append",
        help="a replica of the server; may be repeated (default: vllm.base_url)",
    )
    add(
        "--budget-tokens",
        metavar="N",
        type=parse_number(int, 1),
        help="start no task once all together took so many tokens",
    )
    add(
        "--task-timeout",
        metavar="SECONDS",
        type=parse_number(float, 1),
        default=3600.0,
        help="time for one task (default: 3600)",
    )
    add("--samples", metavar="N", type=parse_number(int, 1), default=1, help="run each task so many times (default: 1)")
    add("--seed", metavar="S", type=int, help="seed of the sampling; run K of a task has S + K - 1")
    add("--retry-failed", action="store_true", help="run the tasks again that failed")
    add(
        "--demo",
        action="store_true",
        default=argparse.SUPPRESS,
        help="run a few tasks on the built-in script, in a temporary folder",
    )


def run_batch(options: argparse.Namespace) -> int:
    """Returns the exit code: 0 if all tasks succeeded. Raises BotError."""
    words = options.words
    if words[:1] == ["show"] and len(words) == 2:
        return _show(words[1], _find_out(options.out), load_settings(options))
    if words == ["report"]:
        return _report(_find_out(options.out), load_settings(options))
    if options.demo and words:
        raise ConfigError(f"--demo has tasks of its own, so {' '.join(words)} would not run.", "Leave out one of them.")
    if options.demo:
        return _run_demo(options)
    if not words:
        raise ConfigError("Name a file of tasks.", "For example: vllm-bot batch tasks.jsonl --out runs/first")
    paths = [Path(word) for word in words]
    tasks = read_tasks(paths, repo=options.repo, mode=options.mode or "")
    _tell_extra(tasks)
    seed = {} if options.seed is None else {"vllm.seed": options.seed}
    out = Path(options.out) if options.out else DEFAULT_OUT / paths[0].resolve().stem
    return _run(options, repeat_tasks(tasks, options.samples), out, **seed)


def _tell_extra(tasks: Sequence[Task]) -> None:
    """Name the keys that mean nothing here: one may be mistyped."""
    if names := sorted({name for task in tasks for name in task.extra}):
        print(f"! Keys that are only kept, in `extra` of the results: {sanitize(', '.join(names))}.", file=sys.stderr)


def _run_demo(options: argparse.Namespace) -> int:
    tasks = [Task(f"greet-{n}", "tour", files=FILES, checks=("python3 greet.py",)) for n in range(1, DEMO_TASKS + 1)]
    out = Path(options.out) if options.out else DEFAULT_OUT / "demo"
    with start_demo(sleep=lambda _: None) as demo:
        return _run(options, tasks, out, **demo.overrides)


def _run(options: argparse.Namespace, tasks: Sequence[Task], out: Path, **more: object) -> int:
    upstreams = options.upstream or []
    settings = _find_server(load_settings(options, **({"vllm.base_url": upstreams[0]} if upstreams else {}), **more))
    servers = tuple(load_settings(options, **{"vllm.base_url": url}).vllm.base_url for url in upstreams)
    chosen = BatchOptions(
        servers or (settings.vllm.base_url,),
        options.jobs,
        options.budget_tokens,
        options.retry_failed,
        options.task_timeout,
        options.ray,
    )
    with Results(out) as results, _open_progress() as show:
        batch = Batch(tasks, settings, results, chosen, show)
        try:
            batch.run()
        except (KeyboardInterrupt, SystemExit) as error:
            show(None)
            again = shlex.join(["vllm-bot", *sys.argv[1:]])
            done = f"{len(batch.rows):,} of {len(tasks):,} tasks are recorded in {out}."
            print(f"\n{done} To go on: {again}", file=sys.stderr)
            if isinstance(error, SystemExit):
                raise
            return INTERRUPTED
    rows = batch.rows
    page = write_page(out, rows, len(tasks), Factory(settings).clean)
    print(sanitize(render_text(rows, len(tasks))))
    print(f"results: {out / 'results.jsonl'}, report: {page}", file=sys.stderr)
    if batch.is_over_budget and len(rows) < len(tasks):
        left = f"{len(tasks) - len(rows):,} of {len(tasks):,} tasks were not started"
        print(f"The budget of {options.budget_tokens:,} tokens is spent; {left}.", file=sys.stderr)
        return LIMIT
    return 0 if len(rows) == len(tasks) and all(row.is_success for row in rows) else FAILED


def _find_server(settings: Settings) -> Settings:
    """The settings with the server and the model that answer. Raises BotError."""

    def show(event: Event) -> None:
        if isinstance(event, Notice):
            print(f"! {sanitize(event.text)}", file=sys.stderr)

    return discover(Factory(settings), refuse_to_choose, show).settings


@contextmanager
def _open_progress() -> Iterator[Callable[[BatchProgress | None], None]]:
    """Shows how far a batch is: a bar on a terminal, elsewhere a line each minute. None ends it."""
    if not sys.stderr.isatty():
        yield _make_log()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[about]}"))
    with Bar(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        line = bar.add_task("", total=None, about="")

        def show(progress: BatchProgress | None) -> None:
            if progress is None:
                bar.stop()
            else:
                bar.update(line, completed=len(progress.rows), total=progress.total, about=_describe(progress))

        yield show


def _make_log() -> Callable[[BatchProgress | None], None]:
    last = time.monotonic()

    def show(progress: BatchProgress | None) -> None:
        nonlocal last
        if progress and time.monotonic() - last >= LOG_INTERVAL_S:
            last = time.monotonic()
            stamp = time.strftime("%H:%M:%S")
            done = f"{len(progress.rows):,} of {progress.total:,} tasks"
            print(f"{stamp} {done}, {_describe(progress)}", file=sys.stderr, flush=True)

    return show


def _describe(progress: BatchProgress) -> str:
    failed = sum(not row.is_success for row in progress.rows)
    rate = 60 * progress.ended / progress.seconds if progress.seconds else 0.0
    left = progress.seconds_left
    running = [] if progress.running is None else [f"{progress.running} running"]
    parts = [*running, f"{failed:,} failed", f"{rate:,.1f} a minute"]
    if left is not None:
        parts.append(f"{_format_span(left)} left")
    if progress.refusal:
        parts.append(f"trying again: {sanitize(progress.refusal)[:MAX_REFUSAL_CHARS]}")
    return ", ".join(parts)


def _format_span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _find_out(named: str | None) -> Path:
    """The folder of a batch; by default the one below runs/ that was written last. Raises BotError."""
    if named:
        return Path(named)
    batches = sorted(DEFAULT_OUT.glob("*/results.jsonl"), key=lambda path: path.stat().st_mtime)
    if not batches:
        raise BotError(f"There is no batch in {DEFAULT_OUT}/.", "Name its folder with --out.")
    return batches[-1].parent


def _show(name: str, out: Path, settings: Settings) -> int:
    """Raises BotError."""
    rows = [row for row in load_rows(out) if row.id == name]
    if not rows:
        raise BotError(f"{out} has no row of the task {name}.")
    row = rows[-1]
    clean = Factory(settings).clean
    if row.session:
        path = out / "sessions" / f"{row.session}.jsonl"
        print(render_markdown(read_conversation(path), clean))  # an empty line before the row
    facts = row.to_dict() | {"patch": f"{row.patch.count(chr(10)):,} lines"}
    print(
        "\n".join(
            f"{key:10} {clean(value if isinstance(value, str) else json.dumps(value))}"
            for key, value in facts.items()
            if key != "answer"
        )
    )
    return 0


def _report(out: Path, settings: Settings) -> int:
    """Raises BotError and OSError."""
    rows = list({row.id: row for row in load_rows(out)}.values())
    print(sanitize(render_text(rows, len(rows))))
    print(f"report: {write_page(out, rows, len(rows), Factory(settings).clean)}", file=sys.stderr)
    return 0
