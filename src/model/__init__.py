"""One model on one server: see model.py."""

from __future__ import annotations

from .model import Model, random_id, served_models
from .path import BY_CONFIGURATION, MODES, CallPath
from .server import Server

__all__ = ["BY_CONFIGURATION", "MODES", "CallPath", "Model", "Server", "random_id", "served_models"]
