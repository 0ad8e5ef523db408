"""A test of many rows tells of each that fails."""

import pytest

from .each import check_each, check_rows

SEEN = []


@check_each(number=[1, 2], letter="ab")
def test_each_combination_is_tried_with_the_fixtures_of_the_test(number, letter, tmp_path):
    assert tmp_path.is_dir()
    SEEN.append((number, letter))
    assert SEEN[-1] in [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert len(set(SEEN)) == len(SEEN)


def test_every_row_that_fails_is_named():
    @check_each(number=range(4))
    def check(number):
        assert number in (0, 2)

    with pytest.raises(AssertionError, match=r"2 of 4 rows:\n  1: .*\n  3: "):
        check()


def test_rows_hold_a_value_for_each_name():
    seen = []

    @check_rows("number, letter", [(1, "a"), (2, "b")])
    def check(number, letter):
        seen.append((number, letter))

    check()
    assert seen == [(1, "a"), (2, "b")]


def test_rows_of_one_name_are_its_values():
    seen = []
    check_rows("row", [(1, "a"), "b"])(lambda row: seen.append(row))()
    assert seen == [(1, "a"), "b"]


def test_a_table_without_rows_is_a_mistake():
    with pytest.raises(AssertionError, match="nothing to check"):
        check_each(number=[])
