"""`vllm-bot models`, `tools` and `config`: each prints one list."""

from __future__ import annotations

import argparse
import json
import sys

from ...app.address import complete_address
from ...app.check_settings import check_given
from ...app.endpoint import choose_strict
from ...app.factory import Factory
from ...app.toolset import list_offered, make_tools
from ...config import REMOVED, SETTINGS, list_settings, parse_words, split_key, write_setting
from ...errors import ConfigError
from ...model import make_strict
from ...security.text.redact import redact
from ...security.text.sanitize import sanitize
from ...session.journal import redact_value
from ...types.tool_schema import to_openai_tool
from ..load_settings import find_settings_file, load_settings


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
        size = f"  {length:,} tokens" if length else ""
        print(f"{sanitize(name)}{size}")
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
    # Keys are hidden by their options; a login in an address or a token in a command is found by its shape.
    rows = [(key, redact_value(value, redact), place) for key, value, place in list_settings(load_settings(options))]
    if options.json:
        print(json.dumps({key: {"value": value, "from": place} for key, value, place in rows}, indent=2))
        return 0
    for key, value, place in rows:
        print(sanitize(f"{key} = {json.dumps(value, ensure_ascii=False)}  ({place})"))
    return 0


def _change_setting(options: argparse.Namespace) -> int:
    """Raises ConfigError, before the file is changed."""
    file, key, words = find_settings_file(options), options.key, options.value
    if not key or (options.action == "set") != bool(words):
        raise ConfigError("Write `vllm-bot config set KEY VALUE` or `vllm-bot config unset KEY`.")
    if words:
        value = parse_words(key, words)
        check_given(key, value)
        shown = "set"
        if (setting := SETTINGS.get(split_key(key)[2])) and not setting.option.secret:
            shown = f"= {json.dumps(redact_value(setting.option.hide(value), redact), ensure_ascii=False)}"
    else:
        value, shown = REMOVED, "not set"
    write_setting(file, key, value)
    print(sanitize(f"{key} {shown}  ({file})"))
    place = load_settings(options).places.get(key, "")
    if words and place != f"{file}: {key}":
        print(sanitize(f"! It is not in force: {place} sets it too, and wins."), file=sys.stderr)
    return 0
