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

PARSERS = {  # that the flags name
    "wrong parser": "qwen3_coder",
    "no parser": "pythonic",
    "hidden tools": "hermes",
}


def test_where_calls_come_natively_nothing_is_to_change(rig, tmp_path):
    rig.stop()  # two servers at once are enough
    with serve(rig, tmp_path, "native hermes", PERSONALITIES["native hermes"].flags) as url:
        _, found, headline = evaluate(url, tmp_path / "first")
    assert headline.startswith("Nothing to change")
    assert found["settings"] == {}


@pytest.mark.parametrize("name", PARSERS)
def test_the_recommended_flags_make_calls_native(name, rig, tmp_path):
    rig.stop()
    personality = PERSONALITIES[name]
    with serve(rig, tmp_path, name, personality.flags) as url:
        _, _, headline = evaluate(url, tmp_path / "first")
    flags = shlex.split(re.findall(r"vllm serve \S+ (.+)", headline)[0])
    assert flags[flags.index("--tool-call-parser") + 1] == PARSERS[name]
    with serve(rig, tmp_path, name, (*flags, *personality.kept)) as url:
        runs, found, _ = evaluate(url, tmp_path / "second", "--requests", "60")
    assert_native(runs, found)


def test_the_recommended_setting_keeps_calls_out_of_thoughts(rig, tmp_path):
    rig.stop()
    with serve(rig, tmp_path, "thoughts", PERSONALITIES["thoughts"].flags) as url:
        _, found, headline = evaluate(url, tmp_path / "first")
        assert headline.startswith("Set vllm.chat_template_kwargs")
        values = {key.removeprefix("vllm."): value for key, value in found["settings"].items()}
        (tmp_path / "config.json").write_text(json.dumps({"vllm": values}))
        given = ("--config", str(tmp_path / "config.json"))
        runs, found, _ = evaluate(url, tmp_path / "second", "--requests", "60", *given)
    assert_native(runs, found)


def assert_native(runs: Sequence[dict], found: dict) -> None:
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
