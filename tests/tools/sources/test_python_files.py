"""A user's Python file: its tools are in the registry, or the error says where it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from src.errors import ConfigError
from src.tools import REGISTRY, ToolContext
from src.tools.sources import python_files
from src.types.messages import ToolCall

GREET = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from {package}.tools import ToolContext, ToolError, tool

@dataclass
class Kept:
    word: str = "hello"

@tool(risk="low")
def greet(name: Annotated[str, "Whom"], ctx: ToolContext) -> str:
    """Greet somebody."""
    return f"{{Kept().word}} {{name}}"
'''


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Load a file twice: its tool's signature, risk and answer, or the error. What it added is removed in the end."""
    modules, tools = set(sys.modules), {each.definition.name for each in REGISTRY}

    def added() -> list[str]:
        return [each.definition.name for each in REGISTRY if each.definition.name not in tools]

    def load(text: str, name: str = "mine.py") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        try:
            python_files.load([str(path)])
            python_files.load([str(path)])
        except ConfigError as error:
            assert added() == []
            assert len(REGISTRY.openai_tools) == len(tools)
            return str(error).replace(str(tmp_path), "")
        (tool,) = (REGISTRY[each] for each in added())
        call = ToolCall("1", tool.definition.name, {"name": "you"})
        return f"{tool.signature} {tool.risk} {REGISTRY.run(call, ToolContext(tmp_path)).value}"

    yield load
    REGISTRY.forget(added())
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.parametrize("package", ["vllm_bot", "src"])
def test_its_tools_are_there_whatever_the_package_is_called_and_loading_it_twice_is_once(load, package):
    assert load(GREET.format(package=package)) == "greet(name: string) low hello you"


FAILING = [
    ("x = 1\nraise KeyError('k')\n", "/mine.py:2: KeyError: 'k'"),
    ("def f(:\n", "/mine.py:1: SyntaxError: invalid syntax"),
    ("import nowhere_to_be_found\n", "/mine.py:1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ("def f():\n    import json\n    json.loads('{')\n\nf()\n", "/mine.py:3: JSONDecodeError: "),
    ("import sys\nsys.exit(7)\n", "/mine.py:2: SystemExit: 7"),
    ("x = 1\n", "/mine.py: there is no tool in it: no function has the decorator @tool"),
    (
        "from vllm_bot.tools import tool\n@tool\ndef read(path: str) -> str:\n    'Read.'\n    return ''\n",
        "/mine.py:2: ValueError: there is a tool read already",
    ),
    (
        "from vllm_bot.tools import tool\n@tool\ndef get(path) -> str:\n    'Get.'\n    return ''\n",
        "/mine.py:2: TypeError: get(path): a type hint is missing",
    ),
]


@pytest.mark.parametrize(("text", "said"), FAILING, ids=[row[1][:40] for row in FAILING])
def test_an_error_names_file_and_line(load, text, said):
    assert load(text).startswith(said)


def test_another_kind_of_file_is_refused(load):
    assert load("x", "mine.txt").startswith("/mine.txt: a file with tools is a Python file")
