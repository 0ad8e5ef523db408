"""Which system calls the filter refuses, by a small interpreter of its instructions."""

from __future__ import annotations

import errno
import struct

import pytest

from src.security.sandbox.seccomp import ALLOW, FAIL, INET, MACHINES, ON_ITSELF, REFUSED, SHARED, UNIX, build_filter
from tests.each import check_rows


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
    ("set-user-ID, with flags", (452, 0, 0, 0o4755), EPERM),
    ("an older way to a new file with set-user-ID", (2, 0, 0o101, 0o4755), EPERM),
    ("the oldest way", (85, 0, 0o4755), EPERM),
    ("a new node with set-user-ID", (133, 0, 0o4755), EPERM),
    ("the same, in a folder", (259, 0, 0, 0o4755), EPERM),
    ("an unnamed file with set-user-ID", (257, 0, 0, 0o20200001, 0o4755), EPERM),
    ("a file that is opened", (257, 0, 0, 0, 0o4755), ALLOW),
    ("openat2", (437,), ENOSYS),
]


@check_rows("call, expected", [row[1:] for row in CASES])
def test_a_call_is_let_through_or_not(call, expected):
    assert verdict(build_filter("x86_64", [UNIX]), "x86_64", *call) == expected


# Numbers on x86_64 and aarch64, as the kernel's asm/unistd_64.h and asm-generic/unistd.h have them; -: there is none.
NUMBERS = """
    acct 163 89; add_key 248 217; bpf 321 280; chroot 161 51; clock_settime 227 112; delete_module 176 106;
    fanotify_init 300 262; file_setattr 469 469; finit_module 313 273; fremovexattr 199 16; fsconfig 431 431;
    fsetxattr 190 7; fsmount 432 432; fsopen 430 430; fspick 433 433; init_module 175 105; io_uring_enter 426 426;
    io_uring_register 427 427; io_uring_setup 425 425; ioperm 173 -; iopl 172 -; kcmp 312 272;
    kexec_file_load 320 294; kexec_load 246 104; keyctl 250 219; lremovexattr 198 15; lsetxattr 189 6; mount 165 40;
    mount_setattr 442 442; move_mount 429 429; open_by_handle_at 304 265; open_tree 428 428; open_tree_attr 467 467;
    perf_event_open 298 241; pidfd_getfd 438 438; pivot_root 155 41; process_vm_readv 310 270;
    process_vm_writev 311 271; ptrace 101 117; quotactl 179 60; quotactl_fd 443 443; reboot 169 142;
    removexattr 197 14; removexattrat 466 466; request_key 249 218; setdomainname 171 162; sethostname 170 161;
    setns 308 268; settimeofday 164 170; setxattr 188 5; setxattrat 463 463; swapoff 168 225; swapon 167 224;
    syslog 103 116; umount2 166 39; unshare 272 97; userfaultfd 323 282; vhangup 153 58
"""
SHARED_NUMBERS = """
    mq_open 240 180; mq_unlink 241 181; msgctl 71 187; msgget 68 186; msgrcv 70 188; msgsnd 69 189; semctl 66 191;
    semget 64 190; semop 65 193; semtimedop 220 192; shmat 30 196; shmctl 31 195; shmget 29 194
"""
NUMBERS_ON_ITSELF = """
    ioprio_set 251 30; prlimit64 302 261; sched_setaffinity 203 122; sched_setattr 314 274; sched_setparam 142 118;
    sched_setscheduler 144 119; setpriority 141 140
"""


def list_numbers(table: str, machine: str) -> dict[str, int | None]:
    column = list(MACHINES).index(machine) + 1
    rows = [row.split() for row in table.split(";")]
    return {row[0]: None if row[column] == "-" else int(row[column]) for row in rows}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_refused_is_refused_by_the_kernels_numbers(machine):
    numbers, code = list_numbers(NUMBERS, machine), build_filter(machine, ())
    assert numbers.keys() == REFUSED.keys()
    for name, number in numbers.items():
        expected = FAIL | errno.EOPNOTSUPP if "xattr" in name else EPERM
        assert number is None or verdict(code, machine, number) == expected, name


ON_AARCH64 = [  # with sockets of the family UNIX, where the command sees the processes of the machine
    ("clone into a new user namespace", (220, 0x10000011), EPERM),
    ("clone3", (435,), ENOSYS),
    ("openat2", (437,), ENOSYS),
    ("an IPv4 socket", (198, INET), EPERM),
    ("a pair for datagrams", (199, UNIX, 2, 0), EPERM),
    ("typing into the terminal", (29, 0, 0x5412), EPERM),
    ("set-user-ID of an open file", (52, 3, 0o4755), EPERM),
    ("set-group-ID", (53, 0, 0, 0o2755), EPERM),
    ("set-group-ID, with flags", (452, 0, 0, 0o2755), EPERM),
    ("a new node with set-user-ID", (33, 0, 0, 0o4755), EPERM),
    ("a new file with set-group-ID", (56, 0, 0, 0o101, 0o2755), EPERM),
    ("truncate", (45,), EPERM),
    ("read", (63,), ALLOW),
]


@check_rows("call, expected", [row[1:] for row in ON_AARCH64])
def test_calls_of_aarch64_have_its_numbers(call, expected):
    code = build_filter("aarch64", [UNIX], may_truncate=False, sees_others=True)
    assert verdict(code, "aarch64", *call) == expected


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
def test_what_the_machine_shares_is_refused_where_others_are_seen(machine):
    shared, on_itself = list_numbers(SHARED_NUMBERS, machine), list_numbers(NUMBERS_ON_ITSELF, machine)
    assert (shared.keys(), on_itself.keys()) == (SHARED.keys(), ON_ITSELF.keys())
    alone, beside_others = build_filter(machine, ()), build_filter(machine, (), sees_others=True)
    for name, number in (shared | on_itself).items():
        assert number is not None
        assert verdict(beside_others, machine, number, 4711, 4711) == EPERM, name
        assert verdict(alone, machine, number, 4711, 4711) == ALLOW, name


def test_calls_of_another_machine_are_refused():
    assert verdict(build_filter("x86_64", ()), "aarch64", 0) == EPERM


def test_truncate_is_refused_if_landlock_does_not_check_it():
    assert verdict(build_filter("x86_64", (), may_truncate=False), "x86_64", 76) == EPERM
