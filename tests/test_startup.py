"""What is loaded when: little before the prompt, next to nothing for --help. Each test is a fresh process."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from src import __version__
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
SLOW = {"dataclasses", "inspect", "typing", "json", "logging", "subprocess", "socket", "asyncio", "importlib.metadata"}
SLOW |= {"shutil", "pathlib"}
NOT_BEFORE_THE_PROMPT = {
    "shutil",
    "subprocess",
    "socket",
    "asyncio",
    "logging",
    "tempfile",
    "sqlite3",
    "importlib.metadata",
}
# msgspec is loaded first of all: classes of its kind are made faster than those of the standard library.
THIRD_PARTY = {"requests", "urllib3", "yaml", "regex", "fastjsonschema"}
BEHIND_THE_PROMPT = {"agent", "model", "parsing", "providers", "tools", "transport"}


NOT_FOR_A_QUESTION = {
    *("asyncio", "ctypes", "html", "sqlite3", "subprocess"),
    *("fastjsonschema", "prompt_toolkit", "regex", "rich", "yaml"),
    *("src.cli.chat.loop", "src.cli.demo", "src.session.export", "src.session.index"),
    *("src.providers.anthropic", "src.providers.copilot", "src.providers.gemini", "src.transport.copilot"),
    *("src.session.replay", "src.tools.fs.grep", "src.tools.fs.walk", "src.tools.process.run"),
    *("src.security.sandbox.base", "src.security.permissions.review", "src.security.sandbox.choose"),
}

if sys.version_info < (3, 11):  # msgspec loads uuid, and that loads it there
    NOT_BEFORE_THE_PROMPT.remove("subprocess")
    NOT_FOR_A_QUESTION.remove("subprocess")


class Loaded(NamedTuple):
    output: str
    modules: set[str]


def loaded_by(*command: str, typed: str = "") -> Loaded:
    """What Python imports for a command, as -X importtime lists it: nothing of the test's own is among it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        cwd=ROOT,
        input=typed,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return Loaded(done.stdout, {line.rpartition("|")[2].strip() for line in lines})


@pytest.fixture(scope="module")
def bare() -> set[str]:
    """What this Python loads in any case: a virtual environment may add to it."""
    return loaded_by("-c", "pass").modules


@pytest.mark.parametrize("option", ["--help", "--version"])
class TestHelpAndVersion:
    def test_they_load_nothing_from_outside_the_standard_library(self, option, bare):
        names = {module.partition(".")[0] for module in loaded_by("cli.py", option).modules - bare}
        assert names - sys.stdlib_module_names - {"src"} == set()

    def test_of_ours_they_load_the_command_line_alone(self, option, bare):
        modules = loaded_by("cli.py", option).modules - bare
        assert {module for module in modules if module.startswith("src")} == {
            "src",
            "src.cli",
            "src.cli.main",
            "src.cli.arguments",
        }

    def test_they_load_nothing_slow(self, option, bare):
        assert (loaded_by("cli.py", option).modules - bare) & SLOW == set()

    def test_they_say_what_they_are_asked(self, option, bare):
        output = loaded_by("cli.py", option).output
        assert output.startswith("usage: vllm-bot") if option == "--help" else output == f"vllm-bot {__version__}\n"


# Runs the program to its prompt. Python itself tells of every import and of the moment a line is asked for.
TO_THE_PROMPT = """
import json, os, sys, threading

main_thread = threading.get_ident()
imported = []

def watch(event, args):
    if event == "import" and threading.get_ident() == main_thread:
        imported.append(args[0])
    elif event == "builtins.input":
        before = list(imported)
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join()
        report = {"prompt": args[0], "before": before, "behind": list(sys.modules)}
        with open(sys.argv.pop(), "w") as file:
            json.dump(report, file)
        os._exit(0)

sys.addaudithook(watch)
from src.cli.main import main
main([])
"""


@pytest.fixture(scope="module")
def at_the_prompt(tmp_path_factory) -> dict:
    """`before`: what the main thread imported until the prompt; `behind`: all that is loaded once its helper is done."""
    report = tmp_path_factory.mktemp("startup") / "report.json"
    terminal, end = pty.openpty()
    environment = {**os.environ, "VLLM_MODEL": "any", "VLLM_BASE_URL": "http://127.0.0.1:9/v1", "DEBUG": ""}
    try:
        subprocess.run(
            [sys.executable, "-c", TO_THE_PROMPT, str(report)],
            cwd=ROOT,
            env=environment,
            stdin=end,
            stdout=end,
            stderr=subprocess.PIPE,
            check=True,
            timeout=PATIENCE_S,
        )
    finally:
        os.close(terminal)
        os.close(end)
    return json.loads(report.read_text())


