"""Sessions on disk, with questions to a scripted model."""

from __future__ import annotations

from pathlib import Path

from src.agent.loop import AgentLoop
from src.security.permissions.approval import APPROVE_ALL
from src.session.session import Session
from src.session.store import Store
from src.types.messages import SystemMessage, UserMessage
from tests.doubles import POLICY, ScriptedModel, context, perform, toolbox

SYSTEM = [SystemMessage("You help.")]


def open_store(folder: Path, **options) -> Store:
    return Store(folder / "state", **options)


def ask(session: Session, question: str, *turns, partial: str = "") -> list[str]:
    """Run one turn; returns the tool runs."""
    registry, ran = toolbox()
    agent = AgentLoop(ScriptedModel(*turns, partial=partial), registry, context(), APPROVE_ALL, POLICY)
    session.messages.append(UserMessage(question))
    for _ in session.follow(perform(agent.run(session.messages))):
        pass
    return ran


def start_session(folder: Path, *turns, question: str = "hi", **options) -> Session:
    """A new session, in which the question was answered by these turns."""
    session = open_store(folder, **options).create(SYSTEM, folder, {"workspace": str(folder), "model": "tiny"})
    if turns:
        ask(session, question, *turns)
    return session


def resume_session(folder: Path, session: Session | str = "") -> Session:
    """Resume the session, as another start of the program would."""
    wanted = session.id if isinstance(session, Session) else session
    return open_store(folder).resume(wanted, SYSTEM, folder)[0]


def restore_file(path: Path, content: bytes | None, mode: int = 0) -> None:
    path.unlink() if content is None else path.write_bytes(content)
