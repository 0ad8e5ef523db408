"""A session on disk, and questions put to a scripted model in it."""

from __future__ import annotations

from pathlib import Path

from src.agent.loop import AgentLoop
from src.security.permissions.approval import APPROVE_ALL
from src.session.session import Session
from src.session.store import Store
from src.types.messages import Message, SystemMessage, UserMessage
from tests.doubles import POLICY, ScriptedModel, context, toolbox

SYSTEM = [SystemMessage("You help.")]


def store(folder: Path, **options) -> Store:
    return Store(folder / "state", **options)


def ask(session: Session, question: str, *turns, partial: str = "") -> list[str]:
    """One turn, drained; what the tools noted of their runs."""
    registry, ran = toolbox()
    agent = AgentLoop(ScriptedModel(*turns, partial=partial), registry, context(), APPROVE_ALL, POLICY)
    session.messages.append(UserMessage(question))
    for _ in session.follow(agent.run(session.messages)):
        pass
    return ran


def begun(folder: Path, *turns, question: str = "hi", **options) -> Session:
    """A new session, in which one question was answered by these turns."""
    session = store(folder, **options).new(SYSTEM, folder, {"workspace": str(folder), "model": "tiny"})
    if turns:
        ask(session, question, *turns)
    return session


def again(folder: Path, session: Session | str = "") -> Session:
    """The session resumed, as another start of the program would."""
    wanted = session.id if isinstance(session, Session) else session
    return store(folder).resume(wanted, SYSTEM, folder)[0]


def texts(messages: list[Message]) -> list[str]:
    return [getattr(message, "text", "") or type(message).__name__ for message in messages]


def restore_file(path: Path, content: bytes | None) -> None:
    path.unlink() if content is None else path.write_bytes(content)
