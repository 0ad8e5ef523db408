"""`vllm-bot eval`: which call path, settings and server flags this model does best with. See docs/eval.md."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ...app.connect import Connections
from ...app.factory import Factory
from ...config import Settings, write_setting
from ...errors import FAILED, INTERRUPTED, BotError
from ...eval.advice import EvalAdvice, ServerFacts, advise, hides_tools
from ...eval.arms import Arm, drop_grammar, list_paths, list_variations
from ...eval.baseline import ArmBaseline, compare_to_baseline, read_baseline
from ...eval.bfcl import read_bfcl
from ...eval.cases import BUILT_IN, Case, fingerprint, read_cases
from ...eval.outcomes import CaseOutcome, EvalResults
from ...eval.page import write_page
from ...eval.progress import ProgressEstimate, estimate_progress
from ...eval.report import render_text
from ...eval.running import CaseRunner
from ...eval.search import FULL, QUICK, Plan, Search
from ...eval.template import derive_template
from ...security.text.sanitize import sanitize
from ...types.messages import JSON
from ..arguments import parse_number
from ..load_settings import find_settings_file, load_settings
from ..render.plain import get_columns
from ..render.wrap import wrap_text
from .records import add_record_options, run_records
from .runs import ProgressStep, ShowStep, find_server, format_span, open_progress, tell_how_to_go_on

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
    aim = parser.add_mutually_exclusive_group()  # a baseline recommends nothing that could be applied
    aim.add_argument(
        "--baseline", metavar="FILE", help="results.jsonl of an earlier eval: is its best arm worse now? (exit code 1)"
    )
    aim.add_argument("--apply", action="store_true", help="write the recommended settings to the settings file")
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
    add_record_options(parser)


def run_eval(options: argparse.Namespace) -> int:
    """Returns the exit code: 1 if it is significantly worse than the baseline, or a replay differs. Raises BotError."""
    if options.replay or options.export:
        return run_records(options)
    settings = find_server(load_settings(options))
    plan, cases = _choose_cases(options)
    baseline = None
    if options.baseline:
        baseline = read_baseline(Path(options.baseline), fingerprint(cases))
    folder = re.sub(r"[^\w.-]", "-", settings.vllm.model).strip("-.") or "model"
    out = Path(options.out or DEFAULT_OUT / folder)
    about: dict[str, JSON] = {
        "model": settings.vllm.model,
        "server": settings.vllm.base_url,
        "cases": fingerprint(cases),
        "plan": plan.name,
        "requests": plan.requests,
        "seed": options.seed,
        "arms": baseline.arm.name if baseline else "all",
    }
    clean = Factory(settings).clean
    with (
        EvalResults(out, about, clean, reuses=options.apply) as results,
        open_progress("requests", LOG_INTERVAL_S) as show,
    ):
        search = _make_search(settings, cases, plan, results, show, options.seed)
        try:
            best = _find_best(search, settings, baseline)
        except KeyboardInterrupt:
            show(None)
            tell_how_to_go_on(f"{search.requests} requests are recorded in {out}.")
            return INTERRUPTED
        if baseline:
            is_worse, advice = compare_to_baseline(baseline, search.list_outcomes(best))
        else:
            is_worse = False
            advice = advise(best, search, settings, _find_facts(settings, search, out))
        results.finish({"arm": best.name, "changes": dict(best.changes), "settings": dict(advice.settings)})
    page = write_page(out, search, advice, cases, about)
    print(sanitize(advice.headline))  # not wrapped: commands are copied
    columns = max(get_columns(sys.stdout) - 1, 0)
    print(wrap_text(sanitize(render_text(search, advice, columns)), columns))
    print(f"results: {results.path}, report: {page}", file=sys.stderr)
    _apply(advice, options)
    return FAILED if is_worse else 0


def _choose_cases(options: argparse.Namespace) -> tuple[Plan, Sequence[Case]]:
    """What is run, and how often. Raises ConfigError."""
    plan = FULL if options.full else QUICK
    plan = replace(plan, requests=options.requests or plan.requests)
    if options.data:
        return plan, read_bfcl(plan.pairs)
    return plan, read_cases(Path(options.own or BUILT_IN))


def _find_best(search: Search, settings: Settings, baseline: ArmBaseline | None) -> Arm:
    """The best arm, or that of the baseline. Raises BotError if none can be used."""
    if baseline:
        best = search.measure_only(baseline.arm)
    else:
        best = search.find_best(list_paths(settings))
    if best is not None:
        return best
    standings = search.standings.values()
    problem = "The server takes tools in none of the ways that were tried."
    if any(each.verdict == "failed" for each in standings):
        problem = "There is nothing to compare: no call path has a run that counts."
    raise BotError(problem, "\n".join(f"{each.arm.name}: {each.reason}" for each in standings))


def _make_search(
    settings: Settings,
    cases: Sequence[Case],
    plan: Plan,
    results: EvalResults,
    show: ShowStep,
    first_seed: int,
) -> Search:
    runner = CaseRunner(settings, settings.vllm.model)
    earlier = {outcome.key: outcome for outcome in results.earlier if outcome.counts}

    def run(arm: Arm, case: Case, seed: int) -> CaseOutcome:
        show(_make_step(estimate_progress(search, arm)))
        if (arm.name, case.id, seed) in earlier:
            return earlier[arm.name, case.id, seed]
        return results.add(runner.run(arm, case, seed))

    def vary(arm: Arm, outcomes: Sequence[CaseOutcome], beaten: Sequence[Arm]) -> list[Arm]:
        varied = list_variations(arm, runner.settings, thinks=any(outcome.thinks for outcome in outcomes))
        return [*varied, *(free for each in beaten for free in drop_grammar(each, runner.settings))]

    search = Search(cases, plan, run, vary, first_seed)
    return search


def _find_facts(settings: Settings, search: Search, out: Path) -> ServerFacts:
    """What advice needs to know of the server. Where its chat template hides tools, one that shows them is written."""
    model = settings.vllm.model
    if settings.vllm.provider != "vllm":
        return ServerFacts(model, is_vllm=False)
    connections = Factory(settings).connections
    root = connections.find_root(model)
    if not hides_tools(search):
        return ServerFacts(model, root)
    return ServerFacts(model, root, template=_write_template(connections, model, out / TEMPLATE))


def _write_template(connections: Connections, model: str, path: Path) -> Path | None:
    """Write a chat template that shows the model its tools. None where none can be made of the model's own."""
    with connections.open_server() as server:
        template = server.ask(lambda it: derive_template(it, model))
    if not template:
        return None
    path = path.resolve()
    path.write_text(template, encoding="utf-8")
    return path


def _apply(advice: EvalAdvice, options: argparse.Namespace) -> None:
    """Write the settings with --apply, else say how that is done. Raises ConfigError."""
    if not advice.settings:
        return
    if not options.apply:
        print("To write these settings: the same command with --apply, which asks the model nothing.", file=sys.stderr)
        return
    file = find_settings_file(options)
    for key, value in advice.settings.items():
        write_setting(file, key, value)
        print(sanitize(f"{key} is set in {file}"), file=sys.stderr)


def _make_step(progress: ProgressEstimate) -> ProgressStep:
    about = progress.arm
    if progress.requests:
        about += f", {format_span(progress.seconds_left)} left"
    return ProgressStep(progress.requests, progress.expected, about)
