"""Where commands run: chosen at start, and believed only after a command was tried in it.

bubblewrap, else Landlock with seccomp, else nothing but limits, and that is said. What each protects from,
and what not, is in docs/security.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...types.sandbox import Sandbox
from . import seccomp
from .box import Bare, Bubblewrap, Contained, Landlocked, Refused
from .limits import ResourceLimits
from .view import View

WHOLE = ("/", "/dev")  # as a workspace they hold the kernel's own files, and everything else
LONGEST_PROBE = 5.0  # seconds
TRIED = 42  # the exit code of a probe that found what it should
# Nothing but the shell's own: what lies outside cannot be read; the workspace can be, and where to write is
PROBE = '(: <"$0") 2>/dev/null && exit 1; test -x . || exit 2; (: >"$TMPDIR/tried") && exit 42'

Working: TypeAlias = "Bubblewrap | Landlocked"


class Unfit(Exception):
    """Why a kind of sandbox cannot be used here, in words."""


class SandboxChoice(NamedTuple):
    """`tried` says why each better one does not work."""

    sandbox: Sandbox
    tried: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """What the user must know before commands run; empty where they are contained, or that is not wanted."""
        if not self.tried or self.sandbox.kind not in ("none", "refused"):
            return ""
        return f"Sandbox: {self.sandbox.description} ({'; '.join(self.tried)})"


def choose(
    wanted: str,
    seen: View,
    limits: ResourceLimits,
    environment: Mapping[str, str],
    kinds: tuple[str, ...] = ("bubblewrap", "landlock"),
) -> SandboxChoice:
    """The first of `kinds` that works here. `wanted`: auto, required, off."""
    if wanted == "off":
        return SandboxChoice(Bare(limits, "none (security.sandbox is off): commands can do what you can do"))
    tried: list[str] = []
    if str(seen.workspace) in WHOLE or seen.workspace.parts[:2] in (("/", "proc"), ("/", "sys")):
        kinds, tried = (), [f"no sandbox contains commands that may change all of {seen.workspace}"]
    for kind in kinds:
        try:
            made = MAKERS[kind](seen, limits, environment)
            _try(made, seen, environment)
        except Unfit as why:
            tried.append(f"{kind}: {why}")
        else:
            return SandboxChoice(made, tuple(tried))
    if wanted == "required":
        return SandboxChoice(Refused("none works here: commands are not run"), tuple(tried))
    return SandboxChoice(Bare(limits, "none works here: commands can do what you can do"), tuple(tried))


def _bubblewrap(seen: View, limits: ResourceLimits, environment: Mapping[str, str]) -> Bubblewrap:
    program = shutil.which("bwrap", path=environment.get("PATH") or os.defpath)
    if program is None or os.path.realpath(program).startswith(f"{seen.workspace}{os.sep}"):
        raise Unfit("not installed")
    families = (seccomp.INET, seccomp.INET6, seccomp.NETLINK, *(() if seen.network else (seccomp.UNIX,)))
    filter_program = _filter(families)
    return Bubblewrap(program, Contained(seen, limits, environment.get("USER", "")), filter_program)


def _landlock(seen: View, limits: ResourceLimits, environment: Mapping[str, str]) -> Landlocked:
    if platform.system() != "Linux":
        raise Unfit("only Linux has it")
    from .landlock import landlock_abi

    abi = landlock_abi()
    if not abi:
        raise Unfit("not in this kernel, or switched off")
    families = (seccomp.INET, seccomp.INET6, seccomp.NETLINK) if seen.network else ()
    filter_program = _filter(families, may_truncate=abi >= 3)
    return Landlocked(abi, Contained(seen, limits, environment.get("USER", "")), filter_program)


MAKERS: Mapping[str, Callable[[View, ResourceLimits, Mapping[str, str]], Working]] = {
    "bubblewrap": _bubblewrap,
    "landlock": _landlock,
}


def _filter(families: tuple[int, ...], *, may_truncate: bool = True) -> bytes:
    machine = platform.machine()
    if machine not in seccomp.MACHINES:
        raise Unfit(f"no filter is known for {machine}")
    return seccomp.program(machine, families, may_truncate=may_truncate)


def _try(sandbox: Working, seen: View, environment: Mapping[str, str]) -> None:
    """Raises Unfit where a command does not run in it, or runs but sees what it must not."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="vllm-bot-") as outside:
        place = Path(os.path.realpath(outside.name))
        is_seen = any(place.is_relative_to(each) for each in (seen.workspace, *seen.readable))
        argv = ["/bin/sh", "-c", PROBE, "nowhere/at/all" if is_seen else str(place)]
        try:
            launch = sandbox.launch(argv, seen.workspace, {"PATH": environment.get("PATH", os.defpath)}, trial=True)
            try:
                done = subprocess.run(  # noqa: S603 - our own words
                    launch.argv,
                    cwd=seen.workspace,
                    env=launch.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=LONGEST_PROBE,
                    preexec_fn=launch.before_exec,
                    pass_fds=launch.inherited_fds,
                    start_new_session=True,
                    check=False,
                )
            finally:
                launch.settle()
                launch.tidy_up()
        except (OSError, subprocess.SubprocessError) as error:
            raise Unfit(str(error)) from error
    if done.returncode != TRIED:
        words = done.stderr.decode("utf-8", "replace").split("\n")[0].strip()
        raise Unfit(words or f"a trial command ended with {done.returncode}")
