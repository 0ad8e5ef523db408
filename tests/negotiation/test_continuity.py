"""The law of a conversation: what is kept of a prompt, and what the break is called."""

from hypothesis import given
from hypothesis import strategies as st

from src.negotiation.continuity import BLOCK_BYTES, CAUSES, ContinuityMeter, Sent, describe_kept
from src.types.events import PrefixKept
from tests.each import check_rows

IDS = st.lists(st.integers(0, 200_000), max_size=300)


def sent(*messages, model="m", path="native", tools="read", has_system=True):
    return Sent(model, path, tools, messages or ("s", "u"), has_system)


def write(ids, gap=","):
    return gap.join(map(str, ids)).encode()


def measure(first, answer, second, before=None, now=None, gap=","):
    meter = ContinuityMeter()
    for ids, said, request in ((first, answer, before or sent()), (second, [], now or sent("s", "u", "a", "v"))):
        kept = meter.measure(request, write(ids, gap), said)
    return kept


@given(IDS.filter(bool), IDS, IDS, st.sampled_from([",", ", "]))
def test_a_prompt_that_begins_with_the_last_one_and_its_answer_keeps_all(prompt, answer, more, gap):
    kept = measure(prompt, answer, [*prompt, *answer, *more], gap=gap)
    assert (kept.tokens, kept.of, kept.cause) == (len(prompt) + len(answer), len(prompt) + len(answer), "")
    assert kept.share == 1


@given(IDS.filter(bool), IDS, IDS.filter(bool), st.data())
def test_a_prompt_that_differs_keeps_no_more_than_it_shares_and_at_most_a_block_less(prompt, answer, other, data):
    before = [*prompt, *answer]
    shared = data.draw(st.integers(0, len(before) - 1))
    now = [*before[:shared], before[shared] + 1, *other]
    kept = measure(prompt, answer, now)
    assert shared - BLOCK_BYTES / 2 <= kept.tokens <= shared
    assert kept.cause in CAUSES


def test_a_number_that_only_begins_alike_is_another_one():
    assert measure([1, 2], [3], [1, 2, 34]).tokens < 3


@check_rows(
    "now, cause, place",
    [
        (sent("s", "u", "a", model="other"), "model", None),
        (sent("s", "u", "a", path="text"), "path", None),
        (sent("t", "u", "a", path="text"), "path", 0),
        (sent("s", "u", "a", tools="exec"), "tools", None),
        (sent("t", "u", "a"), "system", 0),
        (sent("s", "w", "a"), "edit", 1),
        (sent("s"), "compaction", 1),
    ],
)
def test_a_break_is_named_by_what_changed(now, cause, place):
    kept = measure([1] * 100, [2] * 50, [9] * 100, now=now)
    assert (kept.cause, kept.place) == (cause, place)


def test_where_the_messages_are_the_same_the_template_or_the_answer_is_the_cause():
    assert measure([1] * 100, [2] * 100, [1] * 20 + [9] * 200).cause == "template"
    assert measure([1] * 100, [2] * 300, [1] * 100 + [2] * 200 + [9] * 100).cause == "answer"


def test_a_conversation_without_a_system_prompt_has_none_that_changed():
    kept = measure([1] * 9, [2], [9], sent("u", has_system=False), sent("v", has_system=False))
    assert (kept.cause, kept.place) == ("edit", 0)


def test_without_token_ids_nothing_is_measured_and_nothing_is_compared_with_an_older_turn():
    meter = ContinuityMeter()
    for ids in (b"1,2", b"", b"1,2,3"):
        assert meter.measure(sent(), ids, [3]) is None


def test_what_was_kept_is_told_in_one_line():
    assert describe_kept(PrefixKept(99, 100)) == "99.0% of the last prompt and answer were the beginning of this prompt"
    assert describe_kept(PrefixKept(1, 4, "edit", 2)).endswith("; an earlier message changed, from message 3 on")
