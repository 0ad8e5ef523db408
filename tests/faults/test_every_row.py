"""The table is complete: every fault has a row, or a test elsewhere that is named here."""

from .table import ROWS

ELSEWHERE = {
    28: "tests/model/test_call_path.py, test_transcript.py: a model that takes nothing but text",
    59: "test_connections.py",
    62: "tests/session/test_session.py: a full disk, a folder that cannot be written, a session that is open elsewhere",
    63: "test_signals.py, tests/cli/chat/test_loop.py",
}


def test_every_fault_has_a_row_or_a_place():
    assert {row.number for row in ROWS} | ELSEWHERE.keys() == set(range(1, 64))
    assert {row.number for row in ROWS} & ELSEWHERE.keys() == set()
