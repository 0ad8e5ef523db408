"""Settings: what a user may set, and how it is read."""

from __future__ import annotations

from .agents_md import get_user_guide, read_guides, render_guides
from .checks import KINDS, SETTINGS, GivenValue, check_value, split_key
from .environment import describe_environment
from .files import REMOVED, parse_words, write_setting
from .load import ENVIRONMENT, list_settings, load, read_debug_level
from .locations import get_state_folder, get_user_file, list_default_files
from .settings import BASE_URLS, SECTIONS, SecuritySettings, Settings

__all__ = [
    "BASE_URLS",
    "ENVIRONMENT",
    "KINDS",
    "REMOVED",
    "SECTIONS",
    "SETTINGS",
    "GivenValue",
    "SecuritySettings",
    "Settings",
    "check_value",
    "describe_environment",
    "get_state_folder",
    "get_user_file",
    "get_user_guide",
    "list_default_files",
    "list_settings",
    "load",
    "parse_words",
    "read_debug_level",
    "read_guides",
    "render_guides",
    "split_key",
    "write_setting",
]
