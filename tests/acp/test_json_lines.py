"""What an editor writes that is no message: it is answered, and the program goes on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("acp", reason="the SDK of editors is not installed: pip install agent-client-protocol")

from src.acp.json_lines import INVALID_REQUEST, PARSE_ERROR, JsonLines
from src.acp.run import serve_editor
from tests.each import check_rows
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

from .editing import make_settings

GREETING = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}


def answer_lines(*lines: bytes) -> list[dict]:
    """Write the lines to the program, and read what it answers until it ends."""
    to_program, from_editor = os.pipe()
    from_program, to_editor = os.pipe()
    program = threading.Thread(
        target=serve_editor, args=(make_settings("http://127.0.0.1:9/v1"), to_program, to_editor), daemon=True
    )
    program.start()
    with os.fdopen(from_editor, "wb") as asked:
        asked.write(b"".join(line + b"\n" for line in lines))
    with os.fdopen(from_program) as answers:
        answered = [json.loads(line) for line in answers]
    program.join(PATIENCE_S)
    return answered


@check_rows(
    "line, code, request_id",
    [
        (b"[]", INVALID_REQUEST, None),
        (b"5", INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "session/list"}]', INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"id": 3}', INVALID_REQUEST, 3),
        (b'{"id": 3, "method": 5}', INVALID_REQUEST, 3),
        (b'{"id": [3], "method": "session/list"}', INVALID_REQUEST, None),
        (b'{"id": 3, "method"', PARSE_ERROR, None),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b"[" * 200_000, PARSE_ERROR, None),
    ],
)
@check_rows("place", ["first", "later"])
def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_read(place, line, code, request_id):
    greeting = json.dumps(GREETING).encode()
    lines = [line, greeting] if place == "first" else [greeting, line, greeting]
    answers = answer_lines(*lines)
    errors = [(each["error"]["code"], each["id"]) for each in answers if "error" in each]
    assert errors == [(code, request_id)]
    assert answers[-1]["id"] == GREETING["id"]
    assert answers[-1]["result"]["protocolVersion"] == 1


def test_a_notification_that_cannot_be_read_is_told_without_a_traceback(tmp_path):
    words = [sys.executable, str(ROOT / "cli.py"), "acp"]
    asked = json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {}}).encode()
    done = subprocess.run(words, input=asked + b"\n", capture_output=True, cwd=tmp_path, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"vllm-bot acp: Unhandled error while handling notification method=session/cancel")
    assert b"Traceback" not in done.stderr


def test_a_blank_line_is_nothing():
    assert [each["id"] for each in answer_lines(b"", b"  ", json.dumps(GREETING).encode())] == [7]


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path):
    async def read() -> tuple[dict | None, dict | None]:
        reader = asyncio.StreamReader(limit=100)
        reader.feed_data(b"x" * 1000 + b"\n" + json.dumps({"id": 1, "method": "a"}).encode() + b"\n")
        reader.feed_eof()
        with (tmp_path / "answers").open("wb") as file:
            lines = JsonLines(reader, Sink(file))
            return await lines.receive(), await lines.receive()

    class Sink:
        def __init__(self, file) -> None:
            self.write = file.write

        async def drain(self) -> None:
            pass

    assert asyncio.run(read()) == ({"id": 1, "method": "a"}, None)
    answer = json.loads((tmp_path / "answers").read_text())
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE_ERROR)
