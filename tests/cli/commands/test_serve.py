"""`vllm-bot serve`, as a process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from src.app.keys import hash_key, read_keys
from src.cli.demo.loopback import LoopbackReply, serve
from src.cli.main import main
from src.config import Settings
from src.config.settings import ServeSettings
from src.serve.run import check
from src.serve.workers import STREAMS_FINISH
from tests.processes import read_process_file
from tests.terminal import loaded
from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[3]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    if "--workers" not in arguments:
        return loaded.start(["serve", *arguments], environment, start_new_session=True)
    command = [sys.executable, str(ROOT / "cli.py"), "serve", *arguments]  # workers are spawned as it was started
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_the_demo_answers_and_sigterm_ends_it(tmp_path):
    with run_demo(tmp_path) as url:
        assert ask_for_call(url)["function"] == {"name": "read", "arguments": '{"path": "greet.py"}'}
        assert not (tmp_path / ".local").exists()  # what is learned of the demo goes with it


@only_thorough
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_workers_serve_https_and_each_tells_the_sum_of_all(tmp_path):
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", *names]
    subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)
    files = [str(tmp_path / name) for name in ("cert.pem", "key.pem")]
    trusted = ssl.create_default_context(cafile=files[0])
    with run_demo(tmp_path, "--workers", "2", "--tls", *files, trusted=trusted) as url:
        for _ in range(8):  # each on a connection of its own
            ask_for_call(url, trusted)
        for _ in range(8):
            with urllib.request.urlopen(f"{url}/metrics", context=trusted) as reply:
                counted = [line for line in reply.read().decode().splitlines() if line.startswith("vllm_bot_calls_")]
            assert [line.rpartition(" ")[2] for line in counted] == ["8.0"]


@contextmanager
def run_demo(folder: Path, *arguments: str, trusted: ssl.SSLContext | None = None) -> Iterator[str]:
    """A gateway in front of the demo, and its address; SIGTERM ends it. `trusted`: it serves HTTPS."""
    process = start(folder, "--demo", "--listen", "127.0.0.1:0", *arguments)
    try:
        url = read_url(process)
        assert url.startswith("https:" if trusted else "http:")
        wait_until(lambda: does_answer(f"{url}/v1/models", trusted), "the gateway answers")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in errors


def read_url(process: subprocess.Popen[str]) -> str:
    """Where the gateway listens, from its first line."""
    assert process.stderr is not None
    line = process.stderr.readline()
    told = re.match(r"vllm-bot serve: (\S+) in front of http://127\.0\.0\.1:\d+", line)
    assert told, line
    return told[1]


def ask_for_call(url: str, trusted: ssl.SSLContext | None = None) -> dict[str, Any]:
    """The call that the demo answers with."""
    tool = {"type": "function", "function": {"name": "read", "parameters": {"properties": {"path": {}}}}}
    body = {"model": "demo", "messages": [{"role": "user", "content": "read it"}], "tools": [tool]}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, context=trusted) as reply:
        (call,) = json.load(reply)["choices"][0]["message"]["tool_calls"]
    return call


def does_answer(url: str, trusted: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, context=trusted) as reply:
            reply.read()
    except OSError:
        return False
    return True


def test_a_worker_that_is_killed_is_replaced_and_told(tmp_path):
    process = start(tmp_path, "--demo", "--listen", "127.0.0.1:0", "--workers", "2")
    assert process.stderr is not None
    try:
        url = read_url(process)
        wait_until(lambda: does_answer(f"{url}/livez"), "the gateway answers")
        os.kill(find_workers(process.pid)[0], signal.SIGKILL)
        assert process.stderr.readline() == "A worker ended (SIGKILL) and is replaced.\n"
        wait_until(lambda: "vllm_bot_worker_restarts_total 1.0" in read_metrics(url), "the restart is counted")
        assert len(find_workers(process.pid)) == 2
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in errors


@only_thorough
def test_a_worker_that_finds_broken_keys_is_tried_again_until_they_are_whole(tmp_path, capsys):
    file = tmp_path / "keys"
    assert main(["serve", "--new-key", str(file)]) == 0
    whole = file.read_text()
    process = start(tmp_path, "--demo", "--listen", "127.0.0.1:0", "--workers", "2", "--keys", str(file))
    assert process.stderr is not None
    try:
        url = read_url(process)
        wait_until(lambda: does_answer(f"{url}/livez"), "the gateway answers")
        process.send_signal(signal.SIGHUP)
        assert [process.stderr.readline() for _ in range(2)] == ["The keys were read anew.\n"] * 2  # both workers run
        file.write_text("sha256:0")
        os.kill(find_workers(process.pid)[0], signal.SIGKILL)
        for told in (
            "A worker ended (SIGKILL) and is replaced.",
            f"A worker cannot run: {file}, line 1: expected sha256: and 64 hexadecimal digits.",
            "`vllm-bot serve --new-key FILE` makes a key, shows it once, and adds its digest.",
            "A worker ended (exit code 2) and is tried again in 2 s.",
        ):
            assert process.stderr.readline() == f"{told}\n"
        file.write_text(whole)
        wait_until(lambda: len(find_workers(process.pid)) == 2, "the worker runs")
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert is_quiet(errors)


def is_quiet(errors: str) -> bool:
    """Whether nothing is told at the end, but that it takes a while: on a busy machine that of idle workers does, too."""
    return errors.strip() in ("", STREAMS_FINISH)


def find_workers(pid: int) -> list[int]:
    """The processes that a gateway has spawned."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in read_process_file(int(child), "cmdline")]


