"""Which tool results are left out or shortened, and when."""

from __future__ import annotations

import pytest

from src.agent import pruning
from src.agent.pruning import HEAD_CHARS, compute_output_budget, count_output_chars, shorten_old_results, store_nothing
from src.types.messages import Response, ToolCall, ToolResult, ToolResults, UserMessage
from tests.each import check_rows


def exchange(number: int, characters: int, *, ref: bool = True, kind: str = "text") -> list:
    value = "x" * characters
    result = ToolResult(f"c{number}", "read", kind, value, f"o{number:08}" if ref else "")
    return [Response((ToolCall(f"c{number}", "read", {}),), "tool_use"), ToolResults((result,))]


def talk(*exchanges: list) -> list:
    return [UserMessage("go"), *(message for each in exchanges for message in each)]


def trim_old_outputs(conversation: list, budget, store=store_nothing) -> int:
    return pruning.trim_old_outputs(conversation, budget, lambda messages: map(count_output_chars, messages), store)


def values(conversation: list) -> list[str]:
    return [result.value for message in conversation if isinstance(message, ToolResults) for result in message.results]


@check_rows(
    "context, tokens", [(None, 20_000), (3_000, 20_000), (128_000, 32_000), (400_000, 100_000), (10**6, 100_000)]
)
def test_the_budget_is_a_quarter_of_the_context_within_bounds(context, tokens):
    assert compute_output_budget(context) == tokens


def test_within_the_budget_nothing_changes_and_nothing_is_computed():
    conversation = talk(*(exchange(number, 39_000) for number in range(2)))
    assert trim_old_outputs(conversation, lambda: pytest.fail("asked")) == 0
    conversation = talk(*(exchange(number, 40_000) for number in range(9)))
    before = list(conversation)
    assert trim_old_outputs(conversation, lambda: 100_000) == 0
    assert conversation == before


def test_beyond_it_the_oldest_go_until_half_is_left():
    conversation = talk(*(exchange(number, 40_000) for number in range(6)))
    assert 39_000 < trim_old_outputs(conversation, lambda: 50_000) < 41_000
    trimmed = [f"[tool output trimmed; ref=o{number:08}]" for number in range(4)]
    assert values(conversation) == [*trimmed, "x" * 40_000, "x" * 40_000]
    assert trim_old_outputs(conversation, lambda: 50_000) == 0


def test_after_that_several_turns_change_nothing_of_what_came_before():
    conversation: list = talk()
    changed = 0
    for number in range(100):
        before = list(conversation)
        conversation += exchange(number, 8_000)
        trim_old_outputs(conversation, lambda: 20_000)
        changed += conversation[: len(before)] != before
    assert changed <= 20


def test_the_newest_outputs_stay_whatever_their_size():
    conversation = talk(exchange(1, 400_000))
    assert trim_old_outputs(conversation, lambda: 20_000) == 0
    conversation += exchange(2, 400_000)
    trim_old_outputs(conversation, lambda: 20_000)
    assert values(conversation) == ["[tool output trimmed; ref=o00000001]", "x" * 400_000]


def test_what_cannot_be_stored_or_is_short_stays():
    conversation = talk(exchange(1, 100_000, ref=False), exchange(2, 150), exchange(3, 100_000))
    assert trim_old_outputs(conversation, lambda: 20_000) == 0
    assert [len(value) for value in values(conversation)] == [100_000, 150, 100_000]


def test_what_leaves_the_conversation_is_stored_then_and_nothing_else():
    stored: list[str] = []

    def store(text: str) -> str:
        stored.append(text)
        return f"o{len(stored):08}"

    conversation = talk(*(exchange(number, 50_000 + number, ref=False) for number in range(3)))
    trim_old_outputs(conversation, lambda: 30_000, store)
    assert stored == ["x" * 50_000, "x" * 50_001]
    assert conversation[2].results[0] == ToolResult(
        "c0", "read", "text", "[tool output trimmed; ref=o00000001]", "o00000001"
    )
    assert values(conversation)[2] == "x" * 50_002


def test_a_shortened_result_says_where_all_of_it_is():
    conversation = call_and_result("a")
    shorten_old_results(conversation, 1, lambda _: "o00000001")
    (result,) = conversation[1].results
    assert 'tool_output_cache(ref_id="o00000001") shows them' in result.value
    assert result.ref == "o00000001"


def test_long_data_is_stored_with_lines():
    conversation = call_and_result("a", "data", [LONG] * 5)
    stored: list[str] = []
    shorten_old_results(conversation, 1, lambda text: stored.append(text) or "")
    assert stored[0].count("\n") == 6


def test_a_trimmed_error_and_trimmed_data_are_text():
    conversation = talk(exchange(1, 90_000, kind="error"), exchange(2, 10))
    trim_old_outputs(conversation, lambda: 20_000)
    assert conversation[2].results[0] == ToolResult(
        "c1", "read", "text", "[tool output trimmed; ref=o00000001]", "o00000001"
    )


LONG = "x" * 4000


def call_and_result(id, kind="text", value=LONG):
    return [
        Response((ToolCall(id, "read", {"path": id}),), "tool_use"),
        ToolResults((ToolResult(id, "read", kind, value),)),
    ]


def test_the_oldest_results_are_shortened_first_and_no_more_than_needed():
    conversation = [UserMessage("go"), *call_and_result("a"), *call_and_result("b"), *call_and_result("c")]
    before = list(conversation)
    freed = shorten_old_results(conversation, 500)
    assert freed >= 500
    assert conversation[2] != before[2]
    assert conversation[3:] == before[3:]


def test_a_shortened_result_keeps_its_head_and_says_how_much_is_gone():
    conversation = call_and_result("a")
    shorten_old_results(conversation, 1)
    (result,) = conversation[1].results
    assert result.value.startswith("x" * HEAD_CHARS)
    assert f"{len(LONG) - HEAD_CHARS:,} characters left out" in result.value
    assert result.tool_call_id == "a"


def test_the_newest_result_is_shortened_where_nothing_else_helps():
    conversation = call_and_result("only")
    assert shorten_old_results(conversation, 10_000) > 0


def test_data_is_shortened_as_the_text_it_is_sent_as():
    conversation = call_and_result("a", "data", {"rows": list(range(1000))})
    shorten_old_results(conversation, 1)
    assert conversation[1].results[0].kind == "text"


def test_of_a_picture_it_stays_known_that_there_was_one():
    conversation = call_and_result("a", "multimodal", [{"type": "image", "data": LONG, "mimeType": "image/png"}])
    assert shorten_old_results(conversation, 1) > 900
    assert conversation[1].results[0].text.startswith("[image of type image/png, not shown]\n[shortened to make room: ")


def test_errors_short_results_and_words_stay():
    conversation = [UserMessage(LONG), *call_and_result("a", "error"), *call_and_result("b", "text", "short")]
    before = list(conversation)
    assert shorten_old_results(conversation, 100) == 0
    assert conversation == before
