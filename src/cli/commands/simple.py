"""`vllm-bot models`, `tools` and `config`: each prints one list."""

from __future__ import annotations

import argparse
import json
import sys

from ...app.factory import Factory
from ...app.runtime import make_tools
from ...config import list_settings
from ...security.text.sanitize import sanitize
from ..arguments import load_settings


def add_config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object: key -> value and place")


def run_models(options: argparse.Namespace) -> int:
    """One model per line, with the length of its context if known. Raises BotError."""
    for name, length in Factory(load_settings(options)).connections.list_models().items():
        print(f"{sanitize(name)}  {length:,} tokens" if length else sanitize(name))
    return 0


def run_tools(options: argparse.Namespace) -> int:
    """OpenAI's `tools`, as JSON on standard output. Raises ConfigError."""
    tools = make_tools(load_settings(options))
    for notice in tools.notices:
        print(f"! {sanitize(notice)}", file=sys.stderr)
    print(json.dumps(tools.openai_tools, indent=2, ensure_ascii=False))
    return 0


def run_config(options: argparse.Namespace) -> int:
    """The settings in force. Raises ConfigError."""
    rows = list_settings(load_settings(options))
    if options.json:
        print(json.dumps({key: {"value": value, "from": place} for key, value, place in rows}, indent=2))
        return 0
    for key, value, place in rows:
        print(sanitize(f"{key} = {json.dumps(value, ensure_ascii=False)}  ({place})"))
    return 0
