"""What keeping a session costs: per turn over 1,000 turns, in memory and open files, and when it is resumed.

    python -m tests.benchmarks.session [--kills N]

The model is scripted and its context bounded, so that the conversation is compacted again and again, as it is in a
day's work. CPU is the process's own; the share of the journal is what the same turns cost less without one. Goals:
the last hundred turns cost what the first did, memory and files stay, a journal of 100 MB is resumed in 2 seconds.
`--kills` also kills a session that often and looks for what was lost (see tests/session/killing.py).
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from src.agent.compaction import Compactor
from src.agent.loop import AgentLoop
from src.app.factory import Factory
from src.config import Settings
from src.security.permissions.approval import APPROVE_ALL
from src.session.replay import replay
from src.session.session import Session
from src.session.store import Store
from src.types.events import Completed, TextDelta
from src.types.messages import Response, Text, ToolCall, UserMessage
from tests.doubles import POLICY, context, toolbox
from tests.session.doubles import SYSTEM

TURNS = 1000
SPAN = 100  # turns compared at either end
CONTEXT = 60_000  # characters
JOURNAL = 100_000_000  # bytes
REPEATED = 100  # turns that a journal of that size repeats
RESUMED = 2.0  # seconds by the clock
HOSTILE_BYTES = 1_000_000
HOSTILE_S = 2.0  # of CPU
GROWTH = 1.3  # of the last turns' cost to the first ones'; timing is that noisy
MEMORY = 4_000  # KB more after the last turn than after the first hundred


class Scripted:
    """A question is answered by a call and then by 40 pieces of text; sizes are counted in characters."""

    def measure_fill(self, messages, tools=(), *, exact_from=0.0):
        return sum(len(getattr(message, "text", "x" * 600)) for message in messages) / CONTEXT

    def respond(self, messages, tools=()):
        if not tools:
            yield Completed(Response((Text("The gist of it all. " * 20),)))
        elif isinstance(messages[-1], UserMessage):
            yield Completed(Response((ToolCall(f"c{len(messages)}", "look", {"path": "a" * 200}),), "tool_use"))
        else:
            for _ in range(40):
                yield TextDelta("some words ")
            yield Completed(Response((Text("some words " * 40),)))


def run(session: Session, turns: int) -> list[tuple[float, int, int]]:
    """After each turn: its CPU in ms, resident memory in KB, open files."""
    model = Scripted()
    registry, ran = toolbox()
    agent = AgentLoop(model, registry, context(), APPROVE_ALL, POLICY, compactor=Compactor(model))
    rows = []
    for number in range(turns):
        began = time.process_time()
        session.messages.append(UserMessage(f"question {number}"))
        for _ in session.follow(agent.run(session.messages)):
            pass
        ran.clear()
        cost = (time.process_time() - began) * 1000
        if number % 50 == 49:
            gc.collect()
        rows.append((cost, resident(), sum(1 for _ in Path("/proc/self/fd").iterdir())))
    session.close()
    return rows


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def thousand_turns(folder: Path) -> bool:
    clean = Factory(Settings()).clean
    kept = run(Store(folder, clean).create(SYSTEM, folder, {}), TURNS)
    bare = run(Session(SYSTEM, folder), TURNS)
    first, last = median([row[0] for row in kept[:SPAN]]), median([row[0] for row in kept[-SPAN:]])
    without = median([row[0] for row in bare])
    memory = kept[-1][1] - kept[SPAN][1]
    files = kept[-1][2] - kept[SPAN][2]
    print(
        f"{TURNS} turns: {first:.2f} ms of CPU a turn at first, {last:.2f} at last ({last / first:.2f} times, goal {GROWTH:g})"
    )
    print(f"  of it the journal's own, secrets looked for: {median([row[0] for row in kept]) - without:.2f} ms")
    print(f"  memory {memory:+,} KB since turn {SPAN} (goal {MEMORY:+,}), open files {files:+} (goal +0)")
    return last <= GROWTH * first and memory <= MEMORY and files == 0


def resumed(folder: Path) -> bool:
    """Two journals of 100 MB: one long conversation, and one of large results that was compacted on the way.

    Judged by the clock; the CPU beside it says how much of that others on the machine took.
    """
    kept = True
    for name, length, compacting in (("short messages", 2000, False), ("long results, compacted", 50_000, True)):
        session = Store(folder).create(SYSTEM, folder, {})
        path = journal_of(session, length, compacting)
        began, clock = time.process_time(), time.perf_counter()
        again, _ = Session.resume(path, SYSTEM, folder)
        seconds, waited = time.process_time() - began, time.perf_counter() - clock
        size = path.stat().st_size
        print(
            f"resume of {size / 1e6:.0f} MB, {name}: {waited:.2f} s by the clock (goal {RESUMED:g}), {seconds:.2f} of CPU, "
            f"{len(again.messages):,} messages"
        )
        again.close()
        kept = kept and waited <= RESUMED
        path.unlink()
    return kept


def journal_of(session: Session, length: int, compacting: bool) -> Path:
    """Some turns as the loop makes them, then their lines again and again. The content of code, with quotes and such."""
    line = 'def f(self, x: int) -> str:  # "quoted" and\\so on\n    return f"{x!r}"\n'
    text = (line * (length // len(line) + 1))[:length]
    session._journal.sync = lambda: None
    model = Scripted()
    registry, _ = toolbox()

    @registry.tool(risk="low")
    def show() -> str:
        """Show it."""
        return text

    class Shows(Scripted):
        def respond(self, messages, tools=()):
            if tools and isinstance(messages[-1], UserMessage):
                yield Completed(Response((ToolCall(f"c{len(messages)}", "show", {}),), "tool_use"))
            else:
                yield from model.respond(messages, tools)

    agent = AgentLoop(
        Shows(), registry, context(), APPROVE_ALL, POLICY, compactor=Compactor(Shows()) if compacting else None
    )
    for number in range(REPEATED):
        session.messages.append(UserMessage(f"question {number}"))
        for _ in session.follow(agent.run(session.messages)):
            pass
    session.close()
    repeat(session.path, JOURNAL)
    return session.path


def repeat(path: Path, size: int) -> None:
    """The turns of a journal again, with numbers that go on, until it is so large."""
    first, *turns = path.read_bytes().split(b'{"type":"user",')
    records = [
        record.partition(b',"n":') for record in b'{"type":"user",'.join([b"", *turns]).splitlines(keepends=True)
    ]
    tails = [(head, tail.lstrip(b"0123456789")) for head, _, tail in records]
    number = first.count(b"\n")
    with path.open("wb") as file:
        file.write(first)
        while file.tell() < size:
            file.write(b"".join(b'%s,"n":%d%s' % (head, n, tail) for n, (head, tail) in enumerate(tails, number)))
            number += len(tails)
        os.fsync(file.fileno())  # as one that is resumed another day


HOSTILE = {
    "unreadable lines": "junk",
    "empty lines": "",
    "pieces of answers": '{"type":"delta","n":2,"text":"a"}',
    "torn lines": '{"type":"resumed","n":5,"torn":true}',
    "undone names": '{"type":"rename","n":2}\n{"type":"undo","n":3,"to":1}',
    "brackets": "[" * 1000,
    "started calls": '{"type":"call","n":3,"id":"c","name":"look"}',
    "writes": '{"type":"write","n":3,"path":"a"}\n{"type":"wrote","n":4,"path":"a","after":"x"}',
}


def replay_hostile(folder: Path) -> bool:
    """Journals of one kind of line: a replay that is not linear would take minutes."""
    slowest, kind = 0.0, ""
    path = folder / "hostile.jsonl"
    head = '{"type":"meta","n":0}\n{"type":"user","n":1,"message":{"type":"user","text":"hi"}}\n'
    for name, line in HOSTILE.items():
        path.write_text(head + f"{line}\n" * (HOSTILE_BYTES // (len(line) + 1)))
        began = time.process_time()
        replay(path)
        slowest, kind = max((slowest, kind), (time.process_time() - began, name))
    print(f"replay of 1 MB of one kind of line: {slowest:.2f} s of CPU at most, for {kind} (goal {HOSTILE_S:g})")
    return slowest <= HOSTILE_S


def killed(folder: Path, times: int) -> bool:
    done = subprocess.run([sys.executable, "-m", "tests.session.killing", str(folder / "killed"), str(times)])
    return done.returncode == 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=0, metavar="N")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        met = [
            thousand_turns(folder),
            resumed(folder),
            replay_hostile(folder),
            killed(folder, given.kills) if given.kills else True,
        ]
    print("goals met" if all(met) else "goals MISSED")
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
