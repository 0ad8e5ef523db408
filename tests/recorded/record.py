"""Writes what test_recorded.py and test_corpus.py compare with: `python -m tests.recorded.record`.

It was run once, at commit 6e7a888. Run it again only where behaviour is meant to change, and name each difference.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from . import corpus, storage
from .program import World
from .scenarios import DATA, KINDS, SESSIONS, Scenario, scenarios, write_sessions


def in_world(scenario: Scenario) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return scenario(World(Path(folder) / "world"))


def record_sessions() -> None:
    SESSIONS.mkdir(parents=True, exist_ok=True)
    for name, text in in_world(write_sessions).items():
        (SESSIONS / f"{name}.jsonl").write_text(text, encoding="utf-8")


def record_corpus() -> None:
    for name in corpus.CORPUS:
        digests = [corpus.digest_case(case) for case in corpus.read_cases(name)]
        _write_lines(name, digests)


def record_policy() -> None:
    for name, cases in corpus.attacks().items():
        columns = [in_world(partial(corpus.decide, cases=cases, profile=profile)) for profile in corpus.PROFILES]
        _write_lines(name, ["  ".join(row) for row in zip(*columns, strict=True)])


def _write_lines(name: str, lines: list[str]) -> None:
    (DATA / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def record() -> None:
    record_sessions()
    for kind in KINDS:
        storage.save(DATA / f"{kind}.json", {name: in_world(run) for name, run in scenarios(kind).items()})
    record_corpus()
    record_policy()


if __name__ == "__main__":
    record()
