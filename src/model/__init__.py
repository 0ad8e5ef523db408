"""One model on one server: see model.py."""

from __future__ import annotations

from .call_path import BY_CONFIGURATION, MODES, CallPath
from .model import Model, list_models, random_id
from .server import Server

__all__ = ["BY_CONFIGURATION", "MODES", "CallPath", "Model", "Server", "list_models", "random_id"]
