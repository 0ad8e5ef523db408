"""Python files with tools: each is run once, and its `@tool` functions are then in the registry.

They import `from vllm_bot.tools import tool, ToolContext`, also if this package has another name, as in a checkout.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from ...errors import ConfigError
from ..sdk.registry import REGISTRY
from ..sdk.result import attempt

PUBLIC = "vllm_bot"
PACKAGE = __name__.removesuffix(".tools.sources.python_files")


def load(paths: Sequence[str]) -> None:
    """Run each file once. Raises ConfigError, with file and line, for one that fails or defines no tool."""
    for path in paths:
        name = f"{PACKAGE}_module:{path}"
        if name not in sys.modules:
            _load(name, path)


def _load(name: str, path: str) -> None:
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError(f"{path}: a file with tools is a Python file, and its name ends in .py")
    _alias_package()
    before = {each.definition.name for each in REGISTRY}
    module = sys.modules[name] = module_from_spec(spec)
    error = _run(spec, module)
    added = [each.definition.name for each in REGISTRY if each.definition.name not in before]
    if error is not None:
        del sys.modules[name]
        REGISTRY.forget(added)
        raise ConfigError(_describe_error(path, error)) from error
    if not added:
        raise ConfigError(f"{path}: there is no tool in it: no function has the decorator @tool")


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
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(error.lineno)
    line = f":{lines[-1]}" if lines and lines[-1] else ""
    said = error.msg if isinstance(error, SyntaxError) else error
    return f"{path}{line}: {type(error).__name__}: {said}"


def _alias_package() -> None:
    """Let `import vllm_bot` give the running package, not a second copy with a registry of its own."""
    for name, module in list(sys.modules.items()):
        if name == PACKAGE or name.startswith(f"{PACKAGE}."):
            sys.modules.setdefault(PUBLIC + name.removeprefix(PACKAGE), module)
