"""That the table is whole: every fault has a row, or a test elsewhere that is named here."""

from .table import ROWS

ELSEWHERE = {
    25: "tests/model: a request that is too long makes room",
    26: "tests/model: a field that a server does not know is left out, and that is remembered",
    28: "no image is ever sent yet: content is text",
    49: "tests/model: a call cut off by max_tokens is never run",
    51: "tests/model: what a server's parser lost is had back",
    52: "tests/test_agent.py, tests/model: an empty answer",
    59: "test_connections.py",
    60: "tests/model: an answer that is only a thought",
    61: "nothing detects repetition yet; max_tokens and the total clock bound it",
    62: "there is no journal yet",
    63: "test_signals.py, tests/cli/test_chat.py",
}


def test_every_fault_has_a_row_or_a_place():
    assert {row.number for row in ROWS} | ELSEWHERE.keys() == set(range(1, 64))
    assert {row.number for row in ROWS} & ELSEWHERE.keys() == set()
