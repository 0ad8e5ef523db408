"""Lines that the policy allows run under real shells and must do no harm. tests/fuzz/policy.py runs for hours."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from src.security.shell.globs import expand
from src.security.shell.parse import parse_line
from src.security.shell.scanner import UnsafeToParse
from src.security.shell.workspace import Workspace
from tests.fuzz.policy import find_harm

from ..ground import build, effect

PIECES = "* ? [ ] ! ^ - a b . 1 / 'a' \\] '[' \\* [a-b] [!a] [[:alpha:]] A é '-' []a] [^]a] b1/ ..".split()  # noqa: SIM905
NAMES = "a b ab ba aa - a-b .a ..b .c/a b1/a b1/ab b1/.a a] [a a!b ^ ! A é B1/b ] a*".split()  # noqa: SIM905


def test_random_lines_that_run_unasked_do_no_harm(tmp_path):
    made, ran, harm = find_harm(600, 7, tmp_path)
    assert (made, harm) == (600, "")
    assert ran > 50


def test_the_check_itself_sees_harm(tmp_path):
    build(tmp_path)
    assert effect("cat link_file", tmp_path) == "leaked"
    assert effect("echo $VLLM_API_KEY", tmp_path) == "leaked"
    assert effect("echo x > b.txt", tmp_path).startswith("wrote")


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_glob_stands_for_no_more_than_we_think(shell, tmp_path):
    """Where a shell leaves a pattern as it is, that is judged as well."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    for each in NAMES:
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).touch()
    rng = random.Random(3)
    patterns = ["./" + "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6))) for _ in range(700)]
    script = "".join(f"printf '%s\\n' {pattern}; echo =====\n" for pattern in patterns)
    ran = subprocess.run([shell, "-s"], input=script, cwd=tmp_path, capture_output=True, text=True, check=True)
    for pattern, said in zip(patterns, ran.stdout.split("=====\n"), strict=False):
        words = set(said.removesuffix("\n").split("\n"))
        try:
            (word,) = parse_line(f"echo {pattern}")[0].words[1:]
            ours = set(expand(word, Workspace(tmp_path)))
        except UnsafeToParse:
            continue
        assert words <= ours | {word.text}, pattern
