"""`vllm-bot doctor`: one line per check, saying what works, what does not, and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from ...config import Settings
from ...errors import BotError
from ...security.text.sanitize import sanitize
from ..load_settings import load_settings
from ..render.colours import paint
from ..render.plain import get_columns
from ..render.wrap import HANGING_INDENT, wrap_text
from .checks import BASIC, LOCAL, PROBES, VLLM_ONLY, Diagnosis, Finding, check_terminal

DOCS = "https://docs.vllm.ai/en/latest/features/tool_calling/"
ADVICE_MARGIN = 28  # in columns
F = TypeVar("F", bound=Finding | None)
COLOURS = {"pass": "32", "warn": "33", "fail": "31"}


def add_doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=("text", "json"), default=argparse.SUPPRESS, help="json: one object")


def run_doctor(options: argparse.Namespace) -> int:
    return print_report(lambda: load_settings(options), as_json=options.output not in (None, "text"))


def print_report(load: Callable[[], Settings], *, as_json: bool = False) -> int:
    """Check these settings and print what was found; 0 where nothing fails, else 1."""
    diagnosis, checks = Diagnosis(load), dict[str, Finding]()
    for name, finding in examine(diagnosis):
        checks[name] = finding
        if not as_json:
            print(_format_line(name, finding), flush=True)
    failed = any(finding.status == "fail" for finding in checks.values())
    if as_json:
        rows = [{"name": name, **finding._asdict()} for name, finding in checks.items()]
        print(json.dumps({"checks": rows, "serve": make_serve_command(diagnosis), "exit_code": int(failed)}, indent=2))
    elif diagnosis.models and diagnosis.is_vllm and not diagnosis.engine and (advice := _format_advice(diagnosis)):
        print(f"\n{advice}")
    return int(failed)


def examine(diagnosis: Diagnosis) -> Iterator[tuple[str, Finding]]:
    """The findings as they are made. When a basic check fails, those that depend on it are left out."""
    for name, check in BASIC.items():
        finding = _run_check(check, diagnosis)
        yield name, finding
        if finding.status == "fail":
            break
    else:
        yield from _run_checks(PROBES, diagnosis)
    if name != "configuration":
        yield from _run_checks(LOCAL, diagnosis)
    yield "terminal", check_terminal()


def _run_checks(
    checks: Mapping[str, Callable[[Diagnosis], Finding | None]], diagnosis: Diagnosis
) -> Iterator[tuple[str, Finding]]:
    for name, check in checks.items():
        if (diagnosis.is_vllm or check not in VLLM_ONLY) and (finding := _run_check(check, diagnosis)):
            yield name, finding


def _run_check(check: Callable[[Diagnosis], F], diagnosis: Diagnosis) -> F | Finding:
    try:
        return check(diagnosis)
    except BotError as error:
        return Finding("fail", error.message, error.hint)


def make_serve_command(diagnosis: Diagnosis) -> str | None:
    """The command that would make this model's tool calls native; None for an unknown family, or another server."""
    if diagnosis.engine:
        return None
    name = diagnosis.root or diagnosis.model_name
    if diagnosis.family and diagnosis.parser in ("", diagnosis.family.tool_parser):
        return f"vllm serve {name} {diagnosis.family.flags}"
    if diagnosis.parser:
        return f"vllm serve {name} --enable-auto-tool-choice --tool-call-parser {diagnosis.parser}"
    return None


def _format_line(name: str, finding: Finding) -> str:
    columns, status = get_columns(sys.stdout), finding.status
    margin = " " * ADVICE_MARGIN
    if 0 < columns <= 2 * ADVICE_MARGIN:
        margin = " " * HANGING_INDENT
    lines = [f"{status}  {name:21} {sanitize(finding.said)}"]
    lines += [f"{margin}{sanitize(line)}" for line in finding.advice.splitlines()]
    text = wrap_text("\n".join(lines), columns - 1)
    if not columns or os.environ.get("NO_COLOR"):
        return text
    return paint(status, COLOURS[status]) + text.removeprefix(status)


def _format_advice(diagnosis: Diagnosis) -> str:
    """How to start a server for native calls; "" where they are native and no command is known."""
    command = make_serve_command(diagnosis)
    why = "For native tool calls"
    if diagnosis.native:
        why = "Its tool calls are native. To start a server like this one"
    if command:
        return f"{why}:\n  {sanitize(command)}"
    if diagnosis.native:
        return ""
    return f"Which --tool-call-parser reads the calls of {sanitize(diagnosis.model_name)} is listed at\n  {DOCS}"
