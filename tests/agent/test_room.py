from src.agent.room import KEPT, make_room
from src.types.messages import Response, ToolCall, ToolResult, ToolResults, UserMessage

LONG = "x" * 4000


def exchange(id, kind="text", value=LONG):
    return [
        Response((ToolCall(id, "read", {"path": id}),), "tool_use"),
        ToolResults((ToolResult(id, "read", kind, value),)),
    ]


def test_the_oldest_results_are_shortened_first_and_no_more_than_needed():
    conversation = [UserMessage("go"), *exchange("a"), *exchange("b"), *exchange("c")]
    before = list(conversation)
    freed = make_room(conversation, 500)
    assert freed >= 500
    assert conversation[2] != before[2]
    assert conversation[3:] == before[3:]


def test_a_shortened_result_keeps_its_head_and_says_how_much_is_gone():
    conversation = exchange("a")
    make_room(conversation, 1)
    (result,) = conversation[1].results
    assert result.value.startswith("x" * KEPT)
    assert f"{len(LONG) - KEPT:,} characters left out" in result.value
    assert result.tool_call_id == "a"


def test_the_newest_result_is_shortened_where_nothing_else_helps():
    conversation = exchange("only")
    assert make_room(conversation, 10_000) > 0


def test_data_is_shortened_as_the_text_it_is_sent_as():
    conversation = exchange("a", "data", {"rows": list(range(1000))})
    make_room(conversation, 1)
    assert conversation[1].results[0].kind == "text"


def test_of_a_picture_it_stays_known_that_there_was_one():
    conversation = exchange("a", "multimodal", [{"type": "image", "data": LONG, "mimeType": "image/png"}])
    assert make_room(conversation, 1) > 900
    assert conversation[1].results[0].text.startswith("[image of type image/png, not shown]\n[shortened to make room: ")


def test_errors_short_results_and_words_stay():
    conversation = [UserMessage(LONG), *exchange("a", "error"), *exchange("b", "text", "short")]
    before = list(conversation)
    assert make_room(conversation, 100) == 0
    assert conversation == before
