"""A seccomp filter as bytes: the system calls that are refused to commands in a sandbox. Pure.

It lists what is refused, not what is allowed, since commands are arbitrary programs. Each call listed reaches around
the view of the files, into other processes, or into the kernel. They fail with EPERM, those on extended attributes with
EOPNOTSUPP; clone3 and openat2 fail with ENOSYS, since a filter cannot see their flags and programs then use older
calls. No file becomes one that runs with the rights of its owner or group (set-user-ID, set-group-ID): others could run
it. A filter does not see whether a mode is that of a folder, where set-group-ID is harmless.
Sources of the numbers: the kernel's asm/unistd_64.h (x86_64) and asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

NO_CALL = -1  # in the table: the machine has no such call


class Machine(NamedTuple):
    """Its AUDIT_ARCH, and its column in the tables."""

    arch: int
    column: int


MACHINES = {"x86_64": Machine(0xC000003E, 0), "aarch64": Machine(0xC00000B7, 1)}
REFUSED = {  # call: its numbers by column
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "perf_event_open": (298, 241),
    # another view of the files
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "open_by_handle_at": (304, 265),
    "unshare": (272, 97), "setns": (308, 268), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262),
    # not covered by Landlock; programs go on without it
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # around a filter, or into the kernel
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "syslog": (103, 116),
    # the machine itself
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "iopl": (172, NO_CALL),
    "ioperm": (173, NO_CALL), "acct": (163, 89), "vhangup": (153, 58), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "sethostname": (170, 161), "setdomainname": (171, 162),
}  # fmt: skip
SHARED = {  # where commands share them with the processes of the machine: System V's objects and POSIX queues
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "semtimedop": (220, 192), "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
ON_ITSELF = {  # what a process may set for itself alone: by column, and what its first arguments then are
    "prlimit64": ((302, 261), (0,)), "sched_setscheduler": ((144, 119), (0,)), "sched_setparam": ((142, 118), (0,)),
    "sched_setattr": ((314, 274), (0,)), "sched_setaffinity": ((203, 122), (0,)),
    "setpriority": ((141, 140), (0, 0)),  # PRIO_PROCESS
    "ioprio_set": ((251, 30), (1, 0)),  # IOPRIO_WHO_PROCESS
}  # fmt: skip
SETUID, SETGID = 0o4000, 0o2000  # of a mode
CREATE = 0o20000100  # O_CREAT, and the bit of O_TMPFILE
CHMOD, FCHMOD, FCHMODAT, FCHMODAT2 = (90, NO_CALL), (91, 52), (268, 53), (452, 452)
SETTING_MODES = (  # numbers by column, the argument that is a mode, the argument with O_CREAT
    (CHMOD, 1, 0), (FCHMOD, 1, 0), (FCHMODAT, 2, 0), (FCHMODAT2, 2, 0),
    ((85, NO_CALL), 1, 0), ((133, NO_CALL), 1, 0), ((259, 33), 2, 0),  # creat, mknod, mknodat
    ((2, NO_CALL), 2, 1), ((257, 56), 3, 2),  # open, openat
)  # fmt: skip
ATTRIBUTES = ("xattr", "xattrat")  # refused as a file system without them does: `cp -p` goes on after that
TRUNCATE = (76, 45)
SOCKET, SOCKETPAIR, IOCTL, CLONE = (41, 198), (53, 199), (16, 29), (56, 220)
TYPE_BITS, STREAM, SEQPACKET = 0xF, 1, 5  # of a socket's type, without its flags
UNSEEN = ((435, 435), (437, 437))  # clone3, openat2: their arguments are in memory, which a filter cannot see
X32 = 0x40000000  # calls of the x32 ABI have numbers of their own on x86_64
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
REFUSED_IOCTLS = (
    0x5412, 0x541C,  # TIOCSTI, TIOCLINUX: type into the terminal
    0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602,  # change flags of a file that can only be read
)  # fmt: skip
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16  # socket families

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF_LD|W|ABS, BPF_JMP|..., BPF_RET
KEEP_BITS = 0x54  # BPF_ALU|AND
NUMBER, ARCH = 0, 4  # offsets in struct seccomp_data
ALLOW, FAIL, REPORT = 0x7FFF0000, 0x00050000, 0x7FC00000

Step = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def build_filter(
    machine: str,
    families: Sequence[int],
    *,
    may_truncate: bool = True,
    reported: Sequence[int] = (),
    sees_others: bool = False,
) -> bytes:
    """The filter, as an array of struct sock_filter. `families`: the socket families that are allowed.

    `may_truncate`: whether truncate(2), which Landlock before ABI 3 does not cover, is allowed; `reported`: the numbers
    of the calls that a listener carries out; `sees_others`: the command is in the namespaces of the machine's processes
    and System V objects. Raises KeyError for a machine that is not in MACHINES.
    """
    arch, column = MACHINES[machine]
    fails: Step = (RETURN, 0, 0, FAIL | errno.EPERM)
    steps: list[Step] = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, arch), fails, (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        steps += _fail_if(AT_LEAST, X32, errno.EPERM)
    steps += _refuse_calls(column, may_truncate=may_truncate, sees_others=sees_others)
    for call in reported:
        steps += [(EQUAL, 0, 1, call), (RETURN, 0, 0, REPORT)]
    for numbers in UNSEEN:
        steps += _fail_if(EQUAL, numbers[column], errno.ENOSYS)
    steps += _refuse_modes(column)
    steps += _filter_call(
        CLONE[column], [(LOAD, 0, 0, _find_argument(0)), *_fail_if(ANY_BIT, NEW_NAMESPACES, errno.EPERM)]
    )
    ioctls = [step for request in REFUSED_IOCTLS for step in _fail_if(EQUAL, request, errno.EPERM)]
    steps += _filter_call(IOCTL[column], [(LOAD, 0, 0, _find_argument(1)), *ioctls])
    if sees_others:
        steps += _refuse_calls_on_others(column, fails)
    allowed: list[Step] = []
    for family in families:
        allowed += [(EQUAL, 0, 1, family), (RETURN, 0, 0, ALLOW)]
    steps += _filter_call(SOCKET[column], [(LOAD, 0, 0, _find_argument(0)), *allowed, fails])
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _refuse_calls(column: int, *, may_truncate: bool, sees_others: bool) -> Iterator[Step]:
    refused = dict(REFUSED)
    if not may_truncate:
        refused["truncate"] = TRUNCATE
    if sees_others:
        refused |= SHARED
    for name, numbers in refused.items():
        if numbers[column] != NO_CALL:
            error = errno.EPERM
            if name.endswith(ATTRIBUTES):
                error = errno.EOPNOTSUPP
            yield from _fail_if(EQUAL, numbers[column], error)


def _find_argument(index: int) -> int:
    """Where the lower half of an argument is in struct seccomp_data, on a little-endian machine."""
    return 16 + 8 * index


def _refuse_calls_on_others(column: int, fails: Step) -> list[Step]:
    """Limits and priorities are set for the process itself alone, and no pair of sockets reaches others."""
    steps: list[Step] = []
    for numbers, own in ON_ITSELF.values():
        checks: list[Step] = []
        for at, value in enumerate(own):
            checks += [(LOAD, 0, 0, _find_argument(at)), (EQUAL, 1, 0, value), fails]
        steps += _filter_call(numbers[column], checks)
    # A pair for datagrams (SOCK_RAW is one, too) sends to any socket of the machine that has a path.
    stream_pairs = [
        (LOAD, 0, 0, _find_argument(1)),
        (KEEP_BITS, 0, 0, TYPE_BITS),
        (EQUAL, 2, 0, STREAM),
        (EQUAL, 1, 0, SEQPACKET),
        fails,
    ]
    return steps + _filter_call(SOCKETPAIR[column], stream_pairs)


def _refuse_modes(column: int) -> list[Step]:
    """No file gets set-user-ID or set-group-ID."""
    steps: list[Step] = []
    for numbers, mode, flags in SETTING_MODES:
        if numbers[column] != NO_CALL:
            checks = [(LOAD, 0, 0, _find_argument(mode)), *_fail_if(ANY_BIT, SETUID | SETGID, errno.EPERM)]
            if flags:
                checks = [(LOAD, 0, 0, _find_argument(flags)), (ANY_BIT, 0, len(checks), CREATE), *checks]
            steps += _filter_call(numbers[column], checks)
    return steps


def _fail_if(test: int, value: int, error: int) -> Iterator[Step]:
    yield (test, 0, 1, value)
    yield (RETURN, 0, 0, FAIL | error)


def _filter_call(number: int, steps: Sequence[Step]) -> list[Step]:
    """The steps for one call. What they let through is allowed, since they have overwritten the call's number."""
    return [(EQUAL, 0, len(steps) + 1, number), *steps, (RETURN, 0, 0, ALLOW)]
