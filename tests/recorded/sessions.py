"""Journals: what the program writes of several conversations, and what it makes of those of 6e7a888."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from . import answers, conversation
from .asking import (
    API_KEY,
    SESSIONS,
    TEXT_CALL,
    Scenario,
    ask,
    install_session,
    run_command,
    talk,
)
from .program import Answer, World
from .subjects import describe_session, undo_last_turn
from .turns import break_calls, make_calls


def write_sessions(world: World) -> dict[str, str]:
    """Sessions of several kinds, as the program writes them: the lines of each journal, by name."""
    journals: dict[str, str] = {}

    def keep(*names: str) -> None:
        files = [path.read_text(encoding="utf-8") for path in world.sessions.glob("*.jsonl")]
        files.sort(key=lambda text: ("forked_from" in text.partition("\n")[0], len(text)))
        for name, text in zip(names, files, strict=True):
            text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", world.normalize(text))
            journals[name] = text
        shutil.rmtree(world.sessions)

    ask(world, [*make_calls()[:1], *break_calls()], "-y", "-p", "Do it all.")
    keep("calls")
    ask(
        world,
        [answers.stream_chat(TEXT_CALL), answers.stream_chat("Six.")],
        "-p",
        "Read.",
        vllm={"enable_function_calling": False},
    )
    keep("text")
    secret = f"The key is {API_KEY}, and ghp_{'a1B2' * 9} too."
    ask(world, [answers.stream_chat(secret, pieces=3, thought=secret)], "-p", f"My key is {API_KEY}.")
    keep("redacted")
    todos = [{"content": "sow", "status": "pending"}]
    talk(
        world,
        [
            answers.stream_chat("One."),
            answers.stream_chat("", answers.make_call("todo_write", {"todos": todos})),
            answers.stream_chat("Two."),
            answers.stream_chat("", answers.make_call("write", {"path": "b.txt", "content": "b\n"})),
            answers.stream_chat("Three."),
            answers.stream_chat("Four."),
        ],
        "first",
        "second",
        "third",
        "/undo",
        "/rename harbour",
        "/fork",
        "fourth",
    )
    keep("undone", "forked")
    talk(
        world,
        [
            answers.stream_chat("One."),
            answers.stream_chat("Two."),
            answers.stream_chat("GOAL: to count."),
            answers.stream_chat("Three."),
        ],
        "first",
        "second",
        "/compact",
        "third",
    )
    keep("compacted")
    talk(
        world,
        [
            answers.stream_chat("Half an answer", finish="length"),
            Answer(200, "text/event-stream", answers.stream_chat("Cut off").body[:300]),
            answers.stream_chat("Whole."),
        ],
        "first",
        "second",
        "/retry",
    )
    keep("broken")
    refused = answers.refuse(400, "No such thing.")
    talk(world, [answers.stream_chat("One."), refused, answers.stream_chat("Three.")], "first", "second", "third")
    keep("refused")
    whole = journals["calls"]
    at = whole.index('{"type":"call"')
    journals["interrupted"] = whole[: whole.index("\n", at) + 1] + '{"type":"delta","n":9'
    journals["every-kind"] = conversation.write_journal()
    return journals


def _list_journals(world: World) -> Any:
    return {name: text.splitlines() for name, text in write_sessions(world).items()}


def read_sessions() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(SESSIONS.glob("*.jsonl"))}


def _replay(name: str) -> Scenario:
    """What an old journal gives: the session's state, its exports, the next request, and the turn before undone."""

    def run(world: World) -> Any:
        session = "20260101-000000-aaaa"
        journal = read_sessions()[name]

        def install() -> Path:
            install_session(world, journal, session)
            return world.sessions / f"{session}.jsonl"

        found: dict[str, Any] = {"state": describe_session(install(), world.workspace)}
        resumed = (world.sessions / f"{session}.jsonl").read_text(encoding="utf-8")
        found["appended"] = resumed.splitlines()[len(journal.splitlines()) - 1 :]
        found["undone"] = undo_last_turn(install(), world.workspace, lambda path, content: None)
        install()
        for arguments in (
            ["sessions"],
            ["sessions", "--json"],
            ["sessions", "show", session],
            ["sessions", "search", "harbour"],
        ):
            found[" ".join(arguments[:2])] = run_command(*arguments)(world)
        for form in ("md", "json", "html"):
            found[f"export {form}"] = run_command("sessions", "export", session, "--format", form)(world)
        found["resumed"] = ask(
            world, [answers.stream_chat("So be it.")], "--resume", session, "-p", "And now?", "--output", "json"
        )
        return json.loads(world.normalize(json.dumps(found)))

    return run


def list_session_scenarios() -> dict[str, Scenario]:
    return {"written": _list_journals, **{name: _replay(name) for name in read_sessions()}}
