"""One model on one server, without I/O: see core.py."""

from __future__ import annotations

from .call_path import BY_CONFIGURATION, MODES, CallPath, Mode
from .core import ModelCore
from .facts import FactStore
from .request_builder import ModelOptions, make_strict
from .server import ServerApi

__all__ = [
    "BY_CONFIGURATION",
    "MODES",
    "CallPath",
    "FactStore",
    "Mode",
    "ModelCore",
    "ModelOptions",
    "ServerApi",
    "make_strict",
]
