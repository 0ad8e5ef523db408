"""What an editor writes that is no message: it is answered, and the program goes on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("acp", reason="the SDK of editors is not installed: pip install agent-client-protocol")

from acp import RequestError
from acp.connection import Connection

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
        (b'{"id": true, "method": "session/list"}', INVALID_REQUEST, None),
        (b'{"id": [3], "result": 1}', INVALID_REQUEST, None),
        (b'{"id": {}, "error": {}}', INVALID_REQUEST, None),
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


class Sink:
    """A stream's writer that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append

    async def drain(self) -> None:
        pass


async def ask_editor(*lines: bytes) -> tuple[Any, list[dict]]:
    """What a request of ours gives where the editor answers with these lines, and the errors that it is told."""
    reader, told = asyncio.StreamReader(), Sink()
    connection = Connection(do_nothing, JsonLines(reader, told), listening=False)
    asked = asyncio.create_task(connection.send_request("session/request_permission"))
    while not told.written:
        await asyncio.sleep(0)
    reader.feed_data(b"".join(line + b"\n" for line in lines))
    reader.feed_eof()
    await connection.main_loop()
    (answer,) = await asyncio.gather(asked, return_exceptions=True)
    await connection.close()
    return answer, [json.loads(each)["error"] for each in told.written[1:]]


async def do_nothing(*_: object) -> None:
    pass


@check_rows("odd_id", [b"[1]", b"{}", b"false", b"0.0", b"-0.0"])
def test_an_answer_with_an_odd_id_is_told_and_the_request_waits_for_the_right_one(odd_id):
    answer, errors = asyncio.run(ask_editor(b'{"id": %b, "result": "odd"}' % odd_id, b'{"id": 0, "result": "right"}'))
    assert answer == "right"
    assert [each["code"] for each in errors] == [INVALID_REQUEST]


@check_rows("error", [b'"no"', b"[1]", b"5", b"true"])
def test_a_request_whose_error_is_no_object_has_failed_and_the_next_line_is_read(error):
    answer, errors = asyncio.run(ask_editor(b'{"id": 0, "error": %b}' % error, b"[]"))
    assert isinstance(answer, RequestError)
    assert str(answer) == f"The editor answered with the error {error.decode()}"
    assert [each["code"] for each in errors] == [INVALID_REQUEST]


@check_rows("line", [b'{"id": null, "error": {"code": -32700, "message": "?"}}', b'{"id": "0", "result": 1}'])
def test_an_answer_to_nothing_of_ours_is_not_answered(line):
    assert asyncio.run(ask_editor(line, b'{"id": 0, "result": "right"}')) == ("right", [])


def test_a_blank_line_is_nothing():
    assert [each["id"] for each in answer_lines(b"", b"  ", json.dumps(GREETING).encode())] == [7]


def test_a_line_that_is_too_long_is_skipped():
    told = Sink()

    async def read() -> tuple[dict | None, dict | None]:
        reader = asyncio.StreamReader(limit=100)
        reader.feed_data(b"x" * 1000 + b"\n" + json.dumps({"id": 1, "method": "a"}).encode() + b"\n")
        reader.feed_eof()
        lines = JsonLines(reader, told)
        return await lines.receive(), await lines.receive()

    assert asyncio.run(read()) == ({"id": 1, "method": "a"}, None)
    (answer,) = map(json.loads, told.written)
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE_ERROR)
