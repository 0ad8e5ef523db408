"""How far an eval is, from what its search has done."""

from __future__ import annotations

from msgspec.structs import replace

from src.eval.progress import ProgressEstimate, estimate_progress
from src.eval.search import QUICK

from .runs import CASES, PATHS, make_search, right, wrong


def test_before_the_first_run_all_is_left_and_no_time_is_known():
    assert estimate_progress(make_search(right), PATHS[0]) == ProgressEstimate("native", 0, 200, 0.0)


def test_the_time_left_is_that_of_the_requests_left():
    search = make_search(right)
    search.measure(PATHS[0])
    search.requests = 50
    assert estimate_progress(search, PATHS[1]) == ProgressEstimate("template", 50, 200, (200 - 2) / 50 * 150)


def test_at_the_end_nothing_is_left():
    search = make_search(right, replace(QUICK, requests=4000, samples=40))
    search.measure_only(PATHS[0])
    progress = estimate_progress(search, PATHS[0])
    assert progress.requests == len(CASES)
    assert progress.expected == 2 * len(CASES)


def test_a_path_that_the_server_refuses_is_not_expected_to_be_asked():
    plan = replace(QUICK, requests=4000, samples=40)
    taken = make_search(right, plan)
    refused = make_search(
        lambda arm, *at: right(arm, *at) if arm.name == "native" else wrong(arm, *at, "refused"), plan
    )
    for search in (taken, refused):
        search.find_best(PATHS)
    assert estimate_progress(refused, PATHS[0]).expected < estimate_progress(taken, PATHS[0]).expected
