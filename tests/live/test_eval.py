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
from pathlib import Path

import pytest

from .conftest import ROOT
from .personalities import PERSONALITIES, list_rules
from .rig import Kind, Rig

SETTINGS = {  # what is recommended until the server is restarted
    "native hermes": {},
    "wrong parser": {"vllm.paths": ["template", "text"], "text_protocol.constrained": "off"},
    "no parser": {},
    "hidden tools": {},
    "thoughts": {"vllm.chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
}
PARSERS = {"native hermes": "", "wrong parser": "qwen3_coder", "no parser": "pythonic"}


@pytest.mark.parametrize("name", PERSONALITIES)
def test_what_is_recommended_makes_calls_native(name, rig, tmp_path):
    personality = PERSONALITIES[name]
    rig.stop()  # two servers at once are enough
    ours = Rig(rig._folder, rig._models, tmp_path, {name: Kind("chatml", personality.flags)}, at_once=1)
    (tmp_path / "rules.json").write_text(json.dumps(list_rules(personality)))
    try:
        first, found, headline = evaluate(ours.server(name).base_url, tmp_path / "first")
        assert found["arm"], first
        parser = PARSERS.get(name, "hermes")
        assert (f"--tool-call-parser {parser}" in headline) == bool(parser)
        if not parser:
            assert found["settings"] == {}
            return
        flags = tuple(shlex.split(re.findall(r"vllm serve \S+ (.+)", headline)[0]))
        kept = () if "--chat-template" in flags else tuple(personality.flags[len(personality.flags) - 4 :])
        kept = kept if name == "thoughts" else ()
    finally:
        ours.stop()
    again = Rig(rig._folder, rig._models, tmp_path, {name: Kind("chatml", (*flags, *kept))}, at_once=1)
    (tmp_path / "rules.json").write_text(json.dumps(list_rules(personality)))
    try:
        runs, found, _ = evaluate(again.server(name).base_url, tmp_path / "second", "--requests", "60")
    finally:
        again.stop()
    assert found["arm"] == "native"
    assert all(run["passed"] and not run.get("kind") for run in runs if run["arm"] == "native")


def evaluate(url: str, out: Path, *words: str) -> tuple[list[dict], dict, str]:
    """The runs, what was found, and the first line."""
    command = [sys.executable, "cli.py", "eval", "--base-url", url, "--out", str(out), *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(out), "XDG_CONFIG_HOME": str(out)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, *runs, found = (json.loads(line) for line in (out / "results.jsonl").read_text().splitlines())
    return runs, found, done.stdout.partition("\n")[0]