class TestThePrompt:
    def test_it_is_what_the_program_asks_for_first(self, at_the_prompt):
        assert at_the_prompt["prompt"] == "> "

    def test_no_package_but_msgspec_is_loaded_before_it(self, at_the_prompt):
        assert {name.partition(".")[0] for name in at_the_prompt["before"]} & THIRD_PARTY == set()

    def test_what_is_slow_of_the_standard_library_and_can_wait_is_not_loaded_before_it(self, at_the_prompt):
        assert set(at_the_prompt["before"]) & NOT_BEFORE_THE_PROMPT == set()

    def test_the_rooms_that_need_such_packages_are_not_loaded_before_it(self, at_the_prompt):
        ours = {name.split(".")[1] for name in at_the_prompt["before"] if name.startswith("src.")}
        assert "config" in ours
        assert ours & BEHIND_THE_PROMPT == set()

    def test_they_are_loaded_behind_it_while_the_user_types(self, at_the_prompt):
        assert {"urllib3", "src.agent.loop", "src.model"} <= set(at_the_prompt["behind"])


# The same on a terminal that can draw: the prompt is written before what it needs is loaded.
TO_THE_FULL_PROMPT = """
import builtins, json, os, sys

imported = []
sys.addaudithook(lambda event, args: imported.append(args[0]) if event == "import" else None)

def shown(*words, print=print, **how):
    if words == ("> ",):
        with open(sys.argv.pop(), "w") as file:
            json.dump(imported, file)
        os._exit(0)
    print(*words, **how)

builtins.print = shown
from src.cli.main import main
main([])
"""


def test_on_a_full_terminal_neither_rich_nor_prompt_toolkit_is_waited_for(tmp_path):
    report = tmp_path / "report.json"
    terminal, end = pty.openpty()
    environment = {**os.environ, "VLLM_MODEL": "any", "VLLM_BASE_URL": "http://127.0.0.1:9/v1", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    try:
        command = [sys.executable, "-c", TO_THE_FULL_PROMPT, str(report)]
        subprocess.run(
            command, cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end, check=True, timeout=PATIENCE_S
        )
    finally:
        os.close(terminal)
        os.close(end)
    before = json.loads(report.read_text())
    assert {name.partition(".")[0] for name in before} & {*THIRD_PARTY, "rich", "prompt_toolkit", "pygments"} == set()
    assert set(before) & NOT_BEFORE_THE_PROMPT == set()
    ours = {name.split(".")[1] for name in before if name.startswith("src.")}
    assert ours & BEHIND_THE_PROMPT == set()


# One question, until the first connection is opened: Python itself tells of it.
TO_THE_REQUEST = """
import json, os, sys

before = set(sys.modules)  # what measures the coverage, for one
out = os.fdopen(os.dup(1), "w")  # the program sends what tools print elsewhere

def list_compiled():
    from src.types.lazy_pattern import LazyPattern
    for name, module in sys.modules.items():
        for variable, value in vars(module).items() if name.startswith("src.parsing.") else ():
            if isinstance(value, LazyPattern) and "match" in vars(value):
                yield f"{name}.{variable}"

def report(event, args):
    if event == "socket.connect":
        print(json.dumps([sorted(set(sys.modules) - before), sorted(list_compiled())]), file=out, flush=True)
        os._exit(0)

sys.addaudithook(report)
from src.cli.main import main
main(["-p", "hi"])
"""


def test_a_question_is_sent_before_what_few_answers_need_is_loaded(tmp_path):
    environment = {
        **os.environ,
        "VLLM_MODEL": "any",
        "VLLM_BASE_URL": "http://127.0.0.1:9/v1",
        "XDG_STATE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", TO_THE_REQUEST],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    modules, compiled = json.loads(done.stdout)
    assert set(modules) & NOT_FOR_A_QUESTION == set()
    assert compiled == []  # the expressions of the parser that few answers need


def test_an_editor_agent_has_loaded_what_a_session_needs_before_one_is_asked_for():
    pytest.importorskip("acp", reason="the SDK of the Agent Client Protocol is not installed")
    greeting = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    # What import_module is given is not listed, but what that imports is: here of app.connect.
    assert "src.transport.http" in loaded_by("cli.py", "acp", typed=f"{greeting}\n").modules
