"""`vllm-bot serve`, as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from src.serve.keys import read_keys
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [sys.executable, str(ROOT / "cli.py"), "serve", *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_demo_answers_and_sigterm_ends_it(tmp_path, workers):
    from tests.live.rig import free_port

    port = free_port()
    process = start(tmp_path, "--demo", "--listen", f"127.0.0.1:{port}", "--workers", workers)
    try:
        wait_until(lambda: does_answer(f"http://127.0.0.1:{port}/v1/models"), "the gateway answers")
        tool = {"type": "function", "function": {"name": "read", "parameters": {"properties": {"path": {}}}}}
        body = {"model": "demo", "messages": [{"role": "user", "content": "read it"}], "tools": [tool]}
        url, headers = f"http://127.0.0.1:{port}/v1/chat/completions", {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as reply:
            (call,) = json.load(reply)["choices"][0]["message"]["tool_calls"]
        assert call["function"] == {"name": "read", "arguments": '{"path": "greet.py"}'}
        assert not (tmp_path / ".local").exists()  # what is learned of the demo goes with it
    finally:
        process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert errors.startswith(f"vllm-bot serve: http://127.0.0.1:{port} in front of http://127.0.0.1:")
    assert "Traceback" not in errors


def does_answer(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True


def test_another_address_than_this_machine_s_needs_keys(tmp_path):
    _, errors = start(tmp_path, "--listen", "0.0.0.0:8010").communicate(timeout=60)
    assert "--new-key" in errors


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_in_use_is_named(tmp_path, workers):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        _, errors = start(tmp_path, "--demo", "--listen", address, "--workers", workers).communicate(timeout=60)
    assert f"cannot listen on http://{address}: Address already in use." in errors
    assert "Ctrl-C ends it" not in errors


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_all_workers_without_a_traceback(tmp_path, workers):
    process = start(tmp_path, "--demo", "--listen", "127.0.0.1:0", "--workers", workers)
    assert process.stderr is not None
    assert "Ctrl-C ends it" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=60)
    assert errors.strip() == ""


def test_a_server_that_does_not_answer_yet_is_told(tmp_path):
    process = start(tmp_path, "--upstream", "127.0.0.1:9", "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    process.stderr.readline()
    assert process.stderr.readline().startswith("! http://127.0.0.1:9 does not answer yet: ")
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.parametrize("url", ["ftp://gpu", "http://", "gpu:99999"])
def test_an_upstream_that_is_no_address_is_refused(tmp_path, url):
    process = start(tmp_path, "--upstream", url)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, len(errors.splitlines())) == (2, 1)
    assert repr(url) in errors


def test_files_of_a_certificate_that_are_none_are_named(tmp_path):
    _, errors = start(tmp_path, "--demo", "--tls", "a.pem", "b.pem").communicate(timeout=60)
    assert "--tls: a.pem and b.pem" in errors


def test_a_new_key_is_shown_once_and_kept_as_its_digest(tmp_path):
    file = tmp_path / "keys.txt"
    key = start(tmp_path, "--new-key", str(file)).communicate(timeout=60)[0].strip()
    assert key not in file.read_text()
    assert read_keys(file).has(key)
    assert not read_keys(file).has(f"{key}x")
