"""`vllm-bot models`, `tools` and `config`: each prints one list."""

from __future__ import annotations

import argparse
import json
import sys

from ...agent.permission import PermissionGate
from ...app.factory import Factory
from ...app.runtime import make_policy, make_tools
from ...config import list_settings
from ...security.permissions.approval import REFUSE_ALL
from ...security.text.sanitize import sanitize
from ...types.tool_schema import to_openai_tool
from ..arguments import load_settings


def add_config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object: key -> value and place")


def run_models(options: argparse.Namespace) -> int:
    """One model per line, with the length of its context if known. Raises BotError."""
    for name, length in Factory(load_settings(options)).connections.list_models().items():
        print(f"{sanitize(name)}  {length:,} tokens" if length else sanitize(name))
    return 0


def run_tools(options: argparse.Namespace) -> int:
    """OpenAI's `tools` that the mode offers, as JSON on standard output. Raises ConfigError."""
    settings = load_settings(options)
    tools = make_tools(settings)
    offered = PermissionGate(tools, REFUSE_ALL, make_policy(settings, None), None).list_offered()
    for notice in tools.notices:
        print(f"! {sanitize(notice)}", file=sys.stderr)
    print(json.dumps([*map(to_openai_tool, offered)], indent=2, ensure_ascii=False))
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
