"""`vllm-bot eval`: which call path, settings and server flags this model does best with. See docs/eval.md."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...app.discovery import discover
from ...app.factory import Factory
from ...config import Settings, get_user_file, write_setting
from ...errors import FAILED, INTERRUPTED, BotError, ConfigError
from ...eval.advice import Advice, ServerFacts, advise, hides_tools
from ...eval.arms import Arm, drop_grammar, list_paths, list_variations
from ...eval.baseline import compare_to_baseline, read_baseline
from ...eval.bfcl import read_bfcl
from ...eval.cases import BUILT_IN, Case, fingerprint, read_cases
from ...eval.outcomes import Outcome, Results
from ...eval.page import write_page
from ...eval.progress import ProgressEstimate, estimate_progress
from ...eval.report import render_text
from ...eval.running import CaseRunner
from ...eval.search import FULL, QUICK, Plan, Search
from ...eval.template import derive_template
from ...security.text.sanitize import sanitize
from ...types.events import Event, Notice
from ...types.messages import JSON
from ..arguments import load_settings, parse_number
from ..oneshot.ask import refuse_to_choose
from ..render.plain import get_columns
from ..render.wrap import wrap_text
from .records import add_record_options, run_records

DEFAULT_OUT = Path("runs/eval")
TEMPLATE = "chat_template.jinja"
LOG_INTERVAL_S = 30.0


def add_eval_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="at most 200 requests to the model (the default)")
    size.add_argument("--full", action="store_true", help="at most 4,000 requests, and up to 400 runs of each arm")
    add("--requests", metavar="N", type=parse_number(int, 10), help="at most so many requests to the model")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--own", metavar="FILE", help="your own cases, .yaml or .json (see docs/eval.md)")
    source.add_argument(
        "--data", choices=("bfcl",), help="the cases of bfcl-eval, installed beside, by its own checker"
    )
    add("--baseline", metavar="FILE", help="results.jsonl of an earlier eval: is its best arm worse now? (exit code 1)")
    add(
        "--out", metavar="DIR", default="", help=f"where the results are (default: {DEFAULT_OUT}/ and the model's name)"
    )
    add(
        "--seed",
        metavar="S",
        type=int,
        default=0,
        help="seed of the sampling of the first run of each case (default: 0)",
    )
    add("--apply", action="store_true", help="write the recommended settings to the settings file")
    add_record_options(parser)


def run_eval(options: argparse.Namespace) -> int:
    """Returns the exit code: 1 if it is significantly worse than the baseline, or a replay differs. Raises BotError."""
    if options.replay or options.export:
        return run_records(options)
    settings = _find_server(load_settings(options))
    plan = FULL if options.full else QUICK
    plan = plan._replace(requests=options.requests or plan.requests)
    cases = _read_cases(options, plan)
    baseline = read_baseline(Path(options.baseline), fingerprint(cases)) if options.baseline else None
    out = Path(options.out) if options.out else DEFAULT_OUT / _name_folder(settings.vllm.model)
    about: dict[str, JSON] = {
        "model": settings.vllm.model,
        "server": settings.vllm.base_url,
        "cases": fingerprint(cases),
        "plan": plan.name,
        "requests": plan.requests,
        "seed": options.seed,
        "arms": baseline.arm.name if baseline else "all",
    }
    with Results(out, about, Factory(settings).clean, reuses=options.apply) as results, _open_progress(plan) as show:
        search = _make_search(settings, cases, plan, results, show, options.seed)
        try:
            best = search.measure_only(baseline.arm) if baseline else search.find_best(list_paths(settings))
        except KeyboardInterrupt:
            show(None)
            again = shlex.join(["vllm-bot", *sys.argv[1:]])
            print(f"\n{search.requests} requests are recorded in {out}. To go on: {again}", file=sys.stderr)
            return INTERRUPTED
        show(None)
        if best is None:
            whys = "\n".join(f"{each.arm.name}: {each.reason}" for each in search.standings.values())
            raise BotError(_say_there_is_none(search), whys)
        change = compare_to_baseline(baseline, search.list_outcomes(best)) if baseline else None
        advice = change.advice if change else advise(best, search, settings, _ask_server(settings, search, out))
        results.finish({"arm": best.name, "changes": dict(best.changes), "settings": dict(advice.settings)})
    page = write_page(out, search, advice, cases, about)
    print(sanitize(advice.headline))  # not wrapped: commands are copied
    columns = max(get_columns(sys.stdout) - 1, 0)
    print(wrap_text(sanitize(render_text(search, advice, columns)), columns))
    print(f"results: {results.path}, report: {page}", file=sys.stderr)
    if options.apply:
        _apply(advice, options)
    elif advice.settings:
        print("To write these settings: the same command with --apply, which asks the model nothing.", file=sys.stderr)
    return FAILED if change and change.is_worse else 0


def _say_there_is_none(search: Search) -> str:
    if any(each.verdict == "failed" for each in search.standings.values()):
        return "There is nothing to compare: no call path has a run that counts."
    return "The server takes tools in none of the ways that were tried."


def _read_cases(options: argparse.Namespace, plan: Plan) -> list[Case]:
    """Raises ConfigError."""
    if options.data:
        return read_bfcl(plan.pairs)
    return read_cases(Path(options.own) if options.own else BUILT_IN)


def _make_search(
    settings: Settings,
    cases: Sequence[Case],
    plan: Plan,
    results: Results,
    show: Callable[[ProgressEstimate | None], None],
    seed: int,
) -> Search:
    runner = CaseRunner(settings, settings.vllm.model)
    known = {outcome.key: outcome for outcome in results.earlier if outcome.counts}

    def run(arm: Arm, case: Case, seed: int) -> Outcome:
        show(estimate_progress(search, arm))
        if (arm.name, case.id, seed) in known:
            return known[arm.name, case.id, seed]
        return results.add(runner.run(arm, case, seed))

    def vary(arm: Arm, outcomes: Sequence[Outcome], beaten: Sequence[Arm]) -> list[Arm]:
        varied = list_variations(arm, runner.settings, thinks=any(outcome.thinks for outcome in outcomes))
        return [*varied, *(free for each in beaten for free in drop_grammar(each, runner.settings))]

    search = Search(cases, plan, run, vary, seed)
    return search


def _find_server(settings: Settings) -> Settings:
    """The settings with the server and the model that answer. Raises BotError."""

    def show(event: Event) -> None:
        if isinstance(event, Notice):
            print(f"! {sanitize(event.text)}", file=sys.stderr)

    return discover(Factory(settings), refuse_to_choose, show).settings


def _ask_server(settings: Settings, search: Search, out: Path) -> ServerFacts:
    """What advice needs to know. A chat template is written to the folder where the model's own shows no tools."""
    model = settings.vllm.model
    if settings.vllm.provider != "vllm":
        return ServerFacts(model, is_vllm=False)
    connections, path = Factory(settings).connections, None
    if hides_tools(search):
        with connections.open_server() as server:
            template = server.ask(lambda it: derive_template(it, model))
        if template:
            path = (out / TEMPLATE).resolve()
            path.write_text(template, encoding="utf-8")
    return ServerFacts(model, connections.find_root(model), template=path)


