"""A command ends with this program, however it ends. test_run.py has what the supervisor does at other ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from src.tools import ToolContext
from src.tools.process.run import run
run(["/bin/sh", "-c", sys.argv[1]], ToolContext(Path(sys.argv[2])))
"""
COMMANDS = {
    "alone": "echo >started; sleep 60; echo late >late",
    "in a session of its own": "setsid sh -c 'echo >started; sleep 60' & wait",
    "as a daemon": "(setsid sh -c 'echo >started; sleep 60' &) ; sleep 60",
    "that goes on in ever new processes": "echo >started; exec python3 -c 'while 1: __import__(\"os\").fork() and exit()'",
    "that goes on in ever new sessions": "echo >started; exec python3 -c 'import os\nfor _ in range(50_000):\n"
    " if os.fork(): os._exit(0)\n os.setsid()'",
    "that ignores the request to end": "trap '' TERM HUP; echo >started; sleep 60; sleep 60",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_dies_with_the_program_that_is_killed(command, tmp_path):
    for name in ("alive", "started"):
        os.mkfifo(tmp_path / name)
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, f"exec 3>alive; {command}", str(tmp_path)], cwd=Path(__file__).parents[3]
    ) as program:
        (tmp_path / "started").read_bytes()  # the pipe's other end is opened by the command
        program.send_signal(signal.SIGKILL)
    assert select.select([alive], [], [], 30)[0]  # readable: nobody is left who could write
    assert os.read(alive, 1) == b""
    os.close(alive)
    assert not (tmp_path / "late").exists()
