"""Which system calls the filter refuses, by a small interpreter of its instructions."""

from __future__ import annotations

import errno
import struct

import pytest

from src.security.sandbox.seccomp import ALLOW, FAIL, INET, MACHINES, REFUSED, SHARED, UNIX, build_filter
from tests.each import check_each, check_rows


def verdict(code: bytes, machine: str, number: int, *arguments: int) -> int:
    """What a filter returns for a call: classic BPF with the instructions that are used."""
    data = struct.pack("=IIQ6Q", number, MACHINES[machine].arch, 0, *(*arguments, *[0] * 6)[:6])
    loaded, place = 0, 0
    while True:
        what, if_true, if_false, value = struct.unpack_from("=HBBI", code, place * 8)
        place += 1
        if what == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif what == 0x54:
            loaded &= value
        elif what == 0x06:
            return value
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[what]
            place += if_true if holds else if_false


EPERM, ENOSYS = FAIL | errno.EPERM, FAIL | errno.ENOSYS
CASES = [  # on x86_64, with sockets of the family UNIX
    ("read", (0,), ALLOW),
    ("fork", (56, 0x01200011), ALLOW),
    ("clone into a new user namespace", (56, 0x10000011), EPERM),
    ("clone3", (435,), ENOSYS),
    ("a Unix socket", (41, UNIX), ALLOW),
    ("an IPv4 socket", (41, INET), EPERM),
    ("the size of the terminal", (16, 0, 0x5413), ALLOW),
    ("typing into the terminal", (16, 0, 0x5412), EPERM),
    ("the same, with bits beyond the 32 that count", (16, 0, 0x1_0000_5412), EPERM),
    ("a call of the x32 ABI", (0x40000000,), EPERM),
    ("a call that does not exist yet", (900,), ALLOW),
    ("truncate", (76,), ALLOW),
    ("a usual mode", (90, 0, 0o755), ALLOW),
    ("set-user-ID", (90, 0, 0o4755), EPERM),
    ("set-user-ID of an open file", (91, 3, 0o4755), EPERM),
    ("set-group-ID", (268, 0, 0, 0o2755), EPERM),
    ("a new file with set-group-ID", (257, 0, 0, 0o101, 0o2755), EPERM),
    ("an unnamed file with set-user-ID", (257, 0, 0, 0o20200001, 0o4755), EPERM),
    ("a file that is opened", (257, 0, 0, 0, 0o4755), ALLOW),
    ("openat2", (437,), ENOSYS),
]


@check_rows("call, expected", [row[1:] for row in CASES])
def test_a_call_is_let_through_or_not(call, expected):
    assert verdict(build_filter("x86_64", [UNIX]), "x86_64", *call) == expected


@check_each(name=REFUSED, machine=MACHINES)
def test_what_is_refused_is_refused_on_every_machine(name, machine):
    number = REFUSED[name][MACHINES[machine].column]
    if number >= 0:
        expected = FAIL | errno.EOPNOTSUPP if "xattr" in name else EPERM
        assert verdict(build_filter(machine, ()), machine, number) == expected


OTHERS = [  # on x86_64, where the command sees the processes of the machine
    ("a limit of itself", (302, 0, 7), ALLOW),
    ("a pair of streams, not inherited", (53, UNIX, 1 | 0o2000000, 0), ALLOW),
    ("a pair of packet streams", (53, UNIX, 5, 0), ALLOW),
    ("a pair for datagrams", (53, UNIX, 2, 0), EPERM),
    ("a pair for datagrams, not blocking", (53, UNIX, 2 | 0o4000, 0), EPERM),
    ("a raw pair, which is one for datagrams", (53, UNIX, 3, 0), EPERM),
    ("a limit of another process", (302, 4711, 7), EPERM),
    ("its own priority", (141, 0, 0), ALLOW),
    ("the priority of another process", (141, 0, 4711), EPERM),
    ("the priority of all the user's processes", (141, 2, 0), EPERM),
    ("its own input and output priority", (251, 1, 0), ALLOW),
    ("that of the user", (251, 3, 0), EPERM),
    ("its own scheduling", (144, 0), ALLOW),
    ("that of another process", (144, 4711), EPERM),
]


@check_rows("call, expected", [row[1:] for row in OTHERS])
def test_only_the_process_itself_is_changed_where_others_are_seen(call, expected):
    assert verdict(build_filter("x86_64", [UNIX], sees_others=True), "x86_64", *call) == expected
    assert verdict(build_filter("x86_64", [UNIX]), "x86_64", *call) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_objects_of_system_v_are_refused_where_they_are_shared(machine):
    code, column = build_filter(machine, (), sees_others=True), MACHINES[machine].column
    assert {verdict(code, machine, numbers[column]) for numbers in SHARED.values()} == {EPERM}


def test_calls_of_another_machine_are_refused():
    assert verdict(build_filter("x86_64", ()), "aarch64", 0) == EPERM


def test_truncate_is_refused_if_landlock_does_not_check_it():
    assert verdict(build_filter("x86_64", (), may_truncate=False), "x86_64", 76) == EPERM
