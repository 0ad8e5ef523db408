"""Processes are recognized later, also when only what they started lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from src.errors import ToolError
from src.tools.process.proc import SCAN_S, TaskLimit, find_living, identify
from src.types.process import StartedProcess

from ...waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


def start(command):
    words = ["/bin/sh", "-c", command]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()  # it has begun
    return process, identify(process.pid, words)


def test_a_process_is_found_while_it_lives():
    process, known = start("echo begun; read line")
    assert known.command == "echo begun; read line"
    assert find_living([known]) == {known: [process.pid]}
    process.communicate()
    assert find_living([known]) == {}


def test_what_it_started_is_found_when_it_is_killed_itself():
    process, known = start("exec 3<&0; { echo begun; read line <&3; } & wait")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = find_living([known])[known]
    assert left != process.pid
    process.stdin.close()
    process.stdout.close()
    wait_until(lambda: find_living([known]) == {}, "it is still found")


def test_another_process_that_has_the_number_now_is_not_found():
    process, known = start("echo begun; read line")
    machine, ticks = known.start.split(" ")
    earlier = replace(known, start=f"{machine} {int(ticks) + 1}")
    elsewhere = replace(known, start=f"another-machine {ticks}")
    unknown = StartedProcess(process.pid, "", "")
    assert find_living([earlier]) == find_living([elsewhere]) == find_living([unknown]) == {}
    process.communicate()


def test_a_command_without_a_shell_is_named_by_its_words():
    assert identify(os.getpid(), ["rg", "--", "x"]).command == "rg -- x"


def test_processes_over_the_limit_are_counted_though_the_machine_has_no_more_than_before():
    process, _ = start("exec 3<&0; for i in 1 2 3; do { read line <&3; } & done; echo begun; wait")
    now = 0.0
    limit = TaskLimit(process.pid, 2, lambda: now)  # the machine's count holds them
    limit._before += 100  # as after the end of others
    limit.check()
    now = SCAN_S
    with pytest.raises(ToolError, match="it started more than 2 processes, and was killed"):
        limit.check()
    process.communicate()
