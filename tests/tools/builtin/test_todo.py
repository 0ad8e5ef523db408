"""The model's to-do list, and `done`, by which it ends its work."""

from __future__ import annotations

import pytest

from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall

ENTRIES = [
    {"content": "read the notes", "status": "completed"},
    {"content": "write the list", "status": "in_progress"},
    {"content": "tidy up", "status": "pending"},
]


@pytest.fixture
def session(tmp_path):
    """Calls in one session."""
    ctx = ToolContext(tmp_path)
    return lambda name, **arguments: REGISTRY.run(ToolCall("1", name, arguments), ctx)


def test_the_list_is_there_until_it_is_replaced(session):
    assert session("todo_read").value == "[the list is empty]"
    shown = "[x] read the notes\n[~] write the list\n[ ] tidy up"
    assert session("todo_write", todos=ENTRIES).value == shown
    assert session("todo_read").value == shown
    assert session("todo_write", todos=[]).value == session("todo_read").value == "[the list is empty]"


def test_a_model_may_call_it_by_its_usual_name(session):
    assert session("write_todos", todos=ENTRIES).value == session("todo_write", todos=ENTRIES).value
    assert session("write_todos", todos=5).value.startswith("Wrong arguments for todo_write: ")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"content": "x", "status": "finished"}, "todos.1.status: expected "),
        ({"status": "pending"}, "todos.1"),
        ({"content": "x", "status": "pending", "due": "today"}, "todos.1"),
    ],
)
def test_an_invalid_entry_leaves_the_list_unchanged(entry, said, session):
    session("todo_write", todos=ENTRIES)
    result = session("todo_write", todos=[ENTRIES[0], entry])
    assert result.kind == "error"
    assert said in result.value
    assert session("todo_read").value.count("\n") == 2


def test_the_list_is_bounded(session):
    assert "are too many" in session("todo_write", todos=[{"content": "x", "status": "pending"}] * 101).value


def test_done_ends_the_run_with_a_summary(tmp_path):
    with ToolContext(tmp_path).for_run() as ctx:
        assert ctx.wiring.running.summary is None
        assert REGISTRY.run(ToolCall("1", "done", {"summary": "All is tidy."}), ctx).value == "Done."
        assert ctx.wiring.running.summary == "All is tidy."


def test_each_of_them_runs_unasked():
    assert {REGISTRY.risk(name) for name in ("todo_write", "todo_read", "done")} == {"low"}
