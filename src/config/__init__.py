"""Settings: what a user may set, and how it is read."""

from __future__ import annotations

from .agents_md import as_prompt, guides
from .load import ENVIRONMENT, KINDS, OPTIONS, debug_level, list_settings, load
from .locations import default_files, state_folder
from .settings import BASE_URLS, SECTIONS, Security, Settings

__all__ = [
    "BASE_URLS",
    "ENVIRONMENT",
    "KINDS",
    "OPTIONS",
    "SECTIONS",
    "Security",
    "Settings",
    "as_prompt",
    "debug_level",
    "default_files",
    "guides",
    "list_settings",
    "load",
    "state_folder",
]
