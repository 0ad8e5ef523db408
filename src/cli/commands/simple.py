"""`vllm-bot models`, `tools` and `config`: each prints one list."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from ...app.address import complete_address
from ...app.check_settings import check_given
from ...app.endpoint import choose_strict
from ...app.factory import Factory
from ...app.toolset import list_offered, make_tools
from ...config import OPTIONS, REMOVED, get_user_file, list_settings, parse_words, split_key, write_setting
from ...errors import ConfigError
from ...model import make_strict
from ...security.text.sanitize import sanitize
from ...types.tool_schema import to_openai_tool
from ..arguments import load_settings


def add_config_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--json", action="store_true", help="print one JSON object: key -> value and place")
    add("action", nargs="?", choices=("set", "unset"), help="change a key in your file, or in that of --config")
    add("key", nargs="?", metavar="KEY", help="such as vllm.base_url or servers.big.base_url")
    add("value", nargs="*", metavar="VALUE", help="a word, a number, true, false, null or JSON; several words: a list")


def run_models(options: argparse.Namespace) -> int:
    """One model per line, with the length of its context if known. Raises BotError."""
    settings, _ = complete_address(load_settings(options))
    for name, length in Factory(settings).connections.list_models().items():
        print(f"{sanitize(name)}  {length:,} tokens" if length else sanitize(name))
    return 0


def run_tools(options: argparse.Namespace) -> int:
    """OpenAI's `tools` that the mode offers, as a first request has them. Raises ConfigError."""
    settings = load_settings(options)
    tools = make_tools(settings)
    offered = list_offered(settings, tools)
    for notice in tools.notices:
        print(f"! {sanitize(notice)}", file=sys.stderr)
    can_hold = choose_strict(settings.get_model_settings(settings.vllm.model))
    sent = [to_openai_tool(make_strict(each, can_hold)) for each in offered if not each.named_by]
    print(json.dumps(sent, indent=2, ensure_ascii=False))
    return 0


def run_config(options: argparse.Namespace) -> int:
    """The settings in force, or a change of one. Raises ConfigError."""
    if options.action:
        return _change_setting(options)
    rows = list_settings(load_settings(options))
    if options.json:
        print(json.dumps({key: {"value": value, "from": place} for key, value, place in rows}, indent=2))
        return 0
    for key, value, place in rows:
        print(sanitize(f"{key} = {json.dumps(value, ensure_ascii=False)}  ({place})"))
    return 0


def _change_setting(options: argparse.Namespace) -> int:
    """Raises ConfigError, before the file is changed."""
    file, key = Path(options.config) if options.config else get_user_file(os.environ), options.key
    if file is None:
        raise ConfigError("There is no home folder for a settings file.", "Name a file with --config.")
    if not key or (options.action == "set") != bool(options.value):
        raise ConfigError("Write `vllm-bot config set KEY VALUE` or `vllm-bot config unset KEY`.")
    value = parse_words(key, options.value) if options.value else REMOVED
    if options.value:
        check_given(key, value)
    write_setting(file, key, value)
    is_hidden = not (option := OPTIONS.get(split_key(key)[2])) or not option.repr
    if value is REMOVED:
        shown = "not set"
    else:
        shown = "set" if is_hidden else f"= {json.dumps(value, ensure_ascii=False)}"
    print(sanitize(f"{key} {shown}  ({file})"))
    options.config = str(file) if options.config else None
    place = load_settings(options).places.get(key, "")
    if options.value and place != f"{file}: {key}":
        print(sanitize(f"! It is not in force: {place} sets it too, and wins."), file=sys.stderr)
    return 0
