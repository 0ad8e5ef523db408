"""A user's Python file: its tools are collected, or the error says where it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from src.errors import ConfigError
from src.tools import TOOL_DEFINITIONS, ToolContext
from src.tools.sources import python_files

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
    """Load a file twice: the signature, risk and answer of its tool, or the error."""
    modules = set(sys.modules)

    def load(text: str, name: str = "mine.py") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        try:
            first = python_files.load([str(path)], ["read"])
            (tool,) = python_files.load([str(path)], ["read"])
        except ConfigError as error:
            return str(error).replace(str(tmp_path), "")
        assert first == [tool]
        return f"{tool.signature} {tool.risk} {tool.execute({'name': 'you'}, ToolContext(tmp_path)).value}"

    yield load
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
        "/mine.py:2: there is a tool read already\nGive it another name.",
    ),
    (
        "from vllm_bot.tools import tool\ndef get(path) -> str:\n    'Get.'\n    return ''\ntool(get)\n",
        "/mine.py:5: TypeError: get(path): a type hint is missing",
    ),
]


@pytest.mark.parametrize(("text", "said"), FAILING, ids=[row[1][:40] for row in FAILING])
def test_an_error_names_file_and_line(load, text, said):
    assert load(text).startswith(said)


def test_a_file_that_ctrl_c_stopped_is_run_again_the_next_time(load, tmp_path):
    path, stopped = tmp_path / "mine.py", tmp_path / "stopped"
    tool = GREET.format(package="src").replace("{{", "{").replace("}}", "}")
    first = f"{tool}\nfrom pathlib import Path\nmark = Path({str(stopped)!r})\n"
    path.write_text(f"{first}if not mark.exists():\n    mark.touch()\n    raise KeyboardInterrupt\nfinished = True\n")
    with pytest.raises(KeyboardInterrupt):
        python_files.load([str(path)])
    (greet,) = python_files.load([str(path)])
    assert greet.function.__globals__["finished"]


def test_another_kind_of_file_is_refused(load):
    assert load("x", "mine.txt").startswith("/mine.txt: a file with tools is a Python file")


HELPER = "from vllm_bot import tool\n\n@tool\ndef shout(name: str) -> str:\n    'Shout.'\n    return name.upper()\n"


def test_a_file_registers_nothing_in_the_program(load):
    before = list(TOOL_DEFINITIONS)
    load(GREET.format(package="vllm_bot"))
    assert before == TOOL_DEFINITIONS


def test_a_tool_of_two_names_is_one(load):
    assert load(f"{HELPER}again = shout\n").startswith("shout(name: string) high YOU")


def test_of_two_functions_of_one_name_the_last_is_the_tool(load):
    assert load(f"{HELPER}{HELPER.replace('upper', 'title')}").endswith("You")


def test_two_tools_that_give_themselves_one_name_are_an_error(load):
    assert load(f"{HELPER}scream = tool(shout.function, name='shout', description='Scream.')\n") == (
        "/mine.py:3: there is a tool shout already, in /mine.py:3\nGive it another name."
    )


def test_a_tool_that_is_imported_counts_as_one_of_the_file(load, tmp_path, monkeypatch):
    (tmp_path / "helper_of_mine.py").write_text(HELPER)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load("from helper_of_mine import shout\n") == "shout(name: string) high YOU"
