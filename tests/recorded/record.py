"""Writes what the tests of this folder compare with: `python -m tests.recorded.record KIND...`.

All of it was recorded at commit 6e7a888. Record a kind again only where behaviour is meant to change, and name each
difference in the commit. The journals stay those of 6e7a888, which have to open for ever.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from src.app.connect import FACTS

from . import corpus, storage
from .asking import DATA, SESSIONS, Scenario
from .program import World
from .scenarios import KINDS, list_scenarios
from .sessions import write_sessions


def run_in_world(scenario: Scenario) -> Any:
    FACTS.clear()  # a port may be used again
    with tempfile.TemporaryDirectory() as folder:
        return scenario(World(Path(folder) / "world"))


def record_journals() -> None:
    SESSIONS.mkdir(parents=True)
    for name, text in run_in_world(write_sessions).items():
        (SESSIONS / f"{name}.jsonl").write_text(text, encoding="utf-8")


def record_corpus() -> None:
    for name in corpus.CORPUS:
        digests = [corpus.hash_case(case) for case in corpus.read_cases(name)]
        _write_lines(name, digests)


def record_policy() -> None:
    for name, calls in corpus.read_attacks().items():
        columns = [run_in_world(partial(corpus.decide, calls=calls, profile=profile)) for profile in corpus.PROFILES]
        _write_lines(name, ["  ".join(row) for row in zip(*columns, strict=True)])


def _write_lines(name: str, lines: list[str]) -> None:
    (DATA / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def record(kinds: list[str]) -> None:
    if not SESSIONS.exists():
        record_journals()
    for kind in kinds:
        if kind == "corpus":
            record_corpus()
        elif kind == "policy":
            record_policy()
        else:
            found = {name: run_in_world(run) for name, run in list_scenarios(kind).items()}
            storage.save(DATA / f"{kind}.json", found)


if __name__ == "__main__":
    record(sys.argv[1:] or sys.exit(f"name what to record: {', '.join([*KINDS, 'corpus', 'policy'])}"))
