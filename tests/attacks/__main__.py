"""Runs every attack on a guard for real, as the exec tool does, and looks for harm.

The attacks are those of `../shared/facts`, or with `--variants` those of variants.py. Each runs in a fresh workspace
beside a home and a folder with secrets, at each access, in mode full with `--yes`; with `--background` it runs in the
background until its end. Harm is: anything outside the workspace
that came, went or changed, its modes, owners and times included; a changed file that is protected or runs by itself; a
secret in the result; a connection below access `network`; a process that is alive afterwards; under a rule that
denies `touch`, a file that it made; and what runs when the user then uses git in the workspace. It prints the harm, what
became of the attacks, and ends with exit code 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import resource  # noqa: F401 - before another user runs it, who may not reach the folder of Python
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from src.errors import ToolError
from src.security.permissions.policy import Policy
from src.security.permissions.rules import parse_rules
from src.security.sandbox.choose import choose
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.view import SandboxView, complete_view, select_environment
from src.security.shell.workspace import list_start_files
from src.tools import ToolContext
from src.tools.process.background import run_in_background
from src.tools.process.jobs import END_TIMEOUT_S
from src.tools.process.run import run
from src.types.messages import ToolCall
from src.types.sandbox import ACCESSES
from tests.attacks.variants import OUT, RAN, USE, VARIANTS
from tests.security.sandbox.test_attacks import FACTS, build_fixture

DESCRIPTION = (
    "Run every attack on a guard, as the exec tool does, and look for harm. The exit code is 1 if there is any."
)
KINDS = ("bubblewrap", "landlock")
TIMEOUT_S = 4.0
RULE_NAMES = ("tool", "command", "action", "path", "exact")
SECRETS = {
    "DATABASE_URL": "postgres://me:CANARY-DB@db/x",
    "GITHUB_PAT": "ghp_CANARYenv0000000000000",
    "SENTRY_DSN": "https://0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a@o1.ingest.sentry.io/CANARY-DSN",
    "MY_SERVER": "CANARY-ENV-KEY",
    "AWS_SECRET_ACCESS_KEY": "CANARY-AWS",
}
WATCHED = (
    ".git/config",
    ".git/hooks",
    ".bashrc",
    ".profile",
    ".envrc",
    ".vscode",
    ".gitconfig",
    ".ssh",
    ".kiro",
    ".theia",
    ".roo",
)


class Attack(NamedTuple):
    command: str
    rules: tuple[dict[str, Any], ...]
    setup: str


def list_attacks() -> Iterator[Attack]:
    for case in json.loads((FACTS / "exec_commands.json").read_text()):
        if case["tier"] == "must" and case["expected"] == "deny" and case.get("verify") != "never":
            yield Attack(case["command"], (), "")
    for case in json.loads((FACTS / "exec_commands_2.json").read_text()):
        if case["tier"] == "must-deny":
            yield Attack(case["command"], tuple(case["config"].get("rules", ())), case["setup"])


def list_variants(base: Path, port: int) -> Iterator[Attack]:
    names = {RAN: str(base / "home" / "ran"), OUT: str(base / "out"), "@PORT@": str(port)}
    for command in VARIANTS:
        for name, value in names.items():
            command = command.replace(name, value)
        yield Attack(command, (), "")


def use_git(base: Path, environment: dict[str, str]) -> None:
    """As the user would, outside of the sandbox, in every repository of the workspace."""
    known = {"HOME": str(base / "home"), "PATH": environment["PATH"], "GIT_PAGER": "cat", "GIT_EDITOR": "true"}
    known |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    known |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"}
    known |= {"GIT_CONFIG_VALUE_0": "*"}
    workspace = base / "ws"
    for folder in {workspace, *(path.parent for path in workspace.rglob(".git")), *workspace.glob("*.git")}:
        for words in USE:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    ["git", *words.split()], cwd=folder, env=known, capture_output=True, timeout=9, check=False
                )


def build(base: Path, attack: Attack) -> tuple[Path, dict[str, str]]:
    environment = build_fixture(base)
    workspace = base / "ws"
    (workspace / "cmds").write_text("touch pwned\n")
    (base / "out").write_text("mine\n")
    (base / "home" / ".aws").mkdir()
    (base / "home" / ".aws" / "credentials").write_text("CANARY-SECRET\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(workspace)]
    for words in (["init", "-q"], ["add", "a.txt", "src"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    subprocess.run(["bash", "-c", attack.setup], cwd=workspace, check=False, capture_output=True)
    (workspace / "pwned").unlink(missing_ok=True)
    return workspace, {**environment, **SECRETS, "TERM": "dumb"}


def record(base: Path) -> dict[str, tuple[object, ...]]:
    """All that no command may change, as it is now."""
    found: dict[str, tuple[object, ...]] = {}
    workspace = base / "ws"
    places = [base, *(each for each in base.rglob("*") if not each.is_relative_to(workspace))]
    for name in WATCHED:
        places += [workspace / name, *(workspace / name).rglob("*")]
    for path in places:
        if os.path.lexists(path):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            is_ours = path in (base, workspace) or path.is_relative_to(workspace)
            times = () if is_ours else (status.st_mtime_ns,)
            found[str(path.relative_to(base))] = (status.st_mode, status.st_uid, status.st_gid, *times, content)
    return found


def is_empty_folder(base: Path, name: str) -> bool:
    """Whether it is a folder of the workspace from which what would run was set aside."""
    path = base / name
    return path.is_relative_to(base / "ws") and path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def list_alive(base: Path) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                if (process / "cwd").readlink().is_relative_to(base):
                    found.append((process / "cmdline").read_text(errors="replace").replace("\0", " "))
            except OSError:
                continue
    return found


def run_command(command: str, context: ToolContext, access: Any, *, in_background: bool) -> str:
    """What the model is shown of it. Raises ToolError."""
    argv = ["/bin/bash", "-c", "--", command]
    if not in_background:
        return run(argv, context, access).text
    with context.for_run() as within:
        shown = run_in_background(argv, within, access, TIMEOUT_S).text
        for job in within.wiring.jobs:
            job.has_ended.wait(END_TIMEOUT_S)
            shown += job.describe_end() + job.read_output()
    return shown


def try_attack(
    find: Callable[[Path], Attack], kind: str, access: str, server: socket.socket, *, in_background: bool
) -> tuple[str, list[str]]:
    """What became of it (`ran` or why not), and the harm that it did."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(os.path.realpath(folder))
        attack = find(base)
        workspace, environment = build(base, attack)
        rules = parse_rules([{key: row[key] for key in RULE_NAMES if key in row} for row in attack.rules])
        view = complete_view(SandboxView(workspace), environment)
        sandbox = choose("required", view, ResourceLimits(), environment, (kind,)).sandbox
        if sandbox.kind != kind:
            return f"no {kind}", []
        protected = list_start_files(environment["HOME"])
        policy = Policy(workspace, mode="full", rules=rules, protected=protected, sandbox=sandbox)
        decision = policy.decide(ToolCall("1", "exec", {"command": attack.command, "access": access}), "high")
        if decision.action == "deny" or decision.needs_person:
            return f"denied by {'a rule' if decision.rule.startswith('{') else decision.rule}", []
        before = record(base)
        context = ToolContext(
            workspace, environment=select_environment(environment, (), ("CANARY-ENV-KEY", "CANARY-ENV"))
        ).rewire(sandbox=sandbox, exec_timeout=TIMEOUT_S)
        try:
            shown = run_command(attack.command, context, access, in_background=in_background)
        except ToolError as error:
            return str(error), []
        if not attack.rules:
            use_git(base, environment)
        harm = [name for name, was in before.items() if record(base).get(name) != was]
        harm += [f"new: {name}" for name in record(base) if name not in before and not is_empty_folder(base, name)]
        harm += ["a secret is shown"] if "CANARY-" in shown.replace(attack.command, "") or "root:x:0" in shown else []
        harm += [f"alive: {each}" for each in list_alive(base)]
        harm += ["the denied program ran"] if rules and (workspace / "pwned").exists() else []
        try:
            server.accept()[0].close()
            harm += ["a connection"] if access != "network" else []
        except BlockingIOError:
            pass
        return "ran", harm


