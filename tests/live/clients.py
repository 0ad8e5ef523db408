"""Real clients do a task with two tools, through `vllm-bot serve` and straight at vLLM, on four kinds of servers.

    VLLM_BOT_RIG=../shared/rig python -m tests.live.clients [--newest] [--client NAME] [--server NAME]

The rig's model writes each call in a format that the message names, so no server's parser reads both. Landed means: both
tools ran with exact arguments, the client ended with the answer, and no markup of a call is in what it printed.
Programs come from npm, libraries from PyPI, into a folder of their own (VLLM_BOT_CLIENTS, by default in the folder for
temporary files); each run has a home of its own. Clients of npm are left out where npm is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from src.cli.commands.launch import PROGRAMS
from src.parsing.formats.table import FORMATS
from src.transport.http import find_free_port

from .rig import HERMES, WRONG, Kind, Rig
from .sdk_agents import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
PINS = {
    "@anthropic-ai/claude-code": "2.1.330",
    "@openai/codex": "0.169.0",
    "opencode-ai": "1.18.33",
    "@github/copilot": "1.0.102",
    "langchain": "1.4.7",
    "langchain-openai": "1.7.3",
    "openai-agents": "0.24.0",
    "pydantic-ai-slim[openai]": "2.68.0",
}
PACKAGES = {name: package for name, (_, package) in PROGRAMS.items()}
CLIENTS = (*PACKAGES, *LIBRARIES)
CONTEXT_TOKENS = 65_536  # for Claude Code's prompt
_LONG = ("--max-model-len", str(CONTEXT_TOKENS))
SERVERS = {
    "hermes": Kind("chatml", (*HERMES, *_LONG)),
    "no parser": Kind("chatml", _LONG),
    "strict": Kind("strict", _LONG),
    "wrong parser": Kind("chatml", (*WRONG, *_LONG)),
}
MODEL = "tiny"
WRITES = {row.name: row.write for row in FORMATS}
CONTENT = "if a < b:\n    print(\"said 'x'\")\n"
ANSWER = "The task is done."
MARKUP = ("<tool_call", "<invoke", "<function=", "TOOL_CALL", "[TOOL_CALLS", '"arguments"', '"name"')
RUN_TIMEOUT_S = 240


class Task(NamedTuple):
    """What the model calls: names and arguments of two tools of a client, in a workspace."""

    first: tuple[str, dict[str, Any]]
    second: tuple[str, dict[str, Any]]

    def ask(self, formats: Sequence[str]) -> str:
        """The question, with the script that the rig's model follows."""
        first, second = (WRITES[name](*call) for name, call in zip(formats, self, strict=True))
        return f"Do the task. @@SCRIPT@@{json.dumps([f'I will do it.{chr(10)}{first}', second, ANSWER])}@@END@@"


def make_task(client: str, workspace: Path) -> Task:
    command, file = "echo heron > first.txt", str(workspace / "second.txt")
    described = {"command": command, "description": "Write a word to a file"}
    patch = "".join(f"+{line}\n" for line in CONTENT.splitlines())
    return {
        "claude": Task(("Bash", described), ("Write", {"file_path": file, "content": CONTENT})),
        "codex": Task(
            ("exec_command", {"cmd": command}),
            ("apply_patch", {"input": f"*** Begin Patch\n*** Add File: second.txt\n{patch}*** End Patch"}),
        ),
        "opencode": Task(("bash", {"command": command}), ("write", {"filePath": file, "content": CONTENT})),
        "copilot": Task(("bash", described), ("create", {"path": file, "file_text": CONTENT})),
    }.get(client) or Task(("run_command", {"command": command}), ("write_file", {"path": file, "content": CONTENT}))


