"""How often the program asks: an ordinary working day of calls, and commands of every day.

    python tests/benchmarks/questions.py FACTS

FACTS holds working_day.jsonl (calls), exec_commands.json and exec_commands_2.json (commands, with those that are
legitimate). The calls are run by the shipped program, in a workspace of its own with git, tests and a Makefile: a server
in this process makes one call a turn, and a terminal answers each question with yes. So are those of a web developer's
hour: a server in the background, 10 requests to it, 8 edits, 2 commits. For the commands of every day `vllm-bot policy`
decides. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAX_QUESTIONS = {"ask": 12, "edits": 8, "auto": 1}
MAX_WEB_QUESTIONS = 3  # in mode edits, where commands have a loopback
QUESTION = b"Run it? [y/N]"
FILES = {
    "README.md": "# Sums\n",
    "Makefile": "test:\n\tpytest -q\n",
    "setup.cfg": "[metadata]\nname = sums\n",
    "package.json": '{"name": "sums"}\n',
    ".gitignore": "__pycache__/\n.*_cache/\nbuild/\n",
    "a.txt": "one\n",
    "b.txt": "one\ntwo\n",
    "src/main.py": 'def add(a, b):\n    """Return bar: a and b."""  # TODO: floats\n    return a + b\n\n\nprint(add(1, 2))\n',
    "src/util.py": "x = 1\n",
    "tests/test_a.py": "def test_a():\n    assert 1 + 1 == 2\n",
}
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]


def build_workspace(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    setup = (["init", "-q"], ["config", "user.name", "a"], ["config", "user.email", "a@b.c"], ["add", "-A"])
    for words in (*setup, ["commit", "-q", "-m", "Begin"]):
        subprocess.run([*GIT, *words], cwd=folder, check=True)


class CallServer(ThreadingHTTPServer):
    """Makes the calls one by one, and keeps their results."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls = calls
        self.results: list[str] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        results = [each for each in request["messages"] if each["role"] == "tool"]
        self.results = [str(each["content"]) for each in results]
        if len(results) == len(self.calls):
            return {"content": "Done."}
        call = self.calls[len(results)]
        function = {"name": call["tool"], "arguments": json.dumps(call["arguments"])}
        return {"tool_calls": [{"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}]}


class _Handler(BaseHTTPRequestHandler):
    server: CallServer

    def do_GET(self) -> None:
        listed = [{"id": "scripted", "object": "model", "max_model_len": 1_000_000, "owned_by": "vllm"}]
        self._send("application/json", json.dumps({"data": listed, "version": "0.11"}))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self._send("application/json", json.dumps({"count": 1, "tokens": [1], "max_model_len": 1_000_000}))
            return
        delta = self.server.answer(request)
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        chunks = [{"choices": [{"index": 0, "delta": delta}]}, {"choices": [{"delta": {}, "finish_reason": reason}]}]
        lines = "".join(f"data: {json.dumps({'id': 'x', 'model': 'scripted', **each})}\n\n" for each in chunks)
        self._send("text/event-stream", f"{lines}data: [DONE]\n\n")

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def run_program(calls: list[dict[str, Any]], mode: str, answer: bytes = b"y\n") -> tuple[list[str], list[str]]:
    """The questions that the program asked, each as it was shown, and the results of the calls."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (workspace := folder / "work").mkdir()
        build_workspace(workspace)
        server = CallServer(calls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = folder / "config.json"
        config.write_text(json.dumps({"agent": {"max_tool_turns": len(calls) + 1, "compact_at": None}}))
        url = f"http://127.0.0.1:{server.server_port}/v1"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        words = [sys.executable, str(ROOT / "cli.py"), "-c", str(config), "-w", str(workspace), "-u", url]
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*words, "-m", "scripted", "--mode", mode, "-p", "Work."],
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PATH": path, "HOME": name, "XDG_STATE_HOME": str(folder / "state")},
        )
        os.close(theirs)
        shown = _answer_questions(ours, answer)
        process.wait(60)
        server.shutdown()
        return shown, server.results


def _answer_questions(terminal: int, answer: bytes) -> list[str]:
    questions: list[str] = []
    text = b""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # the program has closed the terminal
            return questions
        if not data:
            return questions
        text += data
        if QUESTION in text:
            questions.append(text.partition(QUESTION)[0].decode("utf-8", "replace"))
            text = b""
            os.write(terminal, answer)


def list_web_calls() -> list[dict[str, Any]]:
    """The calls of a web developer's hour."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    requests = [
        {
            "command": f"curl -s --retry 5 --retry-connrefused -o /dev/null -w '%{{http_code}} {number}' http://localhost:{port}/a.txt"
        }
        for number in range(10)
    ]
    edits = [{"path": "src/util.py", "oldText": f"x = {at}", "newText": f"x = {at + 1}"} for at in range(1, 9)]
    commits = [{"command": f"git add -A && git commit -m 'Step {number}'", "access": "write"} for number in range(2)]
    server = {"command": f"python3 -m http.server {port}", "background": True}
    rounds = [server, *requests[:5], *edits[:4], commits[0], *requests[5:], *edits[4:], commits[1]]
    return [{"tool": "edit" if "path" in each else "exec", "arguments": each} for each in rounds]


def list_everyday_commands(facts: Path) -> list[str]:
    found = []
    for name in ("exec_commands", "exec_commands_2"):
        for case in json.loads((facts / f"{name}.json").read_text(encoding="utf-8")):
            if case.get("expected") == "allow" or case["tier"] == "legitimate":
                found.append(case["command"])
    return list(dict.fromkeys(found))


def decide_all(commands: list[str], mode: str) -> list[dict[str, Any]]:
    """What `vllm-bot policy` decides of each command."""
    lines = "".join(f"{json.dumps({'tool': 'exec', 'arguments': {'command': each}})}\n" for each in commands)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(ROOT / "cli.py"), "policy", "--mode", mode, "-w", folder]
        done = subprocess.run(words, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _ask_with_network(calls: list[dict[str, Any]]) -> bool:
    """The same hour where a loopback needs access=network, each question answered for the chat; whether it misses."""
    for call in calls:
        if call["tool"] == "exec":
            call["arguments"].setdefault("access", "network")
    questions, results = run_program(calls, "edits", b"c\n")
    answered = sum(result.startswith("200") for result in results)
    print(f"mode edits  {len(questions):3} where it needs access=network, {answered} of 10; bar: {MAX_WEB_QUESTIONS}")
    return len(questions) > MAX_WEB_QUESTIONS or answered != 10


def main() -> int:
    facts = Path(sys.argv[1])
    calls = [json.loads(line) for line in (facts / "working_day.jsonl").read_text(encoding="utf-8").splitlines()]
    missed = False
    for mode, limit in MAX_QUESTIONS.items():
        questions, results = run_program(calls, mode)
        missed = missed or len(questions) > limit or len(results) != len(calls)
        print(f"mode {mode:6} {len(questions):3} questions in {len(results)} calls; bar: {limit}")
        if "-v" in sys.argv:
            print(*questions, sep="\n")
    web_calls = list_web_calls()
    questions, results = run_program(web_calls, "edits")
    answered = sum(result.startswith("200") for result in results)
    missed = missed or len(questions) > MAX_WEB_QUESTIONS or answered != 10
    print(
        f"mode edits  {len(questions):3} questions in a web developer's hour, {answered} of 10 requests answered; ",
        end="",
    )
    print(f"bar: {MAX_WEB_QUESTIONS}")
    missed = _ask_with_network(web_calls) or missed
    commands = list_everyday_commands(facts)
    asking = [
        each for each, found in zip(commands, decide_all(commands, "auto"), strict=True) if found["decision"] != "allow"
    ]
    print(f"mode auto   {len(asking):3} of {len(commands)} everyday commands ask; bar: 0", *asking, sep="\n")
    return int(missed or bool(asking))


if __name__ == "__main__":
    sys.exit(main())
