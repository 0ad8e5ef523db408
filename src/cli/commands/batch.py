"""`vllm-bot batch`: many tasks, each in a clean folder, on this machine or on a Ray cluster. See docs/batch.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ...app.factory import Factory
from ...batch.driver import Batch, BatchProgress
from ...batch.evaluate import VERDICTS, Evaluation, count_passed
from ...batch.report import render_text, write_page
from ...batch.results import Results, load_rows
from ...batch.tasks import BatchOptions, Task, read_tasks, repeat_tasks
from ...config import Settings
from ...errors import FAILED, INTERRUPTED, LIMIT, BotError, ConfigError
from ...security.text.sanitize import sanitize
from ...session.export import render_markdown
from ..arguments import parse_number
from ..demo.run import FILES, start_demo
from ..load_settings import load_settings
from .runs import ProgressStep, find_server, format_span, make_log, open_progress, tell_how_to_go_on
from .sessions import read_conversation

JOBS = 64
BYTES_PER_MB = 1_000_000
LOG_INTERVAL_S = 60.0
MAX_REFUSAL_CHARS = 80
DEFAULT_OUT = Path("runs")
DEMO_TASKS = 8


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="TASKS | evaluate TASKS | show ID | report",
        help="files of tasks (.jsonl, .parquet) or a data set's folder; or: judge the patches in clean folders; show "
        "the conversation of a task; sum up",
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
    add("--ray-cpus", metavar="N", type=parse_number(float, 0), help="processors that a task reserves on Ray (0.05)")
    add("--ray-resources", metavar="JSON", type=_parse_object, help="resources of your own that a task reserves on Ray")
    add(
        "--ray-runtime-env",
        metavar="JSON|FILE",
        type=_parse_object,
        default={},
        help="Ray's runtime_env, as Ray has it",
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
    add("--check", metavar="COMMAND", default="", help="the check of tasks that name none")
    add(
        "--task-memory",
        metavar="MB",
        type=parse_number(int, 16),
        help="memory of each process that a task runs; on Ray it is reserved, too",
    )
    add("--retry-failed", action="store_true", help="run the tasks again that failed")
    add(
        "--demo",
        action="store_true",
        default=argparse.SUPPRESS,
        help="run a few tasks on the built-in script, in a temporary folder",
    )


def _parse_object(text: str) -> dict[str, object]:
    """An object as JSON, or in a file of it. Raises ArgumentTypeError."""
    try:
        value = json.loads(text if text.lstrip().startswith("{") else Path(text).read_bytes())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"expected an object as JSON, or a file of one: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected an object as JSON, got {text:.60}")
    return value


def _list_needs(options: argparse.Namespace) -> dict[str, object]:
    """What a task reserves on Ray. Raises ConfigError where Ray is not asked for."""
    if options.ray is None and (options.ray_cpus is not None or options.ray_resources or options.ray_runtime_env):
        raise ConfigError(
            "--ray-cpus, --ray-resources and --ray-runtime-env are for Ray.", "Add --ray, or leave it out."
        )
    memory = options.task_memory and options.task_memory * BYTES_PER_MB
    needs = {"num_cpus": options.ray_cpus, "resources": options.ray_resources, "memory": memory}
    return {name: need for name, need in needs.items() if need is not None}


def run_batch(options: argparse.Namespace) -> int:
    """Returns the exit code: 0 if all tasks succeeded. Raises BotError."""
    words = options.words
    if words[:1] == ["show"] and len(words) == 2:
        return _show(words[1], _find_out(options.out), load_settings(options))
    if words == ["report"]:
        return _report(_find_out(options.out), load_settings(options))
    if options.demo:
        return _run_demo(options)
    if words[:1] == ["evaluate"] and len(words) > 1:
        return _evaluate(options, _read(options, words[1:]))
    if not words:
        raise ConfigError("Name a file of tasks.", "For example: vllm-bot batch tasks.jsonl --out runs/first")
    tasks = _read(options, words)
    seed = {"vllm.seed": options.seed}
    return _run(options, repeat_tasks(tasks, options.samples), _name_out(options, words[0]), **seed)


def _read(options: argparse.Namespace, words: Sequence[str]) -> list[Task]:
    """Raises ConfigError."""
    tasks = read_tasks([Path(word) for word in words], repo=options.repo, mode=options.mode or "")
    checks = (options.check,) if options.check else ()
    return [task if task.checks else task._replace(checks=checks) for task in tasks]


def _name_out(options: argparse.Namespace, first: str) -> Path:
    return Path(options.out or DEFAULT_OUT / Path(first).resolve().stem)


def _evaluate(options: argparse.Namespace, tasks: Sequence[Task]) -> int:
    """Raises BotError."""
    out, settings = _name_out(options, options.words[1]), _load(options)
    show = make_log(LOG_INTERVAL_S)

    def tell(ended: int, total: int, passed: int) -> None:
        show(f"{ended:,} of {total:,} patches judged, {passed:,} passed")

    evaluation = Evaluation(out, tasks, settings, jobs=options.jobs, timeout=options.task_timeout, show=tell)
    verdicts = evaluation.run()
    for each in verdicts:
        failed = (f"{check.command} (exit code {check.exit_code})" for check in each.checks if check.exit_code != 0)
        why = each.reason.partition("\n")[0] or next(failed, "")
        print(sanitize(f"{each.verdict:8} {each.id} {why}".rstrip()))
    passed = count_passed(verdicts)
    print(f"{passed:,} of {len(verdicts):,} passed: {out / VERDICTS}", file=sys.stderr)
    return 0 if passed == len(verdicts) else FAILED


def _load(options: argparse.Namespace, **more: object) -> Settings:
    """The settings, with the memory of a task. Raises ConfigError."""
    return load_settings(options, **{"security.exec_memory_mb": options.task_memory, **more})


def _run_demo(options: argparse.Namespace) -> int:
    if options.words:
        words = " ".join(options.words)
        raise ConfigError(f"--demo has tasks of its own, so {words} would not run.", "Leave out one of them.")
    tasks = [Task(f"greet-{n}", "tour", files=FILES, checks=("python3 greet.py",)) for n in range(1, DEMO_TASKS + 1)]
    with start_demo(sleep=lambda _: None) as demo:
        return _run(options, tasks, Path(options.out or DEFAULT_OUT / "demo"), **demo.overrides)


def _run(options: argparse.Namespace, tasks: Sequence[Task], out: Path, **more: object) -> int:
    if names := sorted({name for task in tasks for name in task.extra}):  # one may be mistyped
        print(f"! Keys that are only kept, in `extra` of the results: {sanitize(', '.join(names))}.", file=sys.stderr)
    upstreams = options.upstream or []
    if upstreams:
        more["vllm.base_url"] = upstreams[0]
    settings = find_server(_load(options, **more))
    servers = tuple(load_settings(options, **{"vllm.base_url": url}).vllm.base_url for url in upstreams)
    chosen = BatchOptions(
        servers or (settings.vllm.base_url,),
        options.jobs,
        options.budget_tokens,
        options.retry_failed,
        options.task_timeout,
        options.ray,
        _list_needs(options),
        options.ray_runtime_env,
    )
    with Results(out) as results, open_progress("tasks", LOG_INTERVAL_S) as show:
        batch = Batch(tasks, settings, results, chosen, lambda progress: show(_make_step(progress)))
        try:
            batch.run()
        except (KeyboardInterrupt, SystemExit) as error:
            show(None)
            tell_how_to_go_on(f"{len(batch.rows):,} of {len(tasks):,} tasks are recorded in {out}.")
            if isinstance(error, SystemExit):
                raise
            return INTERRUPTED
    return _sum_up(batch, options, len(tasks), out, Factory(settings).clean)


def _sum_up(batch: Batch, options: argparse.Namespace, tasks: int, out: Path, clean: Callable[[str], str]) -> int:
    """Print what came of the tasks. Returns the exit code."""
    rows = batch.rows
    page = write_page(out, rows, tasks, clean)
    print(sanitize(render_text(rows, tasks)))
    print(f"results: {out / 'results.jsonl'}, report: {page}", file=sys.stderr)
    if batch.is_over_budget and len(rows) < tasks:
        not_started = f"{tasks - len(rows):,} of {tasks:,} tasks were not started"
        print(f"The budget of {options.budget_tokens:,} tokens is spent; {not_started}.", file=sys.stderr)
        return LIMIT
    return 0 if len(rows) == tasks and all(row.is_success for row in rows) else FAILED


def _make_step(progress: BatchProgress) -> ProgressStep:
    failed = sum(not row.is_success for row in progress.rows)
    rate = 60 * progress.ended / (progress.seconds or 1.0)
    parts = [f"{failed:,} failed", f"{rate:,.1f} a minute"]
    if progress.running is not None:
        parts.insert(0, f"{progress.running} running")
    if (seconds_left := progress.seconds_left) is not None:
        parts.append(f"{format_span(seconds_left)} left")
    if progress.refusal:
        parts.append(f"trying again: {sanitize(progress.refusal)[:MAX_REFUSAL_CHARS]}")
    return ProgressStep(len(progress.rows), progress.total, ", ".join(parts))


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
    for key, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if key != "answer":
            print(f"{key:10} {clean(text)}")
    return 0


def _report(out: Path, settings: Settings) -> int:
    """Raises BotError and OSError."""
    rows = list({row.id: row for row in load_rows(out)}.values())
    print(sanitize(render_text(rows, len(rows))))
    print(f"report: {write_page(out, rows, len(rows), Factory(settings).clean)}", file=sys.stderr)
    return 0
