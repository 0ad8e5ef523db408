"""A file of whole lines: rotation, several writers, and disks that are full."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import stat

import pytest

from src.serve.record.log_file import LogFile

LARGE = 10**9


def read(path):
    return path.read_bytes().splitlines()


def test_a_file_that_is_full_is_put_aside_and_the_oldest_goes(tmp_path):
    file = LogFile(tmp_path / "log", 10, 3)
    for number in range(8):
        file.append(b"%06d\n" % number)
    assert {each.name: read(each) for each in tmp_path.iterdir()} == {
        "log": [b"000007"],
        "log.1": [b"000006"],
        "log.2": [b"000005"],
    }


def test_of_one_file_only_the_newest_lines_stay(tmp_path):
    file = LogFile(tmp_path / "log", 10, 1)
    for number in range(3):
        file.append(b"%06d\n" % number)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
    assert read(file.path) == [b"000002"]


@pytest.mark.parametrize(("count", "aside"), [(3, {"log.1": [b"000001"], "log.2": [b"000000"]}), (1, {})])
def test_of_a_link_the_file_it_leads_to_is_put_aside(tmp_path, count, aside):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "log")
    file = LogFile(tmp_path / "link", 10, count)
    for number in range(3):
        file.append(b"%06d\n" % number)
    assert {each.name: read(each) for each in (tmp_path / "disk").iterdir()} == {"log": [b"000002"], **aside}
    assert (tmp_path / "link").is_symlink()
    assert {each.name for each in tmp_path.iterdir()} == {"disk", "link"}


def test_a_line_beyond_the_size_has_a_file_of_its_own(tmp_path):
    file = LogFile(tmp_path / "log", 10, 2)
    for line in (b"a\n", b"b" * 50 + b"\n", b"c\n"):
        file.append(line)
    assert (read(tmp_path / "log.1"), read(file.path)) == ([b"b" * 50], [b"c"])


def test_a_line_that_was_cut_off_is_ended_before_the_next_one(tmp_path):
    (tmp_path / "log").write_bytes(b'{"a": 1}\n{"b"')
    LogFile(tmp_path / "log", LARGE, 1).append(b'{"c": 3}\n')
    assert read(tmp_path / "log") == [b'{"a": 1}', b'{"b"', b'{"c": 3}']


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path):
    (tmp_path / "log").touch(mode=0o644)
    LogFile(tmp_path / "log", LARGE, 1).append(b"a\n")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_file_that_cannot_be_closed_to_others_is_refused_and_says_why(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    (tmp_path / "log").touch(mode=0o660)
    monkeypatch.setattr(os, "fchmod", refuse)  # as for a file of another user
    with pytest.raises(PermissionError, match="others may read it, and its mode cannot be changed"):
        LogFile(tmp_path / "log", LARGE, 1).check()
    assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize("name", ["missing/log", "folder"])
def test_what_cannot_be_written_is_told(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        LogFile(tmp_path / name, LARGE, 1).check()


def append_beyond_limit(path):
    """In a process of its own, whose files cannot grow beyond 30 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, 30))
    try:
        LogFile(path, LARGE, 1).append(b"x" * 50 + b"\n")
    except OSError:
        os._exit(7)


def test_of_a_line_that_does_not_fit_on_the_disk_nothing_stays(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"whole\n")
    process = multiprocessing.get_context("fork").Process(target=append_beyond_limit, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 7
    assert path.read_bytes() == b"whole\n"


def append_many(path, writer):
    file = LogFile(path, 20_000, 100)
    for number in range(200):
        file.append(f"{writer}:{number}:{'x' * (number * 7 % 900)}:end\n".encode())


def test_lines_of_several_processes_are_whole_and_none_is_lost(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(tmp_path / "log", writer)) for writer in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    lines = [line.decode() for each in tmp_path.iterdir() for line in read(each)]
    assert all(line.endswith(":end") for line in lines)
    assert sorted(tuple(map(int, line.split(":")[:2])) for line in lines) == [
        (writer, number) for writer in range(4) for number in range(200)
    ]
