"""The gateway in front of real servers: calls land for SDK clients, and healthy answers are the server's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from src.eval.record_lines import read_lines
from src.eval.replay import replay
from src.parsing.formats.table import FORMATS
from src.transport.http import find_free_port
from tests.waiting import PATIENCE_S, wait_until

from .clients import Installation, find_folder, run_client
from .harmless import find_difference, list_cases
from .rig import Server, does_answer

ROOT = Path(__file__).resolve().parents[2]
RIG = Path(os.environ.get("VLLM_BOT_RIG", ""))
SDK_PYTHON = Path(os.environ.get("RIG_VENV", "~/rig/venv")).expanduser() / "bin" / "python"  # has the clients' SDKs
FOUR_SERVERS = pytest.mark.parametrize("server", ["hermes", "no parser", "strict", "wrong parser"], indirect=True)


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[Callable[[Server], str]]:
    """Starts a gateway in front of a server; returns its address, without /v1."""
    started: list[subprocess.Popen[bytes]] = []

    def start(server: Server) -> str:
        address = f"127.0.0.1:{find_free_port()}"
        config = tmp_path / "config.json"
        serve = {"listen": address, "record": str(tmp_path / "record.jsonl")}
        config.write_text(json.dumps({"vllm": {"base_url": server.base_url}, "serve": serve}))
        command = [sys.executable, str(ROOT / "cli.py"), "--config", str(config), "serve"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "VLLM_API_KEY": server.api_key}
        started.append(subprocess.Popen(command, env=environment))
        wait_until(lambda: does_answer(f"http://{address}/health"), "the gateway answers")
        return f"http://{address}"

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


@FOUR_SERVERS
def test_each_call_lands_for_the_sdks_of_three_apis(server, start_gateway):
    matrix = [str(SDK_PYTHON), str(RIG / "client_matrix.py"), f"here={start_gateway(server)}"]
    done = subprocess.run(matrix, capture_output=True, text=True, check=True)
    landed = json.loads(done.stdout.splitlines()[-1])
    assert landed == {"here": {"chat": 20, "messages": 20, "responses": 20}}, done.stdout


# vLLM's qwen3_coder swallows the calls of glm45: these are recovered at the end
UNESCAPED_FORMATS = [
    *(("no parser", each) for each in ("qwen3_coder", "minimax_m2", "glm45", "gemma4")),
    *(("wrong parser", each) for each in ("qwen3_coder", "minimax_m2")),
]
LONG_FILE = "".join(f"line {number}: if a < b and c > {number}:\n" for number in range(60))


@pytest.mark.parametrize(("server", "written"), UNESCAPED_FORMATS, indirect=["server"])
@pytest.mark.parametrize("api", ["messages", "responses"])
def test_an_sdk_sees_a_long_argument_grow(server, start_gateway, tmp_path, api, written):
    arguments = {"path": "list.txt", "content": LONG_FILE}
    (write,) = [row.write for row in FORMATS if row.name == written]
    question = f"Write it. @@SCRIPT@@{json.dumps([write('write', arguments)])}@@END@@"
    command = [str(SDK_PYTHON), str(Path(__file__).with_name("sdk_streams.py")), api, start_gateway(server), question]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["arguments"] == arguments
    assert seen["sizes"] == sorted(seen["sizes"])
    # A busy machine brings many events in one read, which leave in one piece. So the gateway's part is measured on the
    # recorded events, one at a time.
    record = tmp_path / "record.jsonl"
    wait_until(lambda: record.exists() and record.read_bytes().endswith(b"\n"), "the call is recorded")
    (line,) = read_lines([record])
    entry = line.entry
    came = entry["exchanges"][-1]["raw"].count('"finish_reason":null')
    left = sum(b'"arguments":' in event for event in replay(entry).sent)
    assert left > came / 2, f"{left} pieces of {came} events"


@pytest.mark.skipif(not (shutil.which("npm") and shutil.which("node")), reason="codex needs npm and node")
@pytest.mark.parametrize(
    "server", ["hermes", "no parser", "strict, wrong parser", "wrong parser"], indirect=True
)  # a server of the kind "strict" has too short a context for codex
def test_codex_runs_a_command_and_applies_a_patch(server, start_gateway, tmp_path):
    installed = Installation(find_folder())
    installed.install("codex")
    outcome = run_client(installed, "codex", start_gateway(server), ["hermes", "minimax_m2"], tmp_path / "codex")
    assert outcome.verdict == "landed", outcome.output


@pytest.mark.parametrize("server", ["hermes", "thinking"], indirect=True)
def test_healthy_answers_are_the_server_s_own(server, start_gateway):
    gateway, root = start_gateway(server), server.base_url.removesuffix("/v1")
    found = [each for case in list_cases() if (each := find_difference(root, gateway, case))]
    assert found == []


def test_a_client_that_goes_ends_the_server_s_answer(server, start_gateway):
    body = {
        "model": "tiny", "stream": True, "max_tokens": 8000, "ignore_eos": True, "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
    }  # fmt: skip
    request = urllib.request.Request(
        f"{start_gateway(server)}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as reply:
        reply.read(200)
    wait_until(lambda: count_running(server) == 0, "the server's answer ends")


@pytest.mark.parametrize("server", ["strict"], indirect=True)
def test_a_history_with_calls_of_functions_is_mended(server, start_gateway):
    script = json.dumps(["is read", "It says: {{results}}"])
    messages = [
        {"role": "user", "content": f"Read it. @@SCRIPT@@{script}@@END@@"},
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": '{"path": "a.txt"}'}},
        {"role": "function", "name": "read", "content": "hello"},
    ]
    body = json.dumps({"model": "tiny", "messages": messages}).encode()
    address, headers = f"{start_gateway(server)}/v1/chat/completions", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as reply:
        assert "mended=functions" in reply.headers["x-vllm-bot"]
        assert "hello" in json.load(reply)["choices"][0]["message"]["content"]


def count_running(server: Server) -> float:
    with urllib.request.urlopen(f"{server.base_url.removesuffix('/v1')}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running"))
