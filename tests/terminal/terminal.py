"""The program on a terminal of its own, with a person's eyes and hands: a pty, a screen (pyte), a server that waits.

Nothing sleeps: each step waits for what it expects to see, and a Gate in a stream for the test to open it.
"""

from __future__ import annotations

import itertools
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pexpect
import pyte

from tests.doubles import is_chat, stream_event
from tests.waiting import PATIENCE_S

from . import loaded

ROOT = Path(__file__).resolve().parents[2]


class Gate(threading.Event):
    """A place in a stream that the server does not pass before the test lets it; `reached` is set when it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()


class Server:
    """Answers each chat with the next script: stream deltas, text as a delta, and Gates; keeps what was asked."""

    def __init__(self, *scripts: list, models: Sequence[str] = ("tiny", "other")) -> None:
        self.scripts = list(scripts)
        self.models = models
        self.requests: list[dict] = []

    def __enter__(self) -> Server:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    import json

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # else an event waits 40 ms for the one before it to be acknowledged

        def do_GET(self) -> None:
            models = {"data": [{"id": name, "max_model_len": 4000} for name in server.models]}
            self._begin(200 if self.path.endswith("/models") else 404, "application/json")
            self.wfile.write(json.dumps(models).encode())

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not is_chat(self.path):
                self._begin(404, "application/json")
                return
            server.requests.append(asked)
            self._begin(200, "text/event-stream")
            try:
                for step in [*server.scripts.pop(0), {"finish": "stop"}]:
                    if isinstance(step, Gate):
                        step.reached.set()
                        step.wait(PATIENCE_S)
                    else:
                        self.wfile.write(stream_event({"content": step} if isinstance(step, str) else step))
                        self.wfile.flush()
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:  # the client left
                return

        def _begin(self, status: int, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Connection", "close")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler


class Answering(pyte.HistoryScreen):
    """A screen that answers what it is asked, as a terminal does, and keeps what scrolled away."""

    answers: list[str]

    def __init__(self, columns: int, rows: int) -> None:
        self.answers = []
        super().__init__(columns, rows, history=10_000)

    def write_process_input(self, data: str) -> None:
        self.answers.append(data)


class Terminal:
    """`shows` waits until a pattern is on the screen, `keys` types."""

    def __init__(
        self,
        folder: Path,
        server: Server | None,
        *,
        options: Sequence[str] = (),
        columns: int = 80,
        rows: int = 24,
        fresh: bool = False,
        prepare: Callable[[], None] = lambda: None,
        **environment: str,
    ) -> None:
        """`fresh`: in a Python of its own; else in a fork of this one, where the program is loaded already.

        `prepare` is called in its process before it starts. Without a server none is named on the command line.
        """
        self.server = server
        self.screen = Answering(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self._scrolled: list[str] = []
        self.raw = ""
        (folder / "work").mkdir(exist_ok=True)
        own = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        own |= {"PAGER": "", "XDG_STATE_HOME": str(folder / "state"), **environment}  # whether less is there or not
        named = ["-u", server.url, "-m", "tiny"] if server else []
        placed = [] if "--demo" in options else ["-w", str(folder / "work")]  # the demo has a folder of its own
        arguments = [*placed, *named, *options]

        def before() -> None:
            prepare()
            if not fresh:
                loaded.run(arguments, own)
            signal.signal(signal.SIGINT, signal.default_int_handler)

        self.child = pexpect.spawn(
            sys.executable,
            [str(ROOT / "cli.py"), *arguments],
            cwd=str(folder / "work"),
            env=own,
            encoding="utf-8",
            codec_errors="replace",
            dimensions=(rows, columns),
            preexec_fn=before,
        )
        self.child.delaybeforesend = None
        self.child.ptyproc.delayafterclose = 0  # it has ended by then

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.isalive():
            self.child.kill(signal.SIGKILL)
            self.child.wait()
        self.child.close()

    @property
    def lines(self) -> list[str]:
        return [self._join(self.screen.buffer[row]) for row in range(self.screen.lines)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def everything(self) -> str:
        """With what has scrolled away."""
        for cells in itertools.islice(self.screen.history.top, len(self._scrolled), None):  # it does not change again
            self._scrolled.append(self._join(cells))
        return "\n".join([*self._scrolled, *self.lines]).rstrip()

    def _join(self, cells: Mapping[int, pyte.screens.Char]) -> str:
        """A row as text; cells that were never written are left out of the mapping."""
        width = max(cells, default=-1) + 1
        return "".join(cells[x].data for x in range(min(width, self.screen.columns))).rstrip()

    def keys(self, text: str) -> None:
        self.child.send(text)

    def line(self, text: str) -> None:
        self.keys(f"{text}\r")

    def shows(self, pattern: str) -> re.Match[str]:
        return self._until(lambda: re.search(pattern, self.everything, re.MULTILINE), f"to see {pattern!r}")

    def shows_no(self, pattern: str) -> None:
        self._until(lambda: not re.search(pattern, self.text, re.MULTILINE), f"to see no {pattern!r}")

    def prompts(self) -> None:
        """Wait for an empty prompt that can be typed at, with its line below, and nothing above that changes."""
        self._until(lambda: re.search(r"^>\n.*context.*\Z", self.text, re.M) and "Ctrl-C stops" not in self.text, "it")

    def is_sent(self, raw: str) -> None:
        self._until(lambda: raw in self.raw, f"to be sent {raw!r}")

    def ends(self) -> int:
        self._until(lambda: not self.child.isalive(), "the end")
        self.child.wait()
        return self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def _until(self, true: object, what: str) -> re.Match[str]:
        end = time.monotonic() + PATIENCE_S
        while not (found := true()):
            ready, _, _ = select.select([self.child.child_fd], [], [], 0.2)
            if ready:
                self._read()
            assert time.monotonic() < end, f"waited for {what}:\n{self.everything}\n---\n{self.raw[-500:]!r}"
        return found

    def _read(self) -> None:
        try:
            data = self.child.read_nonblocking(65536, 0)
        except (pexpect.EOF, pexpect.TIMEOUT):
            return  # it has ended, or is about to
        self.raw += data
        self._stream.feed(data)
        for answer in self.screen.answers:
            self.child.send(answer)
        self.screen.answers.clear()
