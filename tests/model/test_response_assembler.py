from src.model.response_assembler import (
    CHECK_INTERVAL_CHARS,
    MAX_BLANK_CHARS,
    MAX_PERIOD_CHARS,
    WINDOW_CHARS,
    DegenerationDetector,
    cut_repetition,
)
from tests.each import check_rows

VARIED = " ".join(map(str, range(20_000)))


def noticed(text, size):
    """After how many characters, fed in pieces of this size; 0: never."""
    watch = DegenerationDetector()
    return next((at + size for at in range(0, len(text), size) if watch.add(text[at : at + size])), 0)


@check_rows("size", [1, 7, 5000])
@check_rows("unit", ["a", "ab ", "No, wait. Let me think again.\n\n", VARIED[:MAX_PERIOD_CHARS]])
def test_one_text_over_and_over_is_noticed_whatever_came_before(unit, size):
    text = VARIED[:10_000] + unit * (90_000 // len(unit))
    assert 10_000 + WINDOW_CHARS <= noticed(text, size) <= 10_000 + WINDOW_CHARS + CHECK_INTERVAL_CHARS + size


def test_what_came_all_at_once_is_whole_already():
    assert noticed("a" * 100_000, 100_000) == 0


def test_blanks_without_end_are_noticed_in_whatever_order():
    blanks = "".join(" \n\t"[int(digit) % 3] for digit in VARIED if digit != " ")
    assert noticed("{" + blanks, 10) <= MAX_BLANK_CHARS + CHECK_INTERVAL_CHARS + 10


@check_rows(
    "text",
    [
        VARIED,
        "-" * 4000,
        "| a | b |\n" * 500,
        "0, " * 2500,
        "".join(f"| {number} | the same words in every row |\n" for number in range(3000)),
        VARIED[: 2 * MAX_PERIOD_CHARS] * 20,
    ],
)
def test_what_somebody_may_want_is_not(text):
    assert noticed(text, 10) == 0


def test_what_repeats_is_left_once():
    assert cut_repetition("So: " + "and so on, " * 2000) == "So: and so on, "
    assert cut_repetition("{" + "\n " * 9000) == "{"
    assert cut_repetition(VARIED) == VARIED
