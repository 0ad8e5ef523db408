"""What there was to do is known again: that of the last todo_write that went well, and still counts."""

from pathlib import Path

import pytest

from src.agent.loop import AgentLoop
from src.security.permissions.approval import APPROVE_ALL
from src.tools import REGISTRY
from src.types.events import Compacted
from src.types.messages import ToolCall, UserMessage
from tests.doubles import POLICY, ScriptedModel, context, says

from .doubles import again, begun, store

SOW, REAP = ({"todos": [{"content": word, "status": "pending"}]} for word in ("sow", "reap"))


def put(path: Path, content: bytes | None) -> None:
    raise AssertionError("no file was written")


def write(session, *arguments):
    """One turn in which the list is written so."""
    turns = [says("", ToolCall(f"c{place}", "todo_write", each)) for place, each in enumerate(arguments)]
    agent = AgentLoop(ScriptedModel(*turns, says("Noted.")), REGISTRY, context(), APPROVE_ALL, POLICY)
    session.messages.append(UserMessage("go"))
    for _ in session.follow(agent.run(session.messages)):
        pass


@pytest.fixture(params=["now", "resumed"])
def known(request, tmp_path):
    """What a session knows: as it is, and as another start of the program finds it."""

    def todos(session):
        if request.param == "now":
            return session.todos
        session.close()
        return again(tmp_path, session).todos

    return todos


def test_the_last_one_counts(tmp_path, known):
    session = begun(tmp_path)
    write(session, SOW, REAP)
    assert known(session) == REAP


def test_one_that_failed_does_not(tmp_path, known):
    session = begun(tmp_path)
    write(session, SOW, {"todos": "everything"})
    assert known(session) == SOW


def test_one_that_was_taken_back_does_not(tmp_path, known):
    session = begun(tmp_path)
    write(session, SOW)
    write(session, REAP)
    session.undo(put)
    assert known(session) == SOW


def test_one_that_was_summed_up_does(tmp_path, known):
    session = begun(tmp_path)
    write(session, SOW)
    summary, before = UserMessage("We talked."), len(session.messages)

    def compacted():
        session.messages[1:] = [summary]
        yield Compacted(summary, kept=0, before=before, by_hand=True)

    for _ in session.follow(compacted()):
        pass
    assert known(session) == SOW


def test_a_fork_knows_it(tmp_path, known):
    session = begun(tmp_path)
    write(session, SOW)
    assert known(session.fork(store(tmp_path).journal())) == SOW


def test_where_nothing_was_written_there_is_nothing(tmp_path, known):
    assert known(begun(tmp_path, says("Hello."))) is None
