"""What a model can do, told once: `TOOL_DEFINITIONS` is the list that a server is sent, from the one registry.

Adding a tool is adding a function with `@tool` to a module of this package (imported below) or anywhere else.
"""

from __future__ import annotations

from . import files, shell  # noqa: F401 - importing them registers their tools
from .registry import REGISTRY, Registry, Tool, ToolContext, tool

TOOL_DEFINITIONS = REGISTRY.openai_tools

__all__ = ["REGISTRY", "TOOL_DEFINITIONS", "Registry", "Tool", "ToolContext", "tool"]
