"""docs/writing-tools.md: every example runs, and gives what the page says."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from src.config import load
from src.tools.sources.mcp_config import parse_servers
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "writing-tools.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^(\w+) (\{.*?\}) -> (.*)$", re.MULTILINE)

# In a process of its own: what a module adds stays in the program's one registry.
RUN = """
import json, os, sys, tempfile
from pathlib import Path
from src import config
from src.app.toolset import make_tools
from src.types.messages import ToolCall
from src.tools import ToolContext
settings = config.load(Path(sys.argv[1]), {"workspace.dir": sys.argv[2]}, {})
registry = make_tools(settings)
ctx = ToolContext(settings.root, environment=dict(os.environ))
for name, arguments in json.loads(sys.argv[3]):
    print(json.dumps(registry.run(ToolCall("1", name, arguments), ctx).text))
(module,) = [module for name, module in sys.modules.items() if "_module:" in name]
for name, test in [each for each in vars(module).items() if each[0].startswith("test_")]:
    test(*[Path(tempfile.mkdtemp(dir=sys.argv[2]))] * test.__code__.co_argcount)
    print(json.dumps(name))
"""


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE) if kind == language]


CALLS = [
    (name, json.loads(arguments), said) for text in blocks("calls") for name, arguments, said in CALL.findall(text)
]


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> list[str]:
    """What each call of the page gives, in one run of all."""
    folder = tmp_path_factory.mktemp("tools")
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("The heron stands in the reeds.\nIt waits.\nA fish.\n")
    with sqlite3.connect(workspace / "stock.db") as database:
        database.execute("create table stock (item text)")
        database.executemany("insert into stock values (?)", [("rope",), ("rope",), ("lamp",)])
    database.close()
    (folder / "my_tools.py").write_text("\n".join(blocks("python")))
    (folder / "my_commands.yaml").write_text("\n".join(blocks("yaml")))
    (folder / "config.json").write_text('{"tools": {"modules": ["my_tools.py"], "commands": ["my_commands.yaml"]}}')
    calls = json.dumps([(name, arguments) for name, arguments, _ in CALLS])
    command = [sys.executable, "-c", RUN, str(folder / "config.json"), str(workspace), calls]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[f"{name} {arguments}"[:50] for name, arguments, _ in CALLS])
def test_a_call_gives_what_the_page_says(said, number):
    assert said[number].replace("\n", " | ") == CALLS[number][2]


def test_the_tests_of_the_page_pass(said):
    assert said[len(CALLS) :] == re.findall(r"^def (test_\w+)", PAGE, re.MULTILINE)
    assert len(said) >= len(CALLS) + 3


def test_every_call_of_the_page_is_among_them():
    assert len(CALLS) == sum(text.count(" -> ") for text in blocks("calls")) >= 12


def test_its_settings_are_settings(tmp_path):
    for text in blocks("json"):
        tools = json.loads(text).get("tools", {})
        for name in (*tools.get("modules", ()), *tools.get("commands", ())):
            (tmp_path / name).write_text("")
        path = tmp_path / "config.json"
        path.write_text(text)
        settings = load(path, {}, {})
        assert (
            parse_servers(settings.tools.mcp, {"FILES_TOKEN": "a", "WIKI_TOKEN": "b"}, tmp_path)
            or not settings.tools.mcp
        )


def test_it_names_every_key_of_a_server_and_of_a_parameter():
    from src.tools.sources.mcp_config import KEYS
    from src.tools.sources.yaml_commands import PARAMETER_KEYS, TYPES

    for word in (*KEYS, *PARAMETER_KEYS, *TYPES):
        assert re.search(rf"\b{word}\b", PAGE), word
