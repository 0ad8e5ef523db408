"""One model on one server: see model.py."""

from __future__ import annotations

from .model import Model, random_id, served_models
from .path import Path

__all__ = ["Model", "Path", "random_id", "served_models"]
