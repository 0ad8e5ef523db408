"""No command changes the mode, the owner or the times of a file outside; of its own files it can.

By each system call that changes them, by their numbers, and by what programs do.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import textwrap
from functools import partial
from unittest.mock import Mock

import pytest

from src.security.sandbox import attributes
from src.types.sandbox import ACCESSES
from tests.thorough import only_thorough, sample

from .conftest import run_each

IS_X86 = platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's system calls")

TRY_EACH = """
import ctypes, json, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
call.restype = ctypes.c_long
numbers, path = json.loads(sys.argv[1]), os.fsencode(sys.argv[2])
try:
    fd = os.open(path, os.O_RDONLY)
except OSError:
    fd = os.open(path, os.O_PATH)
name, times, folder = ctypes.c_char_p(path), (ctypes.c_long * 4)(5, 0, 5, 0), ctypes.c_int(-100)
mode, owner, none = ctypes.c_uint(0o640), ctypes.c_uint(os.getuid()), ctypes.c_int(0)
given = {
    "chmod": (name, mode), "fchmod": (fd, mode), "fchmodat": (folder, name, mode), "fchmodat2": (folder, name, mode, none),
    "chown": (name, owner, owner), "fchown": (fd, owner, owner), "lchown": (name, owner, owner),
    "fchownat": (folder, name, owner, owner, none), "utime": (name, times), "utimes": (name, times),
    "futimesat": (folder, name, times), "utimensat": (folder, name, times, none),
}
for key, number in numbers.items():
    print(key, "done" if call(ctypes.c_long(number), *given[key]) == 0 else os.strerror(ctypes.get_errno()))
