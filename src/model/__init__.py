"""One model on one server, without I/O: see core.py."""

from __future__ import annotations

from .core import ModelCore
from .request_builder import ModelOptions, make_strict

__all__ = ["ModelCore", "ModelOptions", "make_strict"]
