"""A value is computed once for each message that stays in the conversation."""

from src.types.caching import MessageMemo
from src.types.messages import UserMessage

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


def test_the_list_that_is_given_out_may_be_changed():
    memo, _ = make_memo()
    memo([A]).clear()
    assert memo([A]) == ["A"]