class Installation:
    """The clients in a folder. `is_newest`: their newest versions in place of those of PINS."""

    def __init__(self, folder: Path, *, is_newest: bool = False) -> None:
        self._folder = folder / ("newest" if is_newest else "pinned")
        self._is_newest = is_newest

    def install(self, client: str) -> None:
        """Once for the same versions. Raises CalledProcessError and FileNotFoundError."""
        packages = (
            [PACKAGES[client]] if client in PACKAGES else [name for name in PINS if name not in PACKAGES.values()]
        )
        wanted = packages if self._is_newest else [self._pin(name) for name in packages]
        record = self._folder / f"{client if client in PACKAGES else 'libraries'}.txt"
        if record.exists() and record.read_text() == "\n".join(wanted):
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        if client in PACKAGES:
            cache = ("--cache", str(self._folder / "npm-cache"), "--no-audit", "--no-fund")
            _run_quietly("npm", "install", "--prefix", str(self._folder), *cache, *wanted)
        else:
            _run_quietly(sys.executable, "-m", "venv", str(self._folder / "venv"))
            cache = ("--cache-dir", str(self._folder / "pip-cache"))
            _run_quietly(self.python, "-m", "pip", "install", *cache, *wanted)
        record.write_text("\n".join(wanted))

    def _pin(self, package: str) -> str:
        return f"{package}{'@' if package in PACKAGES.values() else '=='}{PINS[package]}"

    @property
    def python(self) -> str:
        return str(self._folder / "venv" / "bin" / "python")

    @property
    def programs(self) -> str:
        """The folder with the commands of npm's packages."""
        return str(self._folder / "node_modules" / ".bin")

    def read_version(self, client: str) -> str:
        if client in PACKAGES:
            return str(
                json.loads((self._folder / "node_modules" / PACKAGES[client] / "package.json").read_text())["version"]
            )
        name = next(name for name in PINS if name.startswith(client)).partition("[")[0]
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        return subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _run_quietly(*command: str) -> None:
    """Raises CalledProcessError, after its output."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout[-2000:], file=sys.stderr)
        done.check_returncode()


class Outcome(NamedTuple):
    """`verdict`: landed, or what went wrong. `output`: the end of what the client printed."""

    verdict: str
    output: str


def run_client(installed: Installation, client: str, url: str, formats: Sequence[str], folder: Path) -> Outcome:
    """Have the client do the task at `url` (without /v1), in an empty `folder`."""
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir(parents=True)
    home.mkdir()
    question = make_task(client, workspace).ask(formats)
    environment = {"PATH": f"{installed.programs}:{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb"}
    if client in PACKAGES:
        words, variables = PROGRAMS[client][0](url, MODEL, folder, CONTEXT_TOKENS)
        environment |= variables
        command = [client, *words, *_make_words(client, question, environment, folder)]
    else:
        command = [installed.python, str(Path(__file__).with_name("sdk_agents.py")), client, f"{url}/v1", question]
    # claude's options of lists would swallow a word; opencode puts one between quotes, and escapes those in it.
    asked = question if client in ("claude", "opencode") else ""
    try:
        done = subprocess.run(
            command, cwd=workspace, env=environment, input=asked, capture_output=True, text=True, timeout=RUN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return Outcome("timeout", "")
    output = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    return Outcome(_judge(done.returncode, done.stdout, workspace), output)


def _make_words(client: str, question: str, environment: dict[str, str], folder: Path) -> list[str]:
    """What stands behind a program's name for one question without a terminal."""
    if client == "claude":
        return ["-p", "--allowedTools", "Bash", "Write"]
    if client == "copilot":
        return ["-p", question, "--allow-all-tools", "-s"]
    if client == "opencode":
        return ["run"]
    # codex offers apply_patch, a custom tool with a Lark grammar, to models of its catalog only. Those that are not "lite"
    # run commands with a tool, too; the others only in JavaScript.
    told = subprocess.run(["codex", "debug", "models"], env=environment, capture_output=True, text=True, check=True)
    known = next(each for each in json.loads(told.stdout)["models"] if not each.get("use_responses_lite"))
    catalog = folder / "catalog.json"
    catalog.write_text(json.dumps({"models": [{**known, "slug": MODEL, "upgrade": None}]}))
    settings = ["-c", f"model_catalog_json={json.dumps(str(catalog))}"]
    return [*settings, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", question]


def _judge(exit_code: int, answer: str, workspace: Path) -> str:
    first, second = workspace / "first.txt", workspace / "second.txt"
    if not first.exists():
        lost = "first call lost"
    elif first.read_text() != "heron\n":
        lost = "first call garbled"
    elif not second.exists():
        lost = "second call lost"
    elif second.read_text() != CONTENT:
        lost = "second call garbled"
    else:
        lost = "" if ANSWER in answer else "no answer"
    if any(each in answer for each in MARKUP):
        lost += ", markup shown" if lost else "markup shown"
    return (f"exit code {exit_code}, {lost}" if exit_code else lost) or "landed"


@contextmanager
def run_gateway(upstream: str, folder: Path) -> Iterator[str]:
    """A gateway in front of `upstream`, until the end of the block; its address, without /v1."""
    listen = f"127.0.0.1:{find_free_port()}"
    command = [sys.executable, str(ROOT / "cli.py"), "serve", "--upstream", upstream, "--listen", listen]
    process = subprocess.Popen(
        command, env={"PATH": os.environ["PATH"], "HOME": str(folder)}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        print(process.stderr.readline().strip(), file=sys.stderr)
        _wait_for_health(f"http://{listen}")
        yield f"http://{listen}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _wait_for_health(root: str) -> None:
    import urllib.request

    deadline = time.monotonic() + RUN_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(f"{root}/health", timeout=RUN_TIMEOUT_S).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def try_clients(
    installed: Installation, clients: Sequence[str], upstream: str, formats: Sequence[str]
) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Each client's outcome through a gateway, and straight at the server."""
    with tempfile.TemporaryDirectory() as scratch, run_gateway(upstream, Path(scratch)) as gateway:
        for client in clients:
            folder = Path(scratch) / client
            through = run_client(installed, client, gateway, formats, folder / "gateway")
            yield client, through, run_client(installed, client, upstream, formats, folder / "vllm")


def install_clients(installed: Installation, wanted: Sequence[str]) -> list[str]:
    """Those that are there now."""
    clients = []
    for client in wanted:
        if client in PACKAGES and not (shutil.which("npm") and shutil.which("node")):
            print(f"{client} is left out: npm and node are not installed.", file=sys.stderr)
            continue
        installed.install(client)
        clients.append(client)
    return clients


def find_folder() -> Path:
    """Where clients are installed."""
    return Path(os.environ.get("VLLM_BOT_CLIENTS") or Path(tempfile.gettempdir()) / f"vllm-bot-clients-{os.getuid()}")


@contextmanager
def start_servers(wanted: Sequence[str]) -> Iterator[Iterator[tuple[str, str]]]:
    """Name and address of each kind of server, one at a time."""
    with tempfile.TemporaryDirectory() as work:
        models = Path(os.environ.get("VLLM_BOT_RIG_MODELS", "~/rig")).expanduser()
        rig = Rig(Path(os.environ["VLLM_BOT_RIG"]), models, Path(work), SERVERS, at_once=1)
        try:
            yield ((name, rig.server(name).base_url.removesuffix("/v1")) for name in wanted)
        finally:
            rig.stop()


def main() -> int:
    """Print a table in Markdown, through the gateway / straight at vLLM. Returns 1 if a call was lost at the gateway."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--newest", action="store_true", help="the newest versions of the clients")
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--server", action="append", choices=SERVERS)
    parser.add_argument("--formats", nargs=2, choices=WRITES, default=["hermes", "minimax_m2"], metavar="FORMAT")
    options = parser.parse_args()
    installed = Installation(find_folder(), is_newest=options.newest)
    clients = install_clients(installed, options.client or CLIENTS)
    servers = options.server or list(SERVERS)
    found: dict[tuple[str, str], tuple[Outcome, Outcome]] = {}
    with start_servers(servers) as running:
        for server, url in running:
            for client, through, alone in try_clients(installed, clients, url, options.formats):
                found[client, server] = through, alone
                print(f"{server}, {client}: {through.verdict} / {alone.verdict}", file=sys.stderr, flush=True)
                if through.verdict != "landed":
                    print(through.output, file=sys.stderr)
    print(f"| through the gateway / vLLM alone | {' | '.join(servers)} |\n|{'---|' * (len(servers) + 1)}")
    for client in clients:
        cells = [" / ".join(each.verdict for each in found[client, server]) for server in servers]
        print(f"| {client} {installed.read_version(client)} | {' | '.join(cells)} |")
    return int(any(through.verdict != "landed" for through, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main())
