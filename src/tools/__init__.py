"""The tools of a model. `TOOL_DEFINITIONS`, OpenAI's list of them, comes from the one registry.

To add a tool of the program, add a function with `@tool` to a module of `builtin`, whose tools are registered below.
"""

from __future__ import annotations

from ..errors import ToolError
from .builtin import files, output_cache, search, shell, todo
from .fs.encoding import open_file
from .sdk.context import ToolContext
from .sdk.dependencies import DependencyKey
from .sdk.registry import REGISTRY, Registry, registry_of
from .sdk.result import Media
from .sdk.tool import Tool, list_tools, tool

for _module in (files, search, shell, todo, output_cache):  # in the order of the prompt
    for _tool in list_tools(_module):
        REGISTRY.add(_tool)

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
