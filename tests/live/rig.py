"""Real vLLM servers for the live tests, started from the rig: each kind once, two at a time at most."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from src.transport.http import find_free_port

from . import cells, grammars

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
AT_ONCE = 2
STOPPED_WITHIN = 60  # seconds
STARTS = 3  # of one server: another program may take its port in the meantime
STARTED_WITHIN = 600  # seconds, on a busy machine; serve.sh itself gives up after about 120
ANSWERED_WITHIN = 30  # seconds
HERMES = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
WRONG = ("--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder")
THINKING = (*HERMES, "--reasoning-parser", "qwen3")
PLUGIN = ("--enable-auto-tool-choice", "--tool-call-parser", "any")
SCALE_OUT = ("--enable-scale-out",)
ENDLESS = "Write without end."
ENDLESS_RULE = {"match": ENDLESS, "turns": [" ".join(map(str, range(4_000)))]}  # more than 8,000 tokens
API_KEY = "live-test-key-0123456789"


class Kind(NamedTuple):
    """A model of the rig, and how it is served. `has_plugin`: vLLM finds this checkout installed beside it."""

    model: str
    flags: tuple[str, ...] = ()
    api_key: str = ""
    has_plugin: bool = False


KINDS = {
    "hermes": Kind("chatml", HERMES),
    "no parser": Kind("chatml", ("--api-key", API_KEY), API_KEY),
    "strict": Kind("strict", ("--max-model-len", "3000")),
    "strict, hermes": Kind("strict", HERMES),
    "thinking": Kind("chatml", THINKING),
    "wrong parser": Kind("chatml", WRONG),
    "strict, wrong parser": Kind("strict", WRONG),
    "strict, thinking": Kind("strict", THINKING),
    "plugin": Kind("chatml", PLUGIN, has_plugin=True),
    "plugin, thinking": Kind(
        "chatml", (*PLUGIN, "--reasoning-parser", "qwen3", "--stream-interval", "8"), has_plugin=True
    ),
    "tokens": Kind("chatml", SCALE_OUT),
    "tokens, wrong parser": Kind("chatml", (*SCALE_OUT, *WRONG)),
    "tokens, strict": Kind("strict", SCALE_OUT),
    "no system role": Kind("strict", ("--chat-template", str(HERE / "no_system.jinja"))),
}


class Server(NamedTuple):
    kind: str
    base_url: str
    api_key: str = ""


class Rig:
    """`folder` holds serve.sh, `models` what make_model.py made; logs and pid files are written to `work`."""

    def __init__(
        self, folder: Path, models: Path, work: Path, kinds: Mapping[str, Kind] = KINDS, at_once: int = AT_ONCE
    ) -> None:
        self._kinds = kinds
        self._at_once = at_once
        self._folder = folder
        self._models = models
        self._work = work
        self._rules = work / "rules.json"
        self._rules.write_text(
            json.dumps(
                [*cells.rules(), *grammars.list_rules(), ENDLESS_RULE, *json.loads((HERE / "rules.json").read_text())]
            )
        )
        self._running: dict[str, tuple[Server, Path]] = {}  # with its pid file; the last used is the last

    def server(self, name: str) -> Server:
        if name not in self._running:
            if len(self._running) == self._at_once:
                self._stop(next(iter(self._running)))
            self._start(name)
        self._running[name] = self._running.pop(name)
        return self._running[name][0]

    def stop(self) -> None:
        for name in list(self._running):
            self._stop(name)

    def _start(self, name: str) -> None:
        """Raises RuntimeError."""
        kind = self._kinds[name]
        model = self._work / kind.model
        if not model.exists():  # serve.sh writes beside the model
            shutil.copytree(self._models / kind.model, model, ignore=shutil.ignore_patterns("*.log", "*.pid"))
        environment = {**os.environ, "RIG_RULES": str(self._rules)}
        if kind.has_plugin:
            environment["RIG_VENV"] = str(self._make_environment())
        for _ in range(STARTS):
            port = find_free_port()
            root, pid_file = f"http://127.0.0.1:{port}", model / f"{port}.pid"
            self._running[name] = Server(name, f"{root}/v1", kind.api_key), pid_file
            command = [str(self._folder / "serve.sh"), str(model), str(port), *kind.flags]
            try:
                subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                if pid_file.exists() and becomes_healthy(root, int(pid_file.read_text())):
                    warm_up(self._running[name][0])
                    return
            except BaseException:  # an interrupt, too, leaves no server behind
                self._stop(name)
                raise
            self._stop(name)
        raise RuntimeError(f"The server {name!r} does not start: {' '.join(command)}")

    def _make_environment(self) -> Path:
        """A virtual environment with the rig's packages and this checkout, as `pip install` would leave it."""
        made = self._work / "venv"
        if made.exists():
            return made
        python = Path(os.environ.get("RIG_VENV", "~/rig/venv")).expanduser() / "bin" / "python"
        subprocess.run([str(python), "-m", "venv", "--without-pip", str(made)], check=True)
        (packages,) = made.glob("lib/python*/site-packages")
        find_packages = "import sysconfig; print(sysconfig.get_path('purelib'))"
        rig = subprocess.run([str(python), "-c", find_packages], capture_output=True, text=True, check=True).stdout
        (packages / "rig.pth").write_text(f"import site; site.addsitedir({rig.strip()!r})\n")
        (packages / "vllm_bot").symlink_to(ROOT / "src")
        metadata = packages / "vllm_bot-0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-bot\nVersion: 0\n")
        project = (ROOT / "pyproject.toml").read_text()
        group, entry = re.findall(r'\[project\.entry-points\."(.+)"\]\n(.+)', project)[0]
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
        command = made / "bin" / "vllm"
        command.write_text(
            f"#!{made}/bin/python\nfrom vllm.entrypoints.cli.main import main\n"
            "if __name__ == '__main__':\n    main()\n"  # vLLM starts its processes from this file again
        )
        command.chmod(0o755)
        return made

    def _stop(self, name: str) -> None:
        _, pid_file = self._running.pop(name)
        if pid_file.exists():
            end_process(int(pid_file.read_text()))
            pid_file.unlink()


def does_answer(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=ANSWERED_WITHIN).close()
    except OSError:
        return False
    return True


def becomes_healthy(root: str, pid: int) -> bool:
    """Wait until the server at `root` answers; False if its process ends before, or takes too long."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        for _ in range(STARTED_WITHIN):
            if does_answer(f"{root}/health"):
                return True
            if select.select([handle], [], [], 1)[0]:
                break
    finally:
        os.close(handle)
    return False


def warm_up(server: Server) -> None:
    """Ask a long question first: on a processor with AMX, vLLM 0.32 dies of a short one.

    Its matrix products ask the kernel for AMX, which only a long prompt has them use. Its attention uses it without.
    """
    body = json.dumps({"model": "tiny", "prompt": "word " * 300, "max_tokens": 1}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.api_key}"}
    request = urllib.request.Request(f"{server.base_url}/completions", body, headers)
    urllib.request.urlopen(request, timeout=STARTED_WITHIN).close()


def end_process(pid: int) -> None:
    """Ask a process to end, and wait until it has; it need not be a child of ours."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], STOPPED_WITHIN)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
