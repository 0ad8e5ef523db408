"""What a model can do, told once: `TOOL_DEFINITIONS` is the list that a server is sent, from the one registry.

Adding a tool is adding a function with `@tool` to a module of this package (imported below) or anywhere else.
"""

from __future__ import annotations

from ..errors import ToolError

# Importing these registers their tools, in the order in which a model is told of them.
# isort: off
from .builtin import files, search, shell, todo, output_cache  # noqa: F401

# isort: on
from .sdk.context import ToolContext
from .sdk.dependencies import DependencyKey
from .sdk.registry import REGISTRY, Registry, Tool, registry_of, tool
from .sdk.result import Media

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
