"""A session killed at random points, resumed, and brought to its end: what was lost, and what ran twice?

    python -m tests.session.killing FOLDER POINTS [SEED]

Each point is a process of its own that works through a list of jobs with a scripted model. It dies without a
chance to tidy up: at a byte of its journal (the kernel ends it there, by RLIMIT_FSIZE), or by kill -9 after a
random time. Before it goes on from an event, it notes outside of the journal what it has seen. Then the session
is resumed and goes on to its end. Prints what is wrong, one a line, and a JSON object that sums up.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from src.agent.loop import AgentLoop
from src.security.permissions.approval import APPROVE_ALL
from src.session.session import Session
from src.session.store import Store
from src.session.streaming_redaction import PIECE_CHARS
from src.tools.sdk.registry import Registry
from src.types.call_results import NOT_RUN, UNKNOWN
from src.types.events import CallFinished, Completed, TextDelta
from src.types.messages import Response, Text, ToolCall, ToolResults, UserMessage
from tests.doubles import POLICY, context, perform
from tests.session.doubles import SYSTEM

JOBS = 8
AT_ONCE = 3  # calls a turn


class Worker:
    """A model that has each job done once: not again what is done or may be, again what was not run."""

    def respond(self, messages, tools=(), tool_choice="auto"):
        settled = {
            result.tool_call_id.partition("-")[0]
            for message in messages
            if isinstance(message, ToolResults)
            for result in message.results
            if result.value != NOT_RUN
        }
        left = [str(job) for job in range(JOBS) if str(job) not in settled][:AT_ONCE]
        words = (
            ["Working", " on", *(f" {job}" for job in left), *[" and on" * 15] * 7, "."]
            if left
            else ["All", " done", "."]
        )
        for word in words:
            yield TextDelta(word)
        calls = [
            ToolCall(f"{job}-{len(messages)}", "look" if int(job) % 4 == 3 else "work", {"job": job}) for job in left
        ]
        yield Completed(Response((Text("".join(words)), *calls), "tool_use" if calls else "end_turn"))


def life(folder: Path, session: Session) -> None:
    """Work until it is done, or the process is killed."""
    ran, seen = (os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("ran", "seen"))
    registry = Registry()

    @registry.tool(risk="high")
    def work(job: str) -> str:
        """Do a job."""
        os.write(ran, f"{job}\n".encode())
        return f"did {job}"

    @registry.tool(risk="low")
    def look(job: str) -> str:
        """Look at a job."""
        os.write(ran, f"{job}\n".encode())
        return f"saw {job}"

    agent = AgentLoop(Worker(), registry, context(), APPROVE_ALL, POLICY, max_tool_turns=100)
    session.messages.append(UserMessage("go"))
    for event in session.follow(perform(agent.run(session.messages))):
        if isinstance(event, CallFinished):
            os.write(seen, json.dumps(["result", event.result.tool_call_id, event.result.value]).encode() + b"\n")
        elif isinstance(event, TextDelta):
            os.write(seen, json.dumps(["text", event.text]).encode() + b"\n")
        elif isinstance(event, Completed):
            os.write(seen, b'["completed", ""]\n')
    session.close()


def forked(work, *, bytes_left: int | None = None, after: float | None = None) -> bool:
    """Whether `work` ended by itself."""
    child = os.fork()
    if not child:
        if bytes_left is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))
        work()
        os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def begin(folder: Path) -> None:
    life(folder, Store(folder).create(SYSTEM, folder, {"workspace": str(folder)}))


def wrong(folder: Path, problems: list[str]) -> None:
    """Resume what was killed, bring it to its end, and add what is wrong with it."""
    journals = list((folder / "sessions").glob("*.jsonl"))
    seen = [json.loads(line) for line in lines(folder / "seen")]
    if not journals or journals[0].read_bytes().count(b"\n") < 1:
        if seen:
            problems.append("something was seen before anything was kept")
        return
    session, _ = Store(folder).resume(journals[0].stem, SYSTEM, folder)
    kept = [(r.tool_call_id, r.value) for m in session.messages if isinstance(m, ToolResults) for r in m.results]
    problems += [f"a result is lost: {each}" for each in seen if each[0] == "result" and tuple(each[1:]) not in kept]
    said = "".join(message.text for message in session.messages if isinstance(message, Response))
    ended = max((place for place, each in enumerate(seen) if each[0] == "completed"), default=0)
    whole, partial = ("".join(row[1] for row in part if row[0] == "text") for part in (seen[:ended], seen[ended:]))
    told = whole + partial[: -PIECE_CHARS - len(" and")]  # a piece and a word may be lost
    if not said.startswith(told):
        problems.append(f"said {told!r}, and kept {said!r}")
    forked(lambda: life(folder, session))
    again, _ = reopened(session)
    unknown = {r.tool_call_id.partition("-")[0] for r in results(again) if r.value == UNKNOWN}
    ran = Counter(lines(folder / "ran"))
    problems += [f"job {job} ran {times} times" for job, times in ran.items() if times > 1]
    problems += [f"job {job} never ran" for job in map(str, range(JOBS)) if job not in ran and job not in unknown]
    again.close()


def reopened(session: Session):
    session.close()
    return Session.resume(session._journal.path, SYSTEM, Path("/"))


def results(session: Session):
    return [r for message in session.messages if isinstance(message, ToolResults) for r in message.results]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def main(folder: Path, points: int, seed: int) -> int:
    chance = random.Random(seed)
    whole = folder / "whole"
    whole.mkdir(parents=True)
    began = time.monotonic()
    forked(lambda: begin(whole))
    duration = time.monotonic() - began
    size = next((whole / "sessions").glob("*.jsonl")).stat().st_size
    problems: list[str] = []
    killed = 0
    for point in range(points):
        place = folder / str(point)
        place.mkdir()
        how = {"after": chance.uniform(0, duration)} if point % 2 else {"bytes_left": chance.randrange(size)}
        killed += not forked(lambda place=place: begin(place), **how)
        found: list[str] = []
        wrong(place, found)
        problems += [f"point {point} {how}: {problem}" for problem in found]
    for problem in problems:
        print(problem)
    print(json.dumps({"points": points, "killed": killed, "journal": size, "wrong": len(problems)}))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
