"""One model on one server: see model.py."""

from __future__ import annotations

from .call_path import BY_CONFIGURATION, MODES, CallPath
from .model import Model, random_id, served_models
from .server import Server

__all__ = ["BY_CONFIGURATION", "MODES", "CallPath", "Model", "Server", "random_id", "served_models"]
