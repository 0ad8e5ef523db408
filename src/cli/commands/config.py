"""`vllm-bot config`: the settings in force and where each comes from."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ... import config
from ...app.factory import settings_of
from ...security.text.sanitize import sanitize

HIDDEN = "(set)"  # in place of a secret


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object: key -> value and place")


def run(given: argparse.Namespace) -> int:
    """Raises ConfigError."""
    rows = list(in_force(settings_of(given)))
    if given.json:
        print(json.dumps({key: {"value": value, "from": place} for key, value, place in rows}, indent=2))
        return 0
    for key, value, place in rows:
        print(sanitize(f"{key} = {json.dumps(value, ensure_ascii=False)}  ({place})"))
    return 0


def in_force(settings: config.Settings) -> list[tuple[str, Any, str]]:
    """Each key with its value and where it was set. Secrets are not shown."""
    rows = []
    for key, option in config.OPTIONS.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(settings, section), name)
        rows.append((key, HIDDEN if value and not option.repr else value, settings.places.get(key, "default")))
    return rows
