"""`vllm-bot tools`: the tools as a model is told of them."""

from __future__ import annotations

import argparse
import json

from . import start


def arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(given: argparse.Namespace) -> int:
    """OpenAI's `tools`, as JSON on standard output. Raises ConfigError."""
    print(json.dumps(start.tools(start.settings_of(given)).openai_tools, indent=2, ensure_ascii=False))
    return 0
