"""How requests to a server are made, refused and changed, without I/O: see negotiate.py."""

from __future__ import annotations

from .call_path import MODES, CallPath, Mode, Reason
from .facts import FactStore
from .server import ServerApi

__all__ = ["MODES", "CallPath", "FactStore", "Mode", "Reason", "ServerApi"]
