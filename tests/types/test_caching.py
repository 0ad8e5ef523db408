"""A value is computed once for each message that stays in the conversation."""

import pytest

from src.types.caching import LastMemo, MessageMemo, count_shared
from src.types.messages import UserMessage
from tests.each import check_rows

A, B, C = UserMessage("a"), UserMessage("b"), UserMessage("c")


def make_memo():
    """A memo, and the messages that it computed a value for."""
    computed = []

    def compute(message):
        computed.append(message)
        return message.text.upper()

    return MessageMemo(compute), computed


def test_a_message_that_is_added_is_computed_alone():
    memo, computed = make_memo()
    assert memo([A, B]) == ["A", "B"]
    assert memo([A, B, C]) == ["A", "B", "C"]
    assert computed == [A, B, C]


def test_messages_that_stay_are_not_computed_again_when_others_leave():
    memo, computed = make_memo()
    memo([A, B, C])
    assert memo([A, C]) == ["A", "C"]
    assert memo([C, A]) == ["C", "A"]
    assert computed == [A, B, C]


def test_messages_are_compared_by_identity():
    memo, computed = make_memo()
    memo([A])
    memo([UserMessage("a")])
    assert len(computed) == 2


def test_a_message_that_left_is_computed_again():
    memo, computed = make_memo()
    for messages in ([A, B], [B], [A, B]):
        memo(messages)
    assert computed == [A, B, A]


def test_a_call_that_was_interrupted_leaves_no_wrong_value():
    texts = iter(["A", KeyboardInterrupt(), "B", "C"])

    def compute(_):
        value = next(texts)
        if isinstance(value, BaseException):
            raise value
        return value

    memo = MessageMemo(compute)
    with pytest.raises(KeyboardInterrupt):
        memo([A, B])
    assert memo([A, B, C]) == ["A", "B", "C"]


class TestLastMemo:
    def test_an_equal_value_is_computed_once(self):
        computed = []
        memo = LastMemo(lambda value: computed.append(value) or len(computed))
        assert [memo(("a", 1)), memo(("a", 1)), memo(("a", 2)), memo(("a", 1))] == [1, 1, 2, 3]


@check_rows(
    "before, now, shared",
    [
        ([], [A], 0),
        ([A], [A, B], 1),
        ([A, B], [A], 1),
        ([A, B, C], [A, C], 1),
        ([A], [UserMessage("a")], 0),
        ([A], [], 0),
    ],
)
def test_shared_objects_are_counted_from_the_first_on(before, now, shared):
    assert count_shared(before, now) == shared
