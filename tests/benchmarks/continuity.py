"""CPU time that the gateway takes, a turn, to put back what a client dropped, and to measure what was kept.

    python -m tests.benchmarks.continuity [--rounds N]

A client drops the thoughts and writes the arguments of calls anew. Restoring is timed with the history known from the
turn before, and new, as where another worker answered that. Fails if one of the three takes more than
BAR_MS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from src.serve.chat_request import ChatBody
from src.serve.conversation import Conversation
from src.serve.memory import OwnMemory
from src.serve.restore import HistoryMemo
from src.types.messages import Reasoning, Response, ToolCall

BAR_MS = 1.0
TURNS = (20, 100)
TOOL = {"type": "function", "function": {"name": "read", "description": "x" * 2000, "parameters": {"type": "object"}}}
BEGINNING = [{"role": "system", "content": "You are. " * 1500}, {"role": "user", "content": "Go."}]


def make_answer(number: int) -> Response:
    call = ToolCall(f"c{number}", "read", {"path": f"{number}.txt"}, written=f'{{"path":"{number}.txt"}}')
    return Response((Reasoning("I think. " * 120), call))


def list_histories(turns: int) -> Iterator[list[dict[str, Any]]]:
    """What a client sends in each turn; every message is new, as it is behind the wire."""
    messages: list[dict[str, Any]] = list(BEGINNING)
    for number in range(turns):
        yield json.loads(json.dumps(messages))
        function = {"name": "read", "arguments": json.dumps({"path": f"{number}.txt"})}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "line\n" * 60})


async def take_turns(turns: int) -> tuple[float, float, float]:
    """Milliseconds of the last turn: restoring with a known history and with a new one, and the meter."""
    memory, memo = OwnMemory(), HistoryMemo()
    new = known = meter = 0.0
    for number, messages in enumerate(list_histories(turns)):
        chat = ChatBody({"model": "m", "messages": messages, "tools": [TOOL] * 10})
        prompt = b",".join(b"%d" % (each * 7 % 150_000) for each in range(4000 + 100 * number))
        started = time.thread_time()
        await Conversation(memory, HistoryMemo(), "key", chat).restore()
        middle = time.thread_time()
        conversation = Conversation(memory, memo, "key", chat)
        await conversation.restore()
        restored = time.thread_time()
        conversation.measure(prompt, "native")
        await conversation.keep(make_answer(number), [*range(80)])
        new, known, meter = middle - started, restored - middle, time.thread_time() - restored
        if conversation.restored != number:
            raise AssertionError(f"{conversation.restored} answers of {number} were put back.")
    return known * 1e3, new * 1e3, meter * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    is_slow = False
    for turns in TURNS:
        rounds = [asyncio.run(take_turns(turns)) for _ in range(options.rounds)]
        known, new, meter = map(min, zip(*rounds, strict=True))  # what others do on the machine is left out
        is_slow |= max(known, new, meter) > BAR_MS
        print(f"turn {turns}: restoring {known:.2f} ms (a new history {new:.2f} ms), meter {meter:.2f} ms")
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