"""
NAMES = ["chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"]
NAMES += ["utime", "utimes", "futimesat", "utimensat"]
NUMBERS = {
    name: call.numbers[0 if IS_X86 else 1]
    for name, call in zip(NAMES, attributes.CALLS, strict=True)
    if call.numbers[0 if IS_X86 else 1] != attributes.NO_CALL
}
COMMANDS = [
    "chmod 777 {out}",
    "chmod -R 777 ..",
    "cd .. && chmod 777 secret",
    "cd / && chmod 777 .{out}",
    "chmod 777 /proc/self/root{out}",
    "chmod 777 /proc/self/cwd/../secret",
    "ln -s {out} link; chmod 777 link; touch -d 2001-01-01 link",
    "ln {out} hard; chmod 777 hard",
    "ln -s .. up; chmod 777 up/secret; touch -h -d 2001-01-01 up/secret",
    "touch -h -d 2001-01-01 {out}",
    "chown $(id -u):$(id -g) {out}; chown -h $(id -u) {out}; chgrp $(id -g) {out}",
    "mkdir d; cp -a d e; mv e ../e; chmod 700 ..; touch -h -d 2001-01-01 ..",
    "exec 9<..; chmod 700 /proc/self/fd/9; touch -h -d 2001-01-01 /dev/fd/9/",
    "chattr +d {out}; chattr +A ..",
    "cp --preserve=all /dev/null a; cp -a a {out}; rsync -a a {out}; install -m 777 a {out}",
]


def describe(path):
    found = path.lstat()
    return (found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, found.st_ctime_ns)


@pytest.mark.thorough
@pytest.mark.parametrize("access", ACCESSES)
def test_what_is_outside_keeps_its_mode_owner_and_times(run, workspace, access):
    secret = workspace.parent / "secret"
    secret.chmod(0o644)
    before = [describe(each) for each in (secret, workspace.parent)]
    commands = [command.format(out=secret) for command in sample(COMMANDS, len(ACCESSES), ACCESSES.index(access))]
    shown = run_each(partial(run, access=access), commands)
    assert len(shown) == len(commands)
    assert [describe(each) for each in (secret, workspace.parent)] == before, shown  # ctime tells of each change


@pytest.mark.parametrize(
    "access", ["write", *(pytest.param(each, marks=only_thorough) for each in ACCESSES if each != "write")]
)
def test_no_system_call_changes_a_file_outside(run, workspace, access):
    secret = workspace.parent / "secret"
    (workspace / "try.py").write_text(TRY_EACH)
    before = describe(secret)
    shown = run(f"python3 try.py '{json.dumps(NUMBERS)}' {secret}", access=access)
    assert "done" not in shown
    assert describe(secret) == before


def test_each_system_call_changes_a_file_of_the_workspace(run, workspace):
    (workspace / "try.py").write_text(TRY_EACH)
    target = workspace / "file"
    target.touch()
    target.chmod(0o600)
    shown = run(f"python3 try.py '{json.dumps(NUMBERS)}' file")
    assert [line for line in shown.splitlines() if " done" not in line] == ["[exit code 0]"], shown
    assert (target.stat().st_mode & 0o7777, target.stat().st_mtime) == (0o640, 5)


def test_programs_change_modes_and_times_of_their_own_files(run, workspace):
    shown = run(
        "umask 022; touch -d 2001-01-01T00:00:00Z a && chmod 750 a && cp -a a b && ln -s ../secret link && "
        "touch -h -d 2001-01-01T00:00:00Z link && mkdir d && chmod u-w d && stat -c '%a %Y' a b d/. link"
    )
    lines = shown.splitlines()
    assert lines[:2] == ["750 978307200"] * 2
    assert (lines[3], lines[4]) == ("777 978307200", "[exit code 0]")
    assert lines[2].split()[0] == "555"


def test_a_command_that_only_reads_changes_modes_below_tmp_only(run, workspace):
    (workspace / "a").touch()
    (workspace / "a").chmod(0o600)
    shown = run("touch $TMPDIR/t && chmod 700 $TMPDIR/t && stat -c %a $TMPDIR/t; chmod 777 a", access="read")
    assert shown.splitlines()[0] == "700"
    assert (workspace / "a").stat().st_mode & 0o777 == 0o600


@only_thorough
def test_a_path_that_is_exchanged_meanwhile_leads_nowhere_else(run, workspace):
    """The command swaps two links to its own file and to one outside, while threads change the mode behind them."""
    secret = workspace.parent / "secret"
    secret.chmod(0o600)
    (workspace / "race.py").write_text(
        textwrap.dedent("""
        import os, sys, threading
        open("mine", "w").close()
        buffer = bytearray(b"./mine\\0" + bytes(20))
        import ctypes
        raw = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        chmod = ctypes.CDLL(None).chmod
        ended = []
        def exchange():
            while not ended:
                buffer[:10] = b"../secret\\0"
                buffer[:7] = b"./mine\\0"
        threading.Thread(target=exchange).start()
        done = [chmod(raw, 0o777) for _ in range(100)]
        ended.append(1)
        print(done.count(0) > 0)
        """)
    )
    assert run("python3 race.py", timeout=100).splitlines()[0] == "True"
    assert secret.stat().st_mode & 0o777 == 0o600


def test_the_calls_are_those_of_this_machine():
    """By libc's own functions: the kernel's numbers in the table are those that programs use."""
    if not IS_X86:
        pytest.skip("the numbers are read from x86_64's header")
    header = subprocess.run(
        ["bash", "-c", "cat /usr/include/*/asm/unistd_64.h /usr/include/asm/unistd_64.h 2>/dev/null"],
        capture_output=True,
        text=True,
    ).stdout
    known = dict(line.split()[1:3] for line in header.splitlines() if line.startswith("#define __NR_"))
    if not known:
        pytest.skip("there is no header of the kernel")
    wrong = {
        name: known.get(f"__NR_{name}") for name, number in NUMBERS.items() if known.get(f"__NR_{name}") != str(number)
    }
    assert {name for name in wrong if wrong[name] is not None} == set()


def test_a_change_is_refused_if_the_caller_has_ended():
    with pytest.raises(OSError):
        attributes.open_file(2**22 + 1, attributes.CALLS[0], [0] * 6)


def test_a_path_without_an_end_is_refused(tmp_path):
    (tmp_path / "memory").write_bytes(b"a" * 5000)
    fd = os.open(tmp_path / "memory", os.O_RDONLY)
    with pytest.raises(OSError, match="without an end"):
        attributes._read_path(fd, 0)
    os.close(fd)


BAD_CALLS = """
import ctypes, errno, json, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
numbers, here = json.loads(sys.argv[1]), ctypes.c_int(-100)
open("file", "w").close()
times = (ctypes.c_long * 4)(5, 2000000000, 5, 0)
for name, words in (
    ("fchmodat", (here, ctypes.c_void_p(8), ctypes.c_uint(0o600))),
    ("fchmodat", (here, b"", ctypes.c_uint(0o600))),
    ("fchmodat", (here, b"gone", ctypes.c_uint(0o600))),
    ("utimensat", (here, b"file", ctypes.c_void_p(8), ctypes.c_int(0))),
    ("utimensat", (here, b"file", times, ctypes.c_int(0))),
    ("fchmodat", (here, b"/proc/self/cwd/file", ctypes.c_uint(0o640))),
    ("fchmodat", (here, b"/proc/self/fd/%d" % os.open("file", os.O_RDONLY), ctypes.c_uint(0o640))),
    ("fchmodat", (here, b"/proc/self/cwd/", ctypes.c_uint(0o750))),
    ("fchmodat", (here, b"/proc/self/fd/%d/" % os.open("file", os.O_RDONLY), ctypes.c_uint(0o640))),
    ("fchmodat", (here, ctypes.c_void_p(-1), ctypes.c_uint(0o600))),
    ("utimensat", (here, None, None, ctypes.c_int(0))),
    ("utimensat", (os.open("file", os.O_RDONLY), None, None, ctypes.c_int(0))),
    *((name, (None, None)) for name in ("utime", "utimes") if name in numbers),
):
    print(errno.errorcode[ctypes.get_errno()] if call(ctypes.c_long(numbers[name]), *words) else "done")
