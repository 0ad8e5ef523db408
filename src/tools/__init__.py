"""The tools of a model. `TOOL_DEFINITIONS`, the list that a server gets, comes from the one registry.

To add a tool, add a function with `@tool` to a module of this package (imported below), or to a file of your own.
"""

from __future__ import annotations

from ..errors import ToolError

# Importing these registers their tools, in the order of the prompt.
# isort: off
from .builtin import files, search, shell, todo, output_cache  # noqa: F401

# isort: on
from .fs.encoding import open_file
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
    "open_file",
    "registry_of",
    "tool",
]
