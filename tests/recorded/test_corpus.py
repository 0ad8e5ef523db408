"""The parser and the policy decide as they did at commit 6e7a888, on the texts and attacks of ../shared.

A part of the cases is replayed; `--hypothesis-profile many` replays all of them.
"""

from __future__ import annotations

import pytest

from . import corpus
from .program import World

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not corpus.SHARED.is_dir(), reason="the corpus in ../shared is not part of this repository"),
]


@pytest.mark.parametrize("name", corpus.CORPUS)
def test_the_parser_gives_the_recorded_calls_and_events(name):
    cases, recorded = corpus.read_cases(name), corpus.load(name)
    assert len(cases) == len(recorded)
    changed = [at for at in corpus.choose_places(name, len(cases)) if corpus.hash_case(cases[at]) != recorded[at]]
    assert changed == [], f"lines of {name}.jsonl, counted from 0"


@pytest.mark.parametrize("profile", corpus.PROFILES)
@pytest.mark.parametrize("name", ["io_cases"])
def test_the_policy_gives_the_recorded_decisions(name, profile, tmp_path):
    cases, recorded = corpus.read_attacks()[name], corpus.load(name)
    assert len(cases) == len(recorded)
    chosen = list(corpus.choose_places(name, len(cases)))
    column = corpus.PROFILES.index(profile)
    expected = {at: recorded[at].split("  ")[column] for at in chosen}
    found = dict(
        zip(chosen, corpus.decide(World(tmp_path / "world"), [cases[at] for at in chosen], profile), strict=True)
    )
    assert {at: found[at] for at in chosen if found[at] != expected[at]} == {}
