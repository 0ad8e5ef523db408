"""Records calls of the three APIs through a gateway in front of a fake server, and replays them: what differs.

    python -m tests.benchmarks.replay [--calls N]

The answers are texts of models with their tools, if the corpus is there, and else the examples of all formats of calls;
streamed and whole, some of them native, broken off, or of a client that goes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from src.cli.commands.records import run_replay
from src.parsing.formats.table import FORMATS
from src.serve.record.log_file import LogFile
from src.serve.record.recorder import Recorder
from tests.recorded.corpus import SHARED, read_cases
from tests.serve.test_gateway import TOOL, drive, say

CHUNK_CHARS = 5
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
NATIVE_STEP, BROKEN_STEP, GONE_STEP = 7, 11, 13  # one of so many answers
LARGE = 10**9


def list_answers() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Texts, each with the tools that were offered, without end."""
    if (SHARED / "corpus" / "recorded.jsonl").exists():
        cases = [(case["text"], case["tools"]) for case in read_cases("recorded")]
    else:
        cases = [(row.example, [TOOL]) for row in FORMATS]
    yield from itertools.cycle(cases)


def write_events(text: str, *, is_broken: bool) -> list[bytes]:
    pieces = [text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS)]
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in pieces]
    return _encode_chunks(deltas[: len(deltas) // 2] if is_broken else [*deltas, {}], "stop", is_done=not is_broken)


def write_native(tool: dict[str, Any]) -> list[bytes]:
    function = {"name": tool["function"]["name"], "arguments": '{"path": "a.txt"}'}
    return _encode_chunks([{"tool_calls": [{"index": 0, "id": "c1", "function": function}]}, {}], "tool_calls")


def _encode_chunks(deltas: list[dict[str, Any]], reason: str, *, is_done: bool = True) -> list[bytes]:
    chunks = [
        {
            "id": "1",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else reason}],
        }
        for delta in deltas
    ]
    end = ["[DONE]"] if is_done else []
    return [f"data: {each}\n\n".encode() for each in [*map(json.dumps, chunks), *end]]


def adapt(path: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A request with these tools, as the API at this path takes them."""
    functions = [each["function"] for each in tools]
    if path == PATHS[0]:
        return {"messages": [{"role": "user", "content": "Do it."}], "tools": tools}
    if path == PATHS[1]:
        offered = [{"name": each["name"], "input_schema": each.get("parameters", {})} for each in functions]
        return {"messages": [{"role": "user", "content": "Do it."}], "tools": offered, "max_tokens": 999}
    return {"input": "Do it.", "tools": [{"type": "function", **each} for each in functions]}


def record(folder: Path, calls: int) -> Path:
    answers, now = list_answers(), [("", list[dict[str, Any]]())]
    number = 0

    def answer(body: dict[str, Any]) -> Any:
        text, tools = now[0]
        is_broken = number % BROKEN_STEP == 0
        if not body.get("stream"):
            return say(text)
        return write_native(tools[0]) if number % NATIVE_STEP == 0 else write_events(text, is_broken=is_broken)

    async def use(client: Any, _: object) -> None:
        nonlocal number
        for number in range(calls):
            now[0] = next(answers)
            path = PATHS[number % len(PATHS)]
            body = {"model": "m", "stream": number % 4 != 0, **adapt(path, now[0][1])}
            reply = await client.post(path, json=body)
            if number % GONE_STEP == 0:
                await reply.content.readany()
                reply.close()
            else:
                await reply.read()

    file = LogFile(folder / "record.jsonl", LARGE, 2)
    drive(folder, answer, use, recorder=Recorder(file))
    return file.path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        path = record(Path(folder), options.calls)
        lines = path.read_bytes().splitlines()
        recorded = time.monotonic()
        print(f"{len(lines)} of {options.calls} calls are recorded, {path.stat().st_size / 1e6:.1f} MB")
        run_replay([path])
        print(f"recorded in {recorded - started:.0f} s, replayed in {time.monotonic() - recorded:.0f} s")


if __name__ == "__main__":
    main()
