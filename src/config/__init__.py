"""Settings: what a user may set, and how it is read."""

from __future__ import annotations

from .load import ENVIRONMENT, KINDS, OPTIONS, debug_level, default_files, load, state_folder
from .settings import BASE_URLS, SECTIONS, Security, Settings

__all__ = [
    "BASE_URLS",
    "ENVIRONMENT",
    "KINDS",
    "OPTIONS",
    "SECTIONS",
    "Security",
    "Settings",
    "debug_level",
    "default_files",
    "load",
    "state_folder",
]