def read_metrics(url: str) -> str:
    with suppress(OSError), urllib.request.urlopen(f"{url}/metrics") as reply:
        return str(reply.read().decode())
    return ""


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=only_thorough)])
def test_sighup_reads_the_keys_anew(tmp_path, capsys, workers):
    file, log = tmp_path / "keys.txt", tmp_path / "requests.jsonl"
    assert main(["serve", "--new-key", str(file), "--key-name", "team a"]) == 0
    options = ["--keys", str(file), "--request-log", str(log), "--workers", workers]
    process = start(tmp_path, "--demo", "--listen", "127.0.0.1:0", *options)
    assert process.stderr is not None
    try:
        url = read_url(process)
        wait_until(lambda: does_answer(f"{url}/livez"), "the gateway answers")
        assert main(["serve", "--new-key", str(file), "--key-name", "team b"]) == 0
        _, key = capsys.readouterr().out.split()
        assert not does_answer(f"{url}/v1/models?key={key}")
        process.send_signal(signal.SIGHUP)
        assert [process.stderr.readline() for _ in range(int(workers))] == ["The keys were read anew.\n"] * int(workers)
        assert does_answer(f"{url}/v1/models?key={key}")
        file.write_text("nonsense")
        process.send_signal(signal.SIGHUP)
        assert "The keys stay as they were." in process.stderr.readline()
        assert does_answer(f"{url}/v1/models?key={key}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(entry["key"], entry["status"]) for entry in entries] == [("", 401), ("team b", 200), ("team b", 200)]


def test_a_request_log_that_cannot_be_written_is_named_before_the_start(tmp_path, capsys):
    assert main(["serve", "--upstream", "127.0.0.1:9", "--request-log", str(tmp_path)]) == 2
    assert f"serve.request_log: {tmp_path} cannot be written: Is a directory." in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "[::ffff:0.0.0.0]"])
def test_another_address_than_this_machine_s_needs_keys(host, capsys):
    assert main(["serve", "--upstream", "127.0.0.1:9", "--listen", f"{host}:8010"]) == 2
    assert "--new-key" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["LOCALHOST", "127.0.0.2"])
def test_a_loopback_needs_no_keys_however_it_is_written(host):
    options = ServeSettings(listen=f"{host}:0", upstreams=("http://127.0.0.1:9/v1",))
    checked = check(replace(Settings(), serve=options))
    assert checked.serve.listen.rpartition(":")[0] == host


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=only_thorough)])
def test_a_port_in_use_is_named(tmp_path, workers):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        _, errors = start(tmp_path, "--demo", "--listen", address, "--workers", workers).communicate(timeout=PATIENCE_S)
    assert f"cannot listen on {address}: Address already in use." in errors
    assert "Ctrl-C ends it" not in errors


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=only_thorough)])
def test_ctrl_c_ends_all_workers_without_a_traceback(tmp_path, workers):
    process = start(tmp_path, "--demo", "--listen", "127.0.0.1:0", "--workers", workers)
    assert process.stderr is not None
    start_line = process.stderr.readline()
    assert "Ctrl-C ends it" in start_line
    assert "127.0.0.1:0 " not in start_line, "port 0 stands for one that all workers share"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert is_quiet(errors)


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=only_thorough)])
def test_ctrl_c_lets_streams_finish_and_a_second_one_does_not(tmp_path, workers):
    def hang(request):
        has_begun.set()
        return LoopbackReply(200, "application/json", hang_on())

    def hang_on():
        yield b" "
        is_over.wait()

    has_begun, is_over = threading.Event(), threading.Event()
    with serve(hang) as upstream:
        process = start(tmp_path, "--upstream", upstream, "--listen", "127.0.0.1:0", "--workers", workers)
        assert process.stderr is not None
        try:
            url = read_url(process)
            wait_until(lambda: is_open(url), "the gateway listens")
            asked = urllib.request.urlopen(f"{url}/v1/files")
            assert has_begun.wait(PATIENCE_S)
            os.killpg(process.pid, signal.SIGINT)
            assert "Ctrl-C ends them at once" in process.stderr.readline()
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_S)
            asked.close()
        finally:
            is_over.set()
    assert (process.returncode, errors.strip()) == (130, "")


def is_open(url):
    address = urlsplit(url)
    with suppress(OSError), socket.create_connection((address.hostname, address.port)):
        return True
    return False


def test_a_server_that_does_not_answer_yet_is_told(tmp_path):
    process = start(tmp_path, "--upstream", "127.0.0.1:9", "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    process.stderr.readline()
    assert process.stderr.readline().startswith("! http://127.0.0.1:9 does not answer yet: ")
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


def test_an_upstream_may_be_given_without_its_option(tmp_path):
    process = start(tmp_path, "127.0.0.1:9", "--upstream", "127.0.0.1:10", "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(3)]
    assert [line.split()[1] for line in told if "does not answer yet" in line] == [
        "http://127.0.0.1:9",
        "http://127.0.0.1:10",
    ]
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("url", ["ftp://gpu", "http://", "gpu:99999"])
def test_an_upstream_that_is_no_address_is_refused(url, capsys):
    assert main(["serve", "--upstream", url]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert repr(url) in line


def test_files_of_a_certificate_that_are_none_are_named(capsys):
    assert main(["serve", "--demo", "--tls", "a.pem", "b.pem"]) == 2
    assert "--tls: a.pem and b.pem" in capsys.readouterr().err


def test_a_new_key_is_shown_once_and_kept_as_its_digest(tmp_path, capsys):
    file = tmp_path / "keys.txt"
    assert main(["serve", "--new-key", str(file)]) == 0
    key = capsys.readouterr().out.strip()
    assert key not in file.read_text()
    assert read_keys(file).find(key) == hash_key(key)[:8]
    assert read_keys(file).find(f"{key}x") is None