"""


def test_a_call_with_impossible_values_fails_as_without_a_sandbox(run, workspace):
    (workspace / "bad.py").write_text(BAD_CALLS)
    command = f"python3 bad.py '{json.dumps(NUMBERS)}'"
    unconfined = subprocess.run(command, shell=True, cwd=workspace, capture_output=True, text=True, check=True).stdout
    assert unconfined.splitlines()[:6] == ["EFAULT", "ENOENT", "ENOENT", "EFAULT", "EINVAL", "done"]
    assert run(command) == f"{unconfined}[exit code 0]"


DESCRIPTOR_PATHS = """
import ctypes, os, sys
number = int(sys.argv[1])
os.dup2(os.open("mine", os.O_RDONLY), number)
os.symlink("/proc/self/fd", "link")
chmod = ctypes.CDLL(None).chmod
for path in ("/dev/fd/%d", "//proc/self/fd/%d", "/proc/./self/fd/%d", "/proc/self/../self/fd/%d", "link/%d"):
    chmod(os.fsencode(path % number), 0o640)
os.chdir("/proc")
chmod(b"self/fd/%d" % number, 0o640)
os.chdir("/proc/self")
chmod(b"fd/%d" % number, 0o640)
"""


def test_no_path_of_a_command_means_a_file_that_this_program_has_open(run, workspace):
    """Where the command may change that file, too: it named another one."""
    (workspace / "mine").touch()
    (workspace / "try.py").write_text(DESCRIPTOR_PATHS)
    ours = workspace / "ours"
    ours.touch()
    ours.chmod(0o600)
    with ours.open() as file:
        before = describe(ours)
        assert run(f"python3 try.py {file.fileno()}") == "[exit code 0]"
    assert describe(ours) == before


@pytest.mark.parametrize("kind", ["landlock"])  # bubblewrap leaves these calls to the kernel
def test_a_link_to_a_descriptor_is_refused_with_eacces(run, workspace):
    (workspace / "a").touch()
    shown = run("exec 9<a; python3 -c 'import os; os.chmod(\"/dev/fd/9\", 0o640)'")
    assert shown.splitlines()[-2:] == ["PermissionError: [Errno 13] Permission denied: '/dev/fd/9'", "[exit code 1]"]


def test_a_broker_whose_command_never_started_ends(tmp_path):
    attributes.AttributeBroker([tmp_path], 0).close()


@pytest.mark.parametrize("bad_call", ["os.chown('a', 3000000000, -1)", "libc.chmod(ctypes.c_void_p(-1), 0o600)"])
def test_the_calls_after_a_bad_one_are_carried_out(run, workspace, capfd, bad_call):
    (workspace / "a").touch()
    (workspace / "bad.py").write_text(
        f"""
import ctypes, os
libc = ctypes.CDLL(None)
try:
    {bad_call}
except OSError:
    pass
os.chmod("a", 0o750)
"""
    )
    assert run("python3 bad.py") == "[exit code 0]"
    assert (workspace / "a").stat().st_mode & 0o777 == 0o750
    assert capfd.readouterr().err == ""


def test_an_unexpected_error_ends_one_call_only(run, workspace, monkeypatch, capfd):
    (workspace / "a").touch()
    monkeypatch.setattr(attributes, "_change", Mock(side_effect=[RuntimeError("a defect"), None]))
    shown = run("chmod 700 a; chmod 750 a")
    assert "Function not implemented" not in shown
    assert shown.endswith("[exit code 0]")
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_an_owner_may_have_any_number_and_one_that_is_not_named_stays(tmp_path):
    (tmp_path / "a").touch()
    try:
        os.chown(tmp_path / "a", 3_000_000_000, -1)
    except OSError:
        pytest.skip("this user namespace has no such owner")
    os.chown(tmp_path / "a", 0, -1)
    fd = os.open(tmp_path / "a", os.O_PATH)
    group = os.fstat(fd).st_gid
    attributes._change(fd, "owner", [3_000_000_000, 0xFFFFFFFF], None, [tmp_path])
    assert (os.fstat(fd).st_uid, os.fstat(fd).st_gid) == (3_000_000_000, group)
    os.close(fd)
