"""Chooses where commands run: bubblewrap, else Landlock with seccomp, else no sandbox but the limits.

A sandbox counts only after a trial command ran in it. What each protects from, and what not, is in docs/security.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ...types.sandbox import ACCESSES, Access
from . import seccomp
from .attributes import list_numbers
from .base import NoSandbox, SandboxBase
from .bubblewrap import BubblewrapSandbox
from .deferred import SandboxChoice
from .limits import ResourceLimits
from .loopback import Loopback, find_loopback
from .running_files import find_top
from .view import SandboxView

TOO_WIDE = ("/", "/dev")  # as a workspace: they contain the kernel's own files, and everything else
UNCONTAINED = "commands can do what you can do"
INTERNET = (seccomp.INET, seccomp.INET6, seccomp.NETLINK)  # the families of its sockets
PROBE_SUCCESS = 42  # exit code
# Only builtins of the shell: what is outside cannot be read; the workspace can be entered, and TMPDIR written to
PROBE = '(: <"$0") 2>/dev/null && exit 1; test -x . || exit 2; (: >"$TMPDIR/tried") && exit 42'


class SandboxUnusable(Exception):
    """Why a kind of sandbox cannot be used here."""


def choose(
    mode: str,
    view: SandboxView,
    limits: ResourceLimits,
    environment: Mapping[str, str],
    kinds: tuple[str, ...] = ("bubblewrap", "landlock"),
) -> SandboxChoice:
    """The first of `kinds` that works here. `mode` is the setting: auto, required or off."""
    if mode == "off":
        return SandboxChoice(NoSandbox(limits, f"none (security.sandbox is off): {UNCONTAINED}", "off"))
    tried: list[str] = []
    if str(view.workspace) in TOO_WIDE or view.workspace.parts[:2] in (("/", "proc"), ("/", "sys")):
        kinds, tried = (), [f"no sandbox contains commands that may change all of {view.workspace}"]
    for kind in kinds:
        try:
            sandbox = make_sandbox(kind, view, limits, environment)
            _try(sandbox, environment)
        except SandboxUnusable as why:
            tried.append(f"{kind}: {why}")
        else:
            return SandboxChoice(sandbox, tuple(tried), view.warning)
    if mode == "required":
        return SandboxChoice(NoSandbox(limits, "none works here: commands are not run", "refused"), tuple(tried))
    return SandboxChoice(NoSandbox(limits, f"none works here: {UNCONTAINED}", "none"), tuple(tried))


def make_sandbox(kind: str, view: SandboxView, limits: ResourceLimits, environment: Mapping[str, str]) -> SandboxBase:
    """One of that kind, not tried. Raises SandboxUnusable if it cannot be used here."""
    if kind == "landlock":
        return make_landlock(view, limits)
    program = shutil.which("bwrap", path=environment.get("PATH") or os.defpath)
    if program is None or find_top(Path(os.path.realpath(program)), view.tops):
        raise SandboxUnusable("not installed")
    filters = _build_filters(view, (*INTERNET, seccomp.UNIX))
    return BubblewrapSandbox(program, environment.get("USER", ""), view, limits, filters)


def make_landlock(
    view: SandboxView, limits: ResourceLimits, find_network: Callable[[], Loopback | None] = find_loopback
) -> SandboxBase:
    """One by Landlock, not tried. Raises SandboxUnusable if it cannot be used here."""
    if platform.system() != "Linux":
        raise SandboxUnusable("only Linux has it")
    from .landlock import LandlockSandbox, get_landlock_abi  # it loads the C library

    abi = get_landlock_abi()
    if not abi:
        raise SandboxUnusable("not in this kernel, or switched off")
    # A filter cannot tell an own network from that of the machine, so without one there are no sockets.
    loopback = None if view.network else find_network()
    filters = _build_filters(view, INTERNET if loopback else (), may_truncate=abi >= 3, is_landlock=True)
    return LandlockSandbox(abi, seccomp.MACHINES[platform.machine()].column, view, limits, filters, loopback)


def _build_filters(
    view: SandboxView, families: tuple[int, ...], *, may_truncate: bool = True, is_landlock: bool = False
) -> dict[Access, bytes]:
    """`families`: of the sockets of commands without the network."""
    machine = platform.machine()
    if machine not in seccomp.MACHINES:
        raise SandboxUnusable(f"no filter is known for {machine}")
    reported = list_numbers(seccomp.MACHINES[machine].column) if is_landlock else ()
    return {
        access: seccomp.build_filter(
            machine,
            INTERNET if view.has_network(access) else families,
            may_truncate=may_truncate,
            reported=reported,
            sees_others=is_landlock,
        )
        for access in ACCESSES
    }


def _try(sandbox: SandboxBase, environment: Mapping[str, str]) -> None:
    """Raises SandboxUnusable if a command does not run in the sandbox, or can read what it must not."""
    view = sandbox.view
    with tempfile.NamedTemporaryFile(prefix="vllm-bot-") as outside:
        path = Path(os.path.realpath(outside.name))
        is_visible = any(path.is_relative_to(each) for each in (*view.tops, *view.readable))
        try:
            done = sandbox.run_trial(
                [PROBE, "nowhere/at/all" if is_visible else str(path)], {"PATH": environment.get("PATH", os.defpath)}
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxUnusable(str(error)) from error
    if done.returncode != PROBE_SUCCESS:
        words = done.stderr.decode("utf-8", "replace").split("\n")[0].strip()
        raise SandboxUnusable(words or f"a trial command ended with {done.returncode}")