def _apply(advice: Advice, options: argparse.Namespace) -> None:
    """Raises ConfigError."""
    file = Path(options.config) if options.config else get_user_file(os.environ)
    if file is None:
        raise ConfigError("There is no home folder for a settings file.", "Name a file with --config.")
    for key, value in advice.settings.items():
        write_setting(file, key, value)
        print(sanitize(f"{key} is set in {file}"), file=sys.stderr)


def _name_folder(model: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in model).strip("-.") or "model"


@contextmanager
def _open_progress(plan: Plan) -> Iterator[Callable[[ProgressEstimate | None], None]]:
    """Shows how far the eval is: a bar on a terminal, elsewhere a line now and then. None ends it."""
    if not sys.stderr.isatty():
        yield _make_log()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[about]}"))
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        line = bar.add_task("", total=plan.requests, about="")

        def show(progress: ProgressEstimate | None) -> None:
            if progress is None:
                bar.stop()
            else:
                bar.update(line, completed=progress.requests, total=progress.expected, about=_describe(progress))

        yield show


def _make_log() -> Callable[[ProgressEstimate | None], None]:
    last = time.monotonic()

    def show(progress: ProgressEstimate | None) -> None:
        nonlocal last
        if progress and time.monotonic() - last >= LOG_INTERVAL_S:
            last = time.monotonic()
            done = f"{progress.requests:,} of {progress.expected:,} requests"
            print(f"{time.strftime('%H:%M:%S')} {done}, {_describe(progress)}", file=sys.stderr, flush=True)

    return show


def _describe(progress: ProgressEstimate) -> str:
    left = f", {_format_span(progress.seconds_left)} left" if progress.requests else ""
    return f"{progress.arm}{left}"


def _format_span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
