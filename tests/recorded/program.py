"""The program run in this process, in a world of its own: folders, environment, and a server that keeps what it is sent."""

from __future__ import annotations

import io
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Union

from .subjects import main

JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"
LEFT_OUT_HEADERS = ("host", "content-length", "connection", "accept-encoding", "user-agent")  # of the machine
ROOT = Path(__file__).resolve().parents[2]
NOTES = "# Notes\nThe harbour opens at six.\n"

WRITER = re.compile(r'(\\*"writer\\*": ?\\*")[0-9a-f]{16}')


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


Answers = Mapping[str, Union[Answer, Callable[[Any], Answer]]]


class Server:
    """Gives the next of `answers` to each chat request and those of `asides` to other paths; else 404."""

    def __init__(self, answers: list[Answer], asides: Answers) -> None:
        self.answers = list(answers)
        self.asides = asides
        self.requests: list[dict[str, Any]] = []

    @contextmanager
    def serve(self) -> Iterator[int]:
        """The port."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        kept = {name.lower(): value for name, value in headers.items() if name.lower() not in LEFT_OUT_HEADERS}
        self.requests.append({"request": f"{method} {path}", "headers": kept, "body": body.decode()})
        if path.endswith(("chat/completions", "messages")) or "enerateContent" in path:
            return (
                self.answers.pop(0) if self.answers else answer_json(500, {"error": {"message": "No answer is left."}})
            )
        aside = self.asides.get(path)
        if aside is None:
            return answer_json(404, {"detail": "Not Found"})
        return aside if isinstance(aside, Answer) else aside(json.loads(body) if body else None)


def _make_handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def do_GET(self) -> None:
            self._respond(b"")

        def do_POST(self) -> None:
            self._respond(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _respond(self, body: bytes) -> None:
            answer = server.answer(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


def answer_json(status: int, value: object) -> Answer:
    return Answer(status, JSON_TYPE, json.dumps(value).encode())


class Terminal(io.TextIOWrapper):
    """Standard input or output in memory, which may say that it is a terminal."""

    def __init__(self, text: str = "", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class World:
    """Folders below `base`: ws is the workspace, with two files; home and state are the user's."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace, self.home, self.state = base / "ws", base / "home", base / "state"
        for folder in (self.workspace, self.home):
            folder.mkdir(parents=True)
        (self.workspace / "notes.md").write_text(NOTES, encoding="utf-8")
        (self.workspace / "empty.txt").write_text("", encoding="utf-8")

    @property
    def sessions(self) -> Path:
        return self.state / "vllm-bot" / "sessions"

    def run(
        self, *arguments: str, stdin: str = "", is_terminal: bool = False, environment: Mapping[str, str] | None = None
    ) -> Outcome:
        """The program with these arguments. Its standard streams are in memory, its ids the same each time."""
        out, err = Terminal(), Terminal(is_terminal=is_terminal)
        random.seed(10)
        variables = self._variables(environment or {})
        with (
            _use_environment(variables),
            _use_folder(self.workspace),
            _use_stdin(stdin, is_terminal),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                code = main(list(arguments))
            except SystemExit as left:
                code = int(left.code or 0)
            out.flush()
            err.flush()
        return Outcome(code, out.text, err.text)

    def configure(self, settings: Mapping[str, Any]) -> str:
        """The path of a settings file."""
        path = self.home / "settings.json"
        path.write_text(json.dumps(settings), encoding="utf-8")
        return str(path)

    def normalize(self, text: str, port: int = 0) -> str:
        """The text without what differs from run to run: paths, ports, ids, processes, times."""
        text = text.replace(str(self.base), "{base}").replace(str(ROOT), "{root}")
        text = WRITER.sub(r"\1{writer}", text)  # a digest of the port, too
        if port:
            text = text.replace(f"127.0.0.1:{port}", "127.0.0.1:{port}")
        text = re.sub(r"\d{8}-\d{6}-[a-z2-9]{4}", "{session}", text)
        text = re.sub(r"\bo[0-9a-f]{8}\b", "{output}", text)
        text = _number_matches(r"(?<![A-Za-z0-9_])(?=[A-Za-z0-9]{9}(?![A-Za-z0-9_]))(?=\w+[A-Z0-9])\w{9}", text)
        text = re.sub(r'(\\*"pid\\*":)\d+,(\\*"start\\*":\\*")[^"\\]*', r"\1 0,\2{start}", text)
        text = re.sub(r'(\\*"(?:seconds|time|created|used|size)\\*":) ?[\d.]+', r"\1 0", text)
        text = re.sub(r"Environment: today is [^\"\\\n]*", "{environment}", text)
        text = re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "{date}", text)
        return re.sub(r"\b\d+\.\d s\b", "0.0 s", text)

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        fixed = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "100",
            "TERM": "dumb",
        }
        return {**fixed, "HOME": str(self.home), "XDG_STATE_HOME": str(self.state), **more}


def _number_matches(pattern: str, text: str) -> str:
    """The text with what matches replaced by {id1}, {id2} and so on, by the order of first appearance."""
    found: dict[str, str] = {}
    return re.sub(pattern, lambda match: found.setdefault(match[0], f"{{id{len(found) + 1}}}"), text)


@contextmanager
def _use_environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()


@contextmanager
def _use_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _use_stdin(text: str, is_terminal: bool) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = Terminal(text, is_terminal=is_terminal)
    try:
        yield
    finally:
        sys.stdin = before
