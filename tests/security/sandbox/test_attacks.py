"""Each attack that is known to pass a guard does no harm in a sandbox, without any guard.

What is run are the attacks of `../shared/facts/exec_commands.json` whose effect was seen. The workspace is
writable in the sandbox, as it is meant to be: so what counts as harm is a file outside the workspace that
came, went or changed, and a canary, the key or the system's users in the output.
A command's right to change the workspace is the policy's to decide.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.thorough import sample

from .conftest import KINDS, PATH, make_runner

FACTS = Path(__file__).resolve().parents[4] / "shared" / "facts"
NOTHING_GIVEN = pytest.mark.skipif(
    not FACTS.is_dir(), reason="the attacks in ../shared are not part of this repository"
)


def list_proven() -> list[str]:
    if not FACTS.is_dir():
        return []
    cases = json.loads((FACTS / "exec_commands.json").read_text())
    return [case["command"] for case in cases if case.get("verified") and case.get("verify") != "never"]


def build_fixture(base: Path) -> dict[str, str]:
    """The fixture's files below `base`; its environment."""
    fixture = json.loads((FACTS / "exec_fixture.json").read_text())
    for name, text in fixture["files"].items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)
    (programs,) = (value for key, value in fixture.items() if key.startswith("executables"))
    for name in programs:
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text("#!/bin/sh\ntouch pwned\n")
        (base / name).chmod(0o755)
    for name, target in fixture["symlinks"].items():
        (base / name).symlink_to(target)
    environment = {name: value.replace("<base>", str(base)) for name, value in fixture["env"].items()}
    return {"PATH": PATH, **environment}


def hash_outside(base: Path) -> dict[str, str]:
    """Every file but the workspace's, by its content."""
    files = (path for path in sorted(base.rglob("*")) if path.is_file() and not path.is_relative_to(base / "ws"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@NOTHING_GIVEN
@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_no_proven_attack_does_harm(kind, tmp_path):
    environment = build_fixture(tmp_path)
    run = make_runner(kind, tmp_path / "ws", environment)
    before = hash_outside(tmp_path)
    harmful = {}
    for command in sample(list_proven(), 8, KINDS.index(kind)):
        rebuild_fixture(tmp_path)
        shown = run(command)
        if "CANARY" in shown or "root:x:0" in shown:
            harmful[command] = shown
        if hash_outside(tmp_path) != before:
            harmful[command] = "changed a file outside"
            break
    assert harmful == {}


@NOTHING_GIVEN
def test_the_attacks_do_harm_where_there_is_no_sandbox(tmp_path):
    """Else the test above would prove nothing."""
    environment = build_fixture(tmp_path)
    from .test_choose import make_bare_runner

    assert "CANARY" in make_bare_runner(tmp_path / "ws", environment)("cat ../outside/secret.txt")


def rebuild_fixture(base: Path) -> None:
    """An attack may have moved or removed what the next one needs."""
    for name in ("a.txt", "b.txt"):
        (base / "ws" / name).write_text("alpha\n")
