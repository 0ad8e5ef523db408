"""Settings: what a user may set, and how it is read."""

from __future__ import annotations

from .agents_md import read_guides, render_guides
from .load import ENVIRONMENT, KINDS, OPTIONS, list_settings, load, read_debug_level
from .locations import get_state_folder, list_default_files
from .settings import BASE_URLS, SECTIONS, SecuritySettings, Settings

__all__ = [
    "BASE_URLS",
    "ENVIRONMENT",
    "KINDS",
    "OPTIONS",
    "SECTIONS",
    "SecuritySettings",
    "Settings",
    "get_state_folder",
    "list_default_files",
    "list_settings",
    "load",
    "read_debug_level",
    "read_guides",
    "render_guides",
]
