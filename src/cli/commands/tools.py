"""`vllm-bot tools`: the tool definitions sent to the model."""

from __future__ import annotations

import argparse
import json
import sys

from ...app import factory
from ...security.text.sanitize import sanitize


def arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(given: argparse.Namespace) -> int:
    """OpenAI's `tools`, as JSON on standard output. Raises ConfigError."""
    tools = factory.tools(factory.settings_of(given))
    for notice in tools.notices:
        print(f"! {sanitize(notice)}", file=sys.stderr)
    print(json.dumps(tools.openai_tools, indent=2, ensure_ascii=False))
    return 0
