"""A signal ends the program and its children; the text so far is kept, and the exit code names the signal."""

import json
import os
import signal
from pathlib import Path

import pytest

from src.tools.process.proc import DEAD, list_processes
from tests.processes import read_process_file
from tests.terminal import loaded
from tests.thorough import sample
from tests.waiting import PATIENCE_S, wait_until

from .scripts import calls, chunked, text
from .server import STALL, FaultServer

CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGQUIT: 131, signal.SIGINT: 130}


def started(server, tmp_path, *options, debug=""):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"workspace": {"dir": str(tmp_path)}, "security": {"sandbox": "off"}}))
    where = ["-u", f"http://127.0.0.1:{server.port}/v1", "-m", "tiny", "-c", str(config), "-p", "go"]
    environment = {**os.environ, "DEBUG": debug}

    return loaded.start([*where, *options], environment)


def alive(group):
    """The processes of a group without zombies."""
    return [each for each in list_processes() if each.group == group and each.state not in DEAD]


def waits(program):
    """Whether it has done all it can for now, and waits for others: no thread runs, as one would that others wait for."""
    looks = [[describe_thread(program.pid, each) for each in list_threads(program.pid)] for _ in range(2)]
    return looks[0] == looks[1] and all(state == "S" for state, *_ in looks[0])


def list_threads(pid):
    return [each.name for each in Path(f"/proc/{pid}/task").iterdir()]


def describe_thread(pid, thread):
    """Its state, and how often it has run; nothing of one that has just ended."""
    lines = read_process_file(pid, f"task/{thread}/status").decode().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    return fields.get("State", "")[:1], fields.get("voluntary_ctxt_switches"), fields.get("nonvoluntary_ctxt_switches")


def ended(program, number):
    program.send_signal(number)
    out, err = program.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    return program.returncode, out, err


@pytest.mark.thorough
@pytest.mark.parametrize("number", sample([*CODES], 2), ids=lambda number: number.name)
class TestSignals:
    def test_in_an_answer_the_text_so_far_is_kept(self, number, tmp_path):
        with FaultServer([chunked(text("Half an answer")), STALL]) as server:
            program = started(server, tmp_path, debug="2")
            wait_until(lambda: "] received" in program.stderr.readline(), "nothing came")
            wait_until(lambda: waits(program), "it is not done with what came")
            code, out, _ = ended(program, number)
        assert (code, out) == (CODES[number], "Half an answer\n")

    def test_in_the_wait_between_attempts_it_ends_at_once(self, number, tmp_path):
        with FaultServer([b"HTTP/1.1 429 No\r\nRetry-After: 50\r\nContent-Length: 0\r\n\r\n"]) as server:
            program = started(server, tmp_path)
            assert "trying again in 50.0 s" in program.stderr.readline()
            wait_until(lambda: waits(program), "Python drops a Ctrl-C inside a finalizer, as of the refused answer")
            assert ended(program, number)[0] == CODES[number]

    def test_in_a_command_the_command_ends_too(self, number, tmp_path):
        command = f"echo $$ > {tmp_path}/pid; sleep 60 & sleep 60"
        call = {"index": 0, "id": "c", "function": {"name": "exec", "arguments": json.dumps({"command": command})}}
        with FaultServer(calls(call)) as server:
            program = started(server, tmp_path, "--yes")
            pid = tmp_path / "pid"
            wait_until(lambda: pid.exists() and pid.read_text().strip(), "the command did not start")
            wait_until(lambda: waits(program), "a signal in the very moment of the fork is not what this is about")
            code, _, _ = ended(program, number)
        assert code == CODES[number]
        assert alive(int(pid.read_text())) == []
