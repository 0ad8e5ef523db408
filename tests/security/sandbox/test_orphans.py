"""Waiting for the end of a process namespace, as bwrap reports it; test_base.py ends real orphans."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from src.security.sandbox.orphans import end_namespace


def pipe_with(text: str) -> int:
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    return reader


@pytest.mark.parametrize("info", ["", "{}", "[]", '{"child-pid": "x"}', '{"child-pid": 999999999}'])
def test_where_no_process_was_started_there_is_nothing_to_wait_for(info):
    fd = pipe_with(info)
    end_namespace(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(fd)


def test_a_process_that_has_ended_is_not_waited_for():
    with subprocess.Popen(["true"]) as first:
        end_namespace(pipe_with(json.dumps({"child-pid": first.pid})))
        assert first.wait() == 0