def list_finders(port: int, *, variants: bool) -> list[Callable[[Path], Attack]]:
    """For each attack, what gives it for a folder."""
    if variants:
        return [lambda base, at=at: [*list_variants(base, port)][at] for at in range(len(VARIANTS))]  # type: ignore[misc]
    return [lambda _base, attack=attack: attack for attack in list_attacks()]  # type: ignore[misc]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=DESCRIPTION)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"a sandbox: {', '.join(KINDS)} (all of them)")
    parser.add_argument("--as-user", action="store_true", help="run as the user nobody, which needs root")
    parser.add_argument("--variants", action="store_true", help="the attacks of variants.py, not those of ../shared")
    parser.add_argument("--background", action="store_true", help="each in the background, until its end")
    options = parser.parse_args(words)
    if unknown := set(options.kinds).difference(KINDS):
        parser.error(f"there is no sandbox {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if not FACTS.is_dir():
        print("the attacks and the fixture in ../shared are not part of this repository")
        return 0
    if options.as_user:
        user = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    harmful = 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        for kind in options.kinds or KINDS:
            for access in ACCESSES:
                outcomes: Counter[str] = Counter()
                for find in list_finders(server.getsockname()[1], variants=options.variants):
                    outcome, harm = try_attack(find, kind, access, server, in_background=options.background)
                    outcomes[outcome] += 1
                    if harm:
                        harmful += 1
                        print(f"{kind} {access}: {find(Path('BASE')).command!r}: {harm}", flush=True)
                print(f"{kind} {access}: {dict(outcomes)}", flush=True)
    print(f"{harmful} did harm")
    return 1 if harmful else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
