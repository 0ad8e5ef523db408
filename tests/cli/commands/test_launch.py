"""Another program, run on a gateway of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from src.cli.commands.launch import PROGRAMS
from src.cli.demo.run import start_demo
from src.cli.main import main
from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
# Stands for a client: says how it was called, and asks the gateway that its environment names.
CLIENT = """#!/usr/bin/env python3
import json, os, sys, urllib.request
with urllib.request.urlopen(os.environ["ANTHROPIC_BASE_URL"] + "/v1/models") as reply:
    models = [each["id"] for each in json.load(reply)["data"]]
print(json.dumps({"arguments": sys.argv[1:], "model": os.environ["ANTHROPIC_MODEL"], "models": models}))
sys.exit(7)
"""

# Asks the gateway after a Ctrl-C.
PATIENT_CLIENT = """#!/usr/bin/env python3
import json, os, signal, sys, urllib.request
def ask(*_):
    with urllib.request.urlopen(os.environ["ANTHROPIC_BASE_URL"] + "/v1/models") as reply:
        print([each["id"] for each in json.load(reply)["data"]], flush=True)
    os._exit(3)
signal.signal(signal.SIGINT, ask)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_is_told_the_address_and_the_model(program, tmp_path):
    words, environment = PROGRAMS[program][0]("http://127.0.0.1:8010", "Qwen/Qwen3-8B", tmp_path, 40_960)
    told = " ".join([*words, *environment.values(), *(each.read_text() for each in tmp_path.iterdir())])
    assert "http://127.0.0.1:8010" in told
    assert "Qwen/Qwen3-8B" in told
    assert ("40960" in told) == (program != "copilot")  # the context, where the program can be told


def launch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = folder / "home"
    home.mkdir()
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(home)}
    command = [sys.executable, str(ROOT / "cli.py"), "launch", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert list(home.iterdir()) == []  # nothing is written into the home
    return done


def test_a_program_runs_on_a_gateway_and_its_exit_code_is_ours(tmp_path):
    client = tmp_path / "claude"
    client.write_text(CLIENT)
    client.chmod(0o755)
    with start_demo() as demo:
        done = launch(tmp_path, "claude", "-u", str(demo.overrides["vllm.base_url"]), "--", "-p", "--yes")
    assert done.returncode == 7, done.stderr
    assert json.loads(done.stdout) == {"arguments": ["-p", "--yes"], "model": "demo", "models": ["demo"]}


@only_thorough
def test_ctrl_c_is_for_the_program(tmp_path):
    client = tmp_path / "claude"
    client.write_text(PATIENT_CLIENT)
    client.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with start_demo() as demo:
        command = [sys.executable, str(ROOT / "cli.py"), "launch", "claude", "-u", str(demo.overrides["vllm.base_url"])]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert (rest, errors, process.returncode) == ("['demo']\n", "", 3)


def test_a_program_that_is_not_installed_is_named_with_its_package(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["launch", "opencode"]) == 2
    assert "npm install -g opencode-ai" in capsys.readouterr().err
