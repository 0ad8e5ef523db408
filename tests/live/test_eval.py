"""`vllm-bot eval` on models with one fault each: what it recommends, and that vLLM takes the flags and calls then land.

Each has a server of its own, and another one with the flags.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import ROOT
from .personalities import PERSONALITIES, list_rules
from .rig import Kind, Rig

PARSERS = {  # that the flags name; none where there is nothing to change
    "native hermes": "",
    "wrong parser": "qwen3_coder",
    "no parser": "pythonic",
    "hidden tools": "hermes",
    "thoughts": "hermes",
}


@pytest.mark.parametrize("name", PERSONALITIES)
def test_what_is_recommended_makes_calls_native(name, rig, tmp_path):
    rig.stop()  # two servers at once are enough
    personality, parser = PERSONALITIES[name], PARSERS[name]
    with serve(rig, tmp_path, name, personality.flags) as url:
        _, found, headline = evaluate(url, tmp_path / "first")
    if not parser:
        assert headline.startswith("Nothing to change")
        assert found["settings"] == {}
        return
    flags = shlex.split(re.findall(r"vllm serve \S+ (.+)", headline)[0])
    assert flags[flags.index("--tool-call-parser") + 1] == parser
    with serve(rig, tmp_path, name, (*flags, *personality.kept)) as url:
        runs, found, _ = evaluate(url, tmp_path / "second", "--requests", "60")
    assert found["arm"] == "native"
    native = [run for run in runs if run["arm"] == "native"]
    assert all(run["passed"] and not run.get("kind") for run in native)


@contextmanager
def serve(rig: Rig, work: Path, name: str, flags: Sequence[str]) -> Iterator[str]:
    """The address of a server with these flags, whose model is this personality."""
    ours = Rig(rig._folder, rig._models, work, {name: Kind("chatml", tuple(flags))}, at_once=1)
    (work / "rules.json").write_text(json.dumps(list_rules(PERSONALITIES[name])))
    try:
        yield ours.server(name).base_url
    finally:
        ours.stop()


def evaluate(url: str, out: Path, *words: str) -> tuple[list[dict], dict, str]:
    """The runs, what was found, and the first line."""
    command = [sys.executable, "cli.py", "eval", "--base-url", url, "--out", str(out), *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(out), "XDG_CONFIG_HOME": str(out)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, *runs, found = (json.loads(line) for line in (out / "results.jsonl").read_text().splitlines())
    return runs, found, done.stdout.partition("\n")[0]
