"""A user's Python file: its tools are in the registry, or the error says where it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import src

ROOT = Path(src.__file__).parents[1]
# In a process of its own: what a module adds stays in the program's one registry.
LOAD = """
import sys
from src.errors import ConfigError
from src.tools import REGISTRY, ToolContext
from src.tools.sources.python_files import load
from src.types.messages import ToolCall
from pathlib import Path
before = [each.definition.name for each in REGISTRY]
try:
    load(sys.argv[1:])
    load(sys.argv[1:])
except ConfigError as error:
    left = [each["function"]["name"] for each in REGISTRY.openai_tools if each["function"]["name"] not in before]
    assert left == [each.definition.name for each in REGISTRY][len(before):] == [], left
    sys.exit(str(error))
tool = list(REGISTRY)[-1]
print(tool.signature, tool.risk, REGISTRY.run(ToolCall("1", tool.definition.name, {"name": "you"}), ToolContext(Path("/"))).value)
"""

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
def load(tmp_path):
    def load(text: str, name: str = "mine.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", LOAD, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        return (done.stdout + done.stderr).strip().replace(str(tmp_path), "")

    return load


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
def test_what_is_wrong_is_said_with_file_and_line(load, text, said):
    assert load(text).startswith(said)


def test_another_kind_of_file_is_refused(load):
    assert load("x", "mine.txt").startswith("/mine.txt: a file with tools is a Python file")
