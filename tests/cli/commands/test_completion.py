"""Completion in a shell by argcomplete's protocol: the line is in the environment, the answer goes to a file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thorough import only_thorough

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("vllm-bot mo", {"models"}, marks=only_thorough),
        pytest.param("vllm-bot --outp", {"--output"}, marks=only_thorough),
        ("vllm-bot --output ", {"text", "json", "stream-json"}),
        pytest.param("vllm-bot config --js", {"--json"}, marks=only_thorough),
    ],
)
def test_commands_options_and_what_they_may_be_are_completed(line, words, tmp_path):
    answer = tmp_path / "answer"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE": "1"}
    environment = {**os.environ, **asked, "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "_ARGCOMPLETE_IFS": "\n"}
    subprocess.run([sys.executable, "cli.py"], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=True)
    assert {word.strip() for word in answer.read_text().splitlines()} == words
