"""Python files with tools: each is run once, and the tools that its names then hold are collected.

They import `from vllm_bot.tools import tool, ToolContext`, also if this package has another name, as in a checkout.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from ...errors import ConfigError
from ..sdk.result import attempt
from ..sdk.tool import Tool, list_tools

PUBLIC = "vllm_bot"
PACKAGE = __name__.removesuffix(".tools.sources.python_files")


def load(paths: Sequence[str], taken: Collection[str] = ()) -> list[Tool]:
    """The tools of the files, each of which is run once in a program. `taken` are names that no tool may have.

    Raises ConfigError, with file and line, for a file that fails, defines no tool, or defines one of a name taken.
    """
    places = dict.fromkeys(taken, "")
    tools: list[Tool] = []
    for path in paths:
        for tool in list_tools(_load(f"{PACKAGE}_module:{path}", path)):
            name, code = tool.definition.name, getattr(tool.function, "__code__", None)
            place = path
            if code:
                place = f"{code.co_filename}:{code.co_firstlineno}"
            if name in places:
                taken_by = ", in ".join(filter(None, [f"there is a tool {name} already", places[name]]))
                raise ConfigError(f"{place}: {taken_by}", "Give it another name.")
            places[name] = place
            tools.append(tool)
    return tools


def _load(name: str, path: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError(f"{path}: a file with tools is a Python file, and its name ends in .py")
    # `import vllm_bot` gives the running package, not a second copy with a registry of its own.
    for module_name, package in list(sys.modules.items()):
        if module_name == PACKAGE or module_name.startswith(f"{PACKAGE}."):
            sys.modules.setdefault(PUBLIC + module_name.removeprefix(PACKAGE), package)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        error = _run(spec, module)
        if error is not None:
            raise ConfigError(_describe_error(path, error)) from error
        if not list_tools(module):
            raise ConfigError(f"{path}: there is no tool in it: no function has the decorator @tool")
    except BaseException:  # also Ctrl-C: half a module would count as loaded the next time
        sys.modules.pop(name, None)
        raise
    return module


def _run(spec: ModuleSpec, module: ModuleType) -> BaseException | None:
    """Run the file; returns what it raised, also SystemExit."""

    def execute() -> BaseException | None:
        assert spec.loader is not None  # noqa: S101 - a spec made from a file has one
        spec.loader.exec_module(module)
        return None

    try:
        return attempt(execute, lambda error: error)
    except SystemExit as error:
        return error


def _describe_error(path: str, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    reason: object = error
    if isinstance(error, SyntaxError):
        reason = error.msg
        if error.filename == path:
            lines.append(error.lineno)
    line = f":{lines[-1]}" if lines and lines[-1] else ""
    return f"{path}{line}: {type(error).__name__}: {reason}"
