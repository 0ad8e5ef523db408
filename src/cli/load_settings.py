"""The settings that the options of the command line result in."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from msgspec.structs import replace

from ..app.check_settings import check_settings
from ..config import Settings, get_user_file, load
from ..config.settings import PROFILE_MODES
from ..errors import ConfigError
from ..security.permissions.rules import parse_allow_option


def find_settings_file(options: argparse.Namespace) -> Path:
    """The settings file to write to: the user's, unless the command names another. Raises ConfigError."""
    if options.config:
        return Path(options.config)
    file = get_user_file(os.environ)
    if file is None:
        raise ConfigError("There is no home folder for a settings file.", "Name a file with --config.")
    return file


def load_settings(options: argparse.Namespace, **more: object) -> Settings:
    """The settings in force under these options, and under `more`, by dotted key. Raises ConfigError."""
    overrides = {
        "vllm.base_url": options.base_url,
        "vllm.model": options.model,
        "vllm.enable_function_calling": False if options.no_function_calling else None,
        "workspace.dir": options.workspace,
        "workspace.add_dirs": options.add_dir,
        "security.mode": options.mode or PROFILE_MODES.get(options.profile),
        "security.profile": options.profile,
        "agent.max_tool_turns": options.max_turns,
        **more,
    }
    settings = load(Path(options.config) if options.config else None, overrides, os.environ)
    check_settings(settings)
    if not options.allow:
        return settings
    rules = (*settings.security.rules, *(parse_allow_option(text).to_entry() for text in options.allow))
    return replace(
        settings,
        security=replace(settings.security, rules=rules),
        places={**settings.places, "security.rules": f"{settings.places.get('security.rules', 'default')}, --allow"},
    )
