"""What keeping a session costs: per turn over 1,000 turns, in memory and open files, and when it is resumed.

    python -m tests.benchmarks.session [--rounds N] [--program FOLDER] [--endless SECONDS] [--kills N]

The first rows are of the shipped program: an answer without end for some seconds, kill -9 and the next `--resume` (the
issue's figure is for 45 s); a journal of 10,000 started calls without results is resumed; code is redacted as it is for
the journal.

In the others the model is scripted and its context bounded, so that the conversation is compacted again and again, as it is in a
day's work. CPU is the process's own; the share of the journal is what the same turns cost less without one. Goals:
the last hundred turns cost what the first did, memory and files stay, a journal of 100 MB is resumed in 2 seconds.
`--kills` also kills a session that often and looks for what was lost (see tests/session/killing.py).
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from src.agent.compaction import Compactor
from src.agent.loop import AgentLoop
from src.app.factory import Factory
from src.config import Settings
from src.security.permissions.approval import APPROVE_ALL
from src.session.replay import replay
from src.session.session import Session
from src.session.store import Store
from src.types.events import CallStarted, Completed, Event, TextDelta
from src.types.messages import Response, Text, ToolCall, UserMessage
from tests.benchmarks.measure import (
    LIMIT_REACHED,
    ROOT,
    Row,
    ask_program,
    make_options,
    print_table,
    require_byte_code,
)
from tests.benchmarks.serving import fetch, serving
from tests.doubles import POLICY, context, perform, toolbox
from tests.session.doubles import SYSTEM

TURNS = 1000
SPAN = 100  # turns compared at either end
CONTEXT = 60_000  # characters
JOURNAL = 100_000_000  # bytes
REPEATED = 100  # turns that a journal of that size repeats
RESUMED = 2.0  # seconds by the clock
HOSTILE_BYTES = 1_000_000
HOSTILE_S = 2.0  # of CPU
CODE_LINES = 10_000
CONTEXT_TOKENS = 32_768
BYTES_A_TOKEN = 16  # what an answer may have at most
RESUME_PATIENCE_S = 120.0
STARTED_CALLS = 10_000
SLOW_S = 10.0  # what takes longer is not measured again
GROWTH = 1.3  # of the last turns' cost to the first ones'; timing is that noisy
MEMORY = 4_000  # KB more after the last turn than after the first hundred


class Scripted:
    """A question is answered by a call and then by 40 pieces of text; sizes are counted in characters."""

    def measure_fill(self, messages, tools=(), *, exact_from=0.0):
        yield from ()
        return sum(len(getattr(message, "text", "x" * 600)) for message in messages) / CONTEXT

    def respond(self, messages, tools=(), tool_choice="auto"):
        if tool_choice == "none":
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
        for _ in session.follow(perform(agent.run(session.messages))):
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


def turn_rows(folder: Path) -> Iterator[Row]:
    clean = Factory(Settings()).clean
    kept = run(Store(folder, clean).create(SYSTEM, folder, {}), TURNS)
    bare = run(Session(SYSTEM, folder), TURNS)
    first, last = median([row[0] for row in kept[:SPAN]]), median([row[0] for row in kept[-SPAN:]])
    without = median([row[0] for row in bare])
    memory = kept[-1][1] - kept[SPAN][1]
    files = kept[-1][2] - kept[SPAN][2]
    yield Row(f"the last {SPAN} of {TURNS} turns / the first {SPAN}", last, "ms", first, GROWTH)
    yield Row("  of it the journal's own", median([row[0] for row in kept]) - without, "ms")
    yield Row(f"  memory since turn {SPAN}", memory, "KB", bar=MEMORY)
    yield Row("  open files since then", files, "", bar=0)


def resume_rows(folder: Path) -> Iterator[Row]:
    """Two journals of 100 MB: one long conversation, and one of large results that was compacted on the way.

    By the clock: the CPU beside it says how much of that others on the machine took.
    """
    for name, length, compacting in (("short messages", 2000, False), ("long results, compacted", 50_000, True)):
        path = journal_of(Store(folder).create(SYSTEM, folder, {}), length, compacting)
        began, clock = time.process_time(), time.perf_counter()
        again, _ = Session.resume(path, SYSTEM, folder)
        seconds, waited = time.process_time() - began, time.perf_counter() - clock
        size = path.stat().st_size
        yield Row(f"resume of {size / 1e6:.0f} MB, {name} (CPU: {seconds:.2f} s)", waited, "s", bar=RESUMED)
        again.close()
        path.unlink()


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
        def respond(self, messages, tools=(), tool_choice="auto"):
            if tool_choice == "auto" and isinstance(messages[-1], UserMessage):
                yield Completed(Response((ToolCall(f"c{len(messages)}", "show", {}),), "tool_use"))
            else:
                yield from model.respond(messages, tools, tool_choice)

    agent = AgentLoop(
        Shows(), registry, context(), APPROVE_ALL, POLICY, compactor=Compactor(Shows()) if compacting else None
    )
    for number in range(REPEATED):
        session.messages.append(UserMessage(f"question {number}"))
        for _ in session.follow(perform(agent.run(session.messages))):
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


def hostile_row(folder: Path) -> Iterator[Row]:
    """Journals of one kind of line: a replay that is not linear would take minutes."""
    slowest, kind = 0.0, ""
    path = folder / "hostile.jsonl"
    head = '{"type":"meta","n":0}\n{"type":"user","n":1,"message":{"type":"user","text":"hi"}}\n'
    for name, line in HOSTILE.items():
        path.write_text(head + f"{line}\n" * (HOSTILE_BYTES // (len(line) + 1)))
        began = time.process_time()
        replay(path)
        slowest, kind = max((slowest, kind), (time.process_time() - began, name))
    yield Row(f"replay of 1 MB of one kind of line, at most ({kind})", slowest, "s", bar=HOSTILE_S)


def kill_row(folder: Path, times: int) -> Iterator[Row]:
    done = subprocess.run([sys.executable, "-m", "tests.session.killing", str(folder / "killed"), str(times)])
    yield Row(f"exit code of {times} kills", done.returncode, "", bar=0)


def redaction_row(rounds: int) -> Iterator[Row]:
    """Source code, as `read` returns it and the journal writes it: with line numbers."""
    lines = [line for path in sorted((ROOT / "src").rglob("*.py")) for line in path.read_text().splitlines()]
    text = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(lines[:CODE_LINES], 1))
    redact = Factory(Settings()).redact
    took = []
    for _ in range(rounds):
        began = time.process_time()
        redact(text)
        took.append(time.process_time() - began)
    yield Row("redaction of code", len(text.encode()) / min(took) / 1e6, "MB/s", bar=6, is_least=True)


def endless_rows(program: Path, seconds: float) -> Iterator[Row]:
    """An answer without end, kill -9, and the next question in that session."""
    with serving() as server, tempfile.TemporaryDirectory() as name:
        home = Path(name)
        url = f"{server}/endless,step=500,context={CONTEXT_TOKENS}"
        used = ask_program(program, url, home, home, within=seconds)
        journal = sum(path.stat().st_size for path in (home / "state").rglob("*.jsonl")) / 1e6
        limit = CONTEXT_TOKENS * BYTES_A_TOKEN / 1e6
        end = "killed" if used.code == -signal.SIGKILL else f"it ended by itself, code {used.code}"
        sent = f"{fetch(f'{url}/sent') / 1e6:.1f} MB sent"
        yield Row(
            f"endless answer, {used.clock_s:.0f} s, {sent}, {end}: journal", journal, "MB", bar=round(limit + 2, 1)
        )
        yield Row("  memory", used.memory_mb, "MB")
        again = ask_program(
            program,
            f"{server}/say,chunks=20,context={CONTEXT_TOKENS}",
            home,
            home,
            "--resume",
            within=RESUME_PATIENCE_S,
        )
        done = "" if again.code in (0, LIMIT_REACHED) else f" (code {again.code})"
        yield Row(f"  --resume{done}, by the clock", again.clock_s, "s", bar=2)
        yield Row("  --resume, CPU", again.cpu_s, "s")
        yield Row("  --resume, memory", again.memory_mb, "MB", bar=200)


def started_rows(folder: Path, rounds: int) -> Iterator[Row]:
    """An answer with so many calls, which all began: as a program leaves it that is killed then."""
    for count, bar in ((STARTED_CALLS // 4, None), (STARTED_CALLS, 1.0)):
        took = []
        for _ in range(rounds):
            session = Store(folder).create(SYSTEM, folder, {})
            calls = [ToolCall(f"c{number}", "look", {"path": f"f{number}"}) for number in range(count)]
            events: list[Event] = [Completed(Response(tuple(calls), "tool_use")), *map(CallStarted, calls)]
            write_unfinished(session, events)
            began = time.process_time()
            again, _ = Session.resume(session.path, SYSTEM, folder)
            took.append(time.process_time() - began)
            assert len(again.messages[-1].results) == count
            again.close()
            if took[-1] > SLOW_S:
                break
        yield Row(f"resume of {count:,} started calls without results", min(took), "s", bar=bar)


def write_unfinished(session: Session, events: list[Event]) -> None:
    """The journal of a turn whose end is missing."""
    session._journal.sync = lambda: None
    session.messages.append(UserMessage("go"))
    session._record_messages()
    for event in events:
        if isinstance(event, Completed):
            session.messages.append(event.response)
        session._record_event(event)
    session.close()


def main() -> int:
    options = make_options(__doc__, rounds=3)
    options.add_argument("--endless", type=float, default=10.0, metavar="SECONDS")
    options.add_argument("--kills", type=int, default=0, metavar="N")
    options.add_argument("--only-program", action="store_true", help="only the first rows")
    given = options.parse_args()
    require_byte_code()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [redaction_row(given.rounds), endless_rows(given.program, given.endless)]
        rows.append(started_rows(folder, given.rounds))
        if not given.only_program:
            rows += [turn_rows(folder), resume_rows(folder), hostile_row(folder)]
        if given.kills:
            rows.append(kill_row(folder, given.kills))
        return print_table(chain(*rows))


if __name__ == "__main__":
    sys.exit(main())
