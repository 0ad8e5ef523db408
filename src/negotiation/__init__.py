"""How requests to a server are made, refused and changed, without I/O: see negotiate.py."""

from __future__ import annotations

from .call_path import BY_CONFIGURATION, MODES, CallPath, Mode
from .facts import FactStore
from .server import ServerApi

__all__ = ["BY_CONFIGURATION", "MODES", "CallPath", "FactStore", "Mode", "ServerApi"]
