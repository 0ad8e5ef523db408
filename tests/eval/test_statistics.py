"""The tests of an eval keep to their promises: checked against exact values, and against models drawn by chance."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.eval.statistics import Pairs, compare, compute_regression_p, estimate_interval, tally

from .runs import draw_difficulties


class TestTheInterval:
    def test_of_a_share_is_wilsons(self):
        low, high = estimate_interval(8, 10)
        assert low == pytest.approx(0.4902, abs=1e-4)
        assert high == pytest.approx(0.9433, abs=1e-4)

    def test_of_no_runs_is_everything(self):
        assert estimate_interval(0, 0) == (0.0, 1.0)

    @given(st.integers(1, 500).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
    def test_holds_the_share(self, counts):
        passed, total = counts
        low, high = estimate_interval(passed, total)
        assert low - 1e-9 <= passed / total <= high + 1e-9


class TestTwoArms:
    def test_seven_losses_in_a_row_are_enough(self):
        assert compare(Pairs(0, 0, 6), 0.2) == "open"
        assert compare(Pairs(0, 0, 7), 0.2) == "worse"

    def test_the_test_has_two_sides(self):
        assert compare(Pairs(0, 7, 0), 0.2) == "better"

    def test_are_the_same_once_a_difference_of_the_margin_is_excluded(self):
        assert compare(Pairs(10, 0, 0), 0.2) == "open"
        assert compare(Pairs(11, 0, 0), 0.2) == "same"

    def test_are_not_the_same_where_each_alone_passes_some(self):
        assert compare(Pairs(40, 0, 0), 0.2) == "same"
        assert compare(Pairs(32, 4, 4), 0.2) == "open"

    @pytest.mark.parametrize(("margin", "last"), [(0.2, 40), (0.05, 400)], ids=["quick", "full"])
    def test_that_differ_by_the_margin_are_called_the_same_in_one_of_six_evals_at_most(self, margin, last):
        assert 0.05 < compute_chance_of_same(margin, last) < 1 / 6

    def test_without_a_sample_of_both_stay_open(self):
        assert compare(Pairs(0, 0, 0), 0.2) == "open"

    @given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
    def test_swapping_them_swaps_the_verdict(self, ties, wins, losses):
        opposite = {"better": "worse", "worse": "better"}
        verdict = compare(Pairs(ties, wins, losses), 0.2)
        assert compare(Pairs(ties, losses, wins), 0.2) == opposite.get(verdict, verdict)

    def test_are_compared_on_the_samples_that_both_have(self):
        ours = {("a", 0): True, ("b", 0): True, ("c", 0): False}
        theirs = {("a", 0): True, ("b", 0): False, ("d", 0): True}
        assert tally(ours, theirs) == Pairs(ties=1, wins=1, losses=0)


def compute_chance_of_same(margin: float, last: int) -> float:
    """That "same" is said at a look after every four cases, where one arm alone passes `margin` of them; exact."""
    undecided, same = {0: 1.0}, 0.0  # the chance of each number of losses
    for total in range(1, last + 1):
        after: dict[int, float] = {}
        for losses, chance in undecided.items():
            after[losses] = after.get(losses, 0.0) + chance * (1 - margin)
            after[losses + 1] = after.get(losses + 1, 0.0) + chance * margin
        undecided = after
        if total % 4 == 0:
            verdicts = {losses: compare(Pairs(total - losses, 0, losses), margin) for losses in undecided}
            same += sum(undecided[losses] for losses, verdict in verdicts.items() if verdict == "same")
            undecided = {losses: undecided[losses] for losses, verdict in verdicts.items() if verdict == "open"}
    return same


class TestARegression:
    def test_is_as_unlikely_as_fishers_test_says_where_there_is_one_case(self):
        assert compute_regression_p({"a": [True] * 4}, {"a": [False] * 4}) == pytest.approx(1 / 70)

    def test_of_several_cases_multiplies_what_each_says(self):
        before = {name: [True, True] for name in "abc"}
        now = {name: [False, False] for name in "abc"}
        assert compute_regression_p(before, now) == pytest.approx((1 / 6) ** 3)

    def test_is_not_seen_where_the_runs_are_equal(self):
        assert compute_regression_p({"a": [True, False]}, {"a": [True, False]}) > 0.5

    def test_a_case_that_only_one_has_says_nothing(self):
        assert compute_regression_p({"a": [True]}, {"b": [False]}) == 1.0

    @pytest.mark.parametrize(
        ("points", "before", "now"), [(10, 100, 165), (5, 400, 400)], ids=["10 points, quick", "5 points, full"]
    )
    def test_is_found_with_a_power_of_four_fifths(self, points, before, now):
        """A model that passes nine of ten cases, most of them always, and each less often from now on."""
        found = [is_regression_seen(seed, points / 100, before, now) for seed in range(200)]
        assert sum(found) >= 0.8 * len(found)

    def test_that_is_none_is_rarely_seen(self):
        assert sum(is_regression_seen(seed, 0.0, 100, 165) for seed in range(200)) <= 0.05 * 200


def is_regression_seen(seed: int, drop: float, before: int, now: int, share: float = 0.9) -> bool:
    chance = random.Random(seed)
    shares = list(draw_difficulties(chance, share).values())

    def run(count: int, factor: float) -> dict[str, list[bool]]:
        runs: dict[str, list[bool]] = {}
        for at in range(count):
            place = at % len(shares)
            runs.setdefault(str(place), []).append(chance.random() < shares[place] * factor)
        return runs

    return compute_regression_p(run(before, 1.0), run(now, (share - drop) / share)) < 0.05
