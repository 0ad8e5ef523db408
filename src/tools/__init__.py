"""What a model can do, told once: `TOOL_DEFINITIONS` is the list that a server is sent, from the one registry.

Adding a tool is adding a function with `@tool` to a module of this package (imported below) or anywhere else.
"""

from __future__ import annotations

from ..errors import ToolError

# Importing these registers their tools, in the order in which a model is told of them.
# isort: off
from . import files, search, shell, todo, cached  # noqa: F401

# isort: on
from .context import ToolContext
from .dependencies import DependencyKey
from .outcome import Media
from .registry import REGISTRY, Registry, Tool, registry_of, tool

TOOL_DEFINITIONS = REGISTRY.openai_tools

__all__ = [
    "REGISTRY",
    "TOOL_DEFINITIONS",
    "DependencyKey",
    "Media",
    "Registry",
    "Tool",
    "ToolContext",
    "ToolError",
    "registry_of",
    "tool",
]
