"""The search for the best arm stops where the outcomes are clear, and says so where there is no difference."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from src.eval.arms import Arm
from src.eval.progress import count_all_requests
from src.eval.search import QUICK, HarnessFailed
from src.eval.statistics import Pairs
from tests.thorough import sample

from .runs import CASES, PATHS, answer_by_chance, draw_difficulties, make_search, right, wrong


def test_an_arm_that_is_beaten_stops_early():
    search = make_search(lambda arm, *at: (wrong if arm.name == "template" else right)(arm, *at))
    best = search.find_best(PATHS)
    assert best is not None
    assert best.name == "native"
    assert search.standings["template"].verdict == "worse"
    assert len(search.outcomes["template"]) == 8


def test_without_a_difference_the_path_that_the_chat_uses_stays():
    search = make_search(right)
    assert search.find_best(PATHS) == PATHS[0]
    assert {name: each.verdict for name, each in search.standings.items()} == {
        "native": "best",
        "template": "same",
        "text": "same",
    }


def test_a_better_arm_takes_the_place_of_the_best():
    search = make_search(lambda arm, *at: (right if arm.name == "text" else wrong)(arm, *at))
    assert search.find_best(PATHS) == PATHS[2]
    assert search.standings["native"].against == "text"


def test_of_arms_with_the_same_right_calls_the_one_wins_that_needs_no_repair():
    search = make_search(lambda arm, *at: right(arm, *at, kind="server" if arm.name == "native" else ""))
    assert search.find_best(PATHS) == PATHS[1]
    assert search.standings["native"].reason == "clean runs"


def test_right_calls_that_were_repaired_beat_wrong_ones_that_were_not():
    def run(arm, case, seed):
        if arm.name == "text":
            return right(arm, case, seed, kind="format")
        return (right if CASES.index(case) % 2 else wrong)(arm, case, seed)

    assert make_search(run).find_best(PATHS) == PATHS[2]


def test_a_path_that_the_server_refuses_costs_one_run():
    search = make_search(lambda arm, *at: wrong(arm, *at, "refused") if arm.name == "native" else right(arm, *at))
    assert search.find_best(PATHS) == PATHS[1]
    assert search.standings["native"].verdict == "refused"
    assert len(search.outcomes["native"]) == 1


def test_there_is_no_best_where_the_server_refuses_all():
    assert make_search(lambda *at: wrong(*at, "refused")).find_best(PATHS) is None


def test_other_settings_are_tried_on_the_best_path():
    tried: list[Arm] = []

    def vary(arm, outcomes, _):
        assert {outcome.arm for outcome in outcomes} == {arm.name}
        tried.append(arm)
        return [arm.vary("stream off", vllm__stream=False)]

    def run(arm, *at):
        return (right if "stream off" in arm.name else wrong)(arm, *at)

    best = make_search(run, vary=vary).find_best(PATHS)
    assert tried == [PATHS[0]]
    assert best is not None
    assert best.changes == {"vllm.paths": ["native"], "vllm.stream": False}


def test_a_run_that_failed_by_itself_counts_for_nobody():
    search = make_search(
        lambda arm, case, seed: wrong(arm, case, seed, "harness") if case is CASES[0] else right(arm, case, seed)
    )
    search.find_best(PATHS)
    assert len(search.list_outcomes(PATHS[0])) == len(search.outcomes["native"]) - sum(
        1 for case, _ in search.outcomes["native"] if case == CASES[0].id
    )


def test_it_is_given_up_where_run_after_run_fails_by_itself():
    def run(arm, case, seed):
        return right(arm, case, seed) if CASES.index(case) < 8 else wrong(arm, case, seed, "harness", why="no route")

    with pytest.raises(HarnessFailed, match="no route"):
        make_search(run).find_best(PATHS)


def test_another_arm_is_the_best_where_the_best_so_far_fails_by_itself():
    def run(arm, case, seed):
        if arm.name == "native" and case is not CASES[0]:
            return wrong(arm, case, seed, "harness", why="timed out")
        return right(arm, case, seed)

    search = make_search(run)
    assert search.find_best(PATHS) == PATHS[1]
    native = search.standings["native"]
    assert (native.verdict, native.against, native.reason) == ("failed", "template", "timed out")
    assert len(search.outcomes["native"]) == 4
    assert search.standings["text"].against == "template"


def test_what_was_decided_against_an_arm_that_fails_by_itself_is_decided_anew():
    def run(arm, case, seed):
        at = CASES.index(case)
        if (arm.name == "native" and at >= 8) or ("stream off" in arm.name and at >= 9):
            return wrong(arm, case, seed, "harness")
        return (wrong if arm.name == "template" else right)(arm, case, seed)

    search = make_search(run, vary=lambda arm, *_: [arm.vary("stream off", vllm__stream=False)])
    assert search.find_best(PATHS[:2]) == PATHS[1]
    assert {name: each.verdict for name, each in search.standings.items()} == {
        "native": "failed",
        "native, stream off": "failed",
        "template": "best",
    }


def test_the_best_arm_stays_where_no_other_has_a_run_that_counts():
    def run(arm, case, seed):
        if arm.name == "native" and CASES.index(case) not in (1, 2, 3):
            return right(arm, case, seed)
        return wrong(arm, case, seed, "harness" if arm.name == "native" else "refused")

    assert make_search(run).find_best(PATHS) == PATHS[0]


def test_there_is_no_best_where_all_runs_fail_by_themselves():
    search = make_search(lambda *at: wrong(*at, "harness", why="no route"))
    assert search.find_best(PATHS) is None
    assert {(each.verdict, each.reason) for each in search.standings.values()} == {("failed", "no route")}
    assert search.requests == 9


def test_an_arm_alone_keeps_what_counts_where_its_last_runs_failed_by_themselves():
    def run(arm, case, seed):
        return right(arm, case, seed) if CASES.index(case) < 32 else wrong(arm, case, seed, "harness")

    search = make_search(run, replace(QUICK, samples=36))
    assert search.measure_only(PATHS[0]) == PATHS[0]


def test_an_arm_without_a_run_is_not_the_best():
    search = make_search(right, replace(QUICK, requests=2))
    assert search.find_best(PATHS) is None
    assert search.standings["native"].reason == "there are too few requests for one run"
    assert make_search(right, replace(QUICK, requests=2)).measure_only(PATHS[0]) is None


def test_two_paths_that_fail_by_themselves_do_not_hide_a_third():
    search = make_search(lambda arm, *at: right(arm, *at) if arm.name == "text" else wrong(arm, *at, "harness"))
    assert search.find_best(PATHS) == PATHS[2]


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_quick_asks_the_model_200_times_at_most(share):
    search = make_search(answer_by_chance(1, draw_difficulties(random.Random(1), share)))
    search.find_best(PATHS)
    assert search.requests <= 200


def test_comparing_takes_less_than_three_fifths_of_every_case_under_every_arm():
    def vary(arm, *_):
        return [arm.vary("stream off", vllm__stream=False), arm.vary("temperature 0", vllm__temperature=0.0)]

    search = make_search(answer_by_chance(1, draw_difficulties(random.Random(1), 0.95)), vary=vary)
    search.find_best(PATHS)
    assert search.compared < 0.6 * count_all_requests(search)


@pytest.mark.thorough
def test_two_equal_arms_differ_in_five_of_a_hundred_seeds_at_most():
    same, seeds = 0, sample(range(100), 2)
    for seed in seeds:
        search = make_search(answer_by_chance(seed, draw_difficulties(random.Random(seed), 0.8)))
        best = search.find_best(PATHS[:2])
        same += best == PATHS[0] and search.standings["template"].verdict == "same"
    assert same >= 0.95 * len(seeds)


@pytest.mark.thorough
def test_of_ten_equal_arms_another_is_taken_for_better_in_one_of_ten_evals_at_most():
    def vary(arm, *_):
        return [arm.vary(f"change {number}", vllm__stream=False) for number in range(7)]

    stayed, seeds = 0, sample(range(60), 3)
    for seed in seeds:
        run = answer_by_chance(seed, draw_difficulties(random.Random(seed), 0.8))
        stayed += make_search(run, replace(QUICK, requests=800), vary=vary).find_best(PATHS) == PATHS[0]
    assert stayed >= 0.9 * len(seeds)


def test_the_same_outcomes_lead_the_same_way():
    shares = draw_difficulties(random.Random(3), 0.7)
    first, again = (make_search(answer_by_chance(3, shares)) for _ in range(2))
    assert first.find_best(PATHS) == again.find_best(PATHS)
    assert first.outcomes == again.outcomes


def test_each_case_gets_another_seed_in_each_round():
    search = make_search(right, replace(QUICK, samples=80))
    assert search.samples[0] == (CASES[0], 0)
    assert search.samples[40] == (CASES[0], 1)


def test_an_arm_whose_runs_all_fail_by_themselves_is_out_and_no_difference_is_claimed():
    search = make_search(lambda arm, *at: wrong(arm, *at, "harness") if arm.name == "text" else right(arm, *at))
    assert search.find_best(PATHS) == PATHS[0]
    assert len(search.outcomes["text"]) == 3
    assert search.standings["text"].verdict == "failed"


def test_an_arm_that_fails_by_itself_is_still_one_that_the_server_may_take():
    def run(arm, *at):
        if arm.name == "text":
            return wrong(arm, *at, "harness")
        return wrong(arm, *at, "refused") if arm.name == "template" else right(arm, *at)

    search = make_search(run)
    search.find_best(PATHS)
    assert search.list_offered() == ["native", "text"]


def test_arms_that_stay_close_are_the_same_once_all_pairs_were_run():
    def run(arm, case, seed):
        loses = CASES.index(case) % 8 == (0 if arm.name == "native" else 4)
        return (wrong if loses else right)(arm, case, seed)

    search = make_search(run)
    assert search.find_best(PATHS[:2]) == PATHS[0]
    assert search.standings["template"].verdict == "same"
    assert search.standings["template"].pairs == Pairs(ties=30, wins=5, losses=5)


def test_arms_without_a_case_that_counts_under_both_are_undecided():
    def run(arm, case, seed):
        fails = CASES.index(case) % 2 == (0 if arm.name == "text" else 1)
        return wrong(arm, case, seed, "harness") if fails else right(arm, case, seed)

    search = make_search(run)
    assert search.find_best([PATHS[0], PATHS[2]]) == PATHS[0]
    standing = search.standings["text"]
    assert (standing.verdict, standing.reason) == ("open", "no case has a run that counts under both")


def test_the_first_path_is_not_the_best_where_none_of_its_runs_counts():
    search = make_search(lambda arm, *at: wrong(arm, *at, "harness") if arm.name == "native" else right(arm, *at))
    assert search.find_best(PATHS) == PATHS[1]
    assert len(search.outcomes["native"]) == 3
    assert search.standings["native"].verdict == "failed"


def test_a_refusal_after_a_run_that_failed_by_itself_is_a_refusal():
    def run(arm, case, seed):
        if arm.name == "native":
            return wrong(arm, case, seed, "harness" if case is CASES[0] else "refused")
        return right(arm, case, seed)

    search = make_search(run)
    assert search.find_best(PATHS) == PATHS[1]
    assert [each.kind for each in search.outcomes["native"].values()] == ["harness", "refused"]
    assert search.standings["native"].verdict == "refused"


def test_an_arm_that_fails_from_some_case_on_is_left_undecided():
    def run(arm, case, seed):
        is_failing = arm.name == "text" and CASES.index(case) >= 4
        return wrong(arm, case, seed, "harness", why="timed out") if is_failing else right(arm, case, seed)

    search = make_search(run)
    search.find_best(PATHS)
    assert len(search.outcomes["text"]) == 7
    standing = search.standings["text"]
    assert (standing.verdict, standing.reason, standing.pairs.total) == ("failed", "timed out", 4)


def test_where_the_requests_run_out_an_arm_stays_undecided():
    search = make_search(right, replace(QUICK, requests=30))
    assert search.find_best(PATHS) == PATHS[0]
    assert search.standings["text"].verdict == "open"
    assert search.requests <= 30
