"""Ids for calls that came without one."""

from src.parsing.ids import counted_ids


def test_ids_are_nine_digits_and_differ():
    new_id = counted_ids()
    ids = [new_id() for _ in range(5_000)]
    assert len(set(ids)) == len(ids)
    assert all(len(each) == 9 and each.isascii() and each.isalnum() for each in ids)


def test_two_sources_give_the_same_ids():
    assert counted_ids()() == counted_ids()()
