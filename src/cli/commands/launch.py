"""`vllm-bot launch`: run another program on the gateway, for one run. See docs/serve.md.

Its environment and a temporary folder hold all that it needs to know, so that nothing is written into the home.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from ...app.address import complete_address
from ...app.factory import Factory
from ...app.state_files import SERVERS
from ...config import Settings
from ...errors import ConfigError
from ...transport.http import find_free_port, find_open_ports
from ..load_settings import load_settings
from .serve import explain_missing

START_TIMEOUT_S = 120.0  # a gateway that ends is told at once
POLL_S = 0.1
NO_KEY = "none"  # programs insist on one
CONTEXT_TOKENS, ANSWER_TOKENS = 131_072, 8192  # what opencode is told where the server tells no context


# How a program is run: words of its command, and variables of its environment.
ClientCommand = tuple[list[str], Mapping[str, str]]


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", choices=sorted(PROGRAMS), help="what to run")
    parser.epilog = "What stands after -- goes to the program."


def run_launch(options: argparse.Namespace) -> int:
    """Returns the program's exit code. Raises BotError."""
    settings = load_settings(options)
    make_command, package = PROGRAMS[options.program]
    binary = shutil.which(options.program)
    if binary is None:
        raise ConfigError(f"{options.program} is not installed.", f"Its package: npm install -g {package}")
    settings, _ = complete_address(settings)
    connections = Factory(settings).connections
    model = connections.choose_model()
    context = connections.list_models().get(model)
    with TemporaryDirectory(prefix="vllm-bot-launch-") as scratch, _run_gateway(settings, Path(scratch)) as address:
        words, variables = make_command(address, model, Path(scratch), context)
        return _run([binary, *words, *options.passed], {**os.environ, **variables})


def _run(command: list[str], environment: Mapping[str, str]) -> int:
    """The exit code, 128 and its number for a signal. Ctrl-C is for the program, and SIGTERM is passed on to it."""
    program: subprocess.Popen[bytes] | None = None
    is_ended = False

    def end(number: int, _: object) -> None:
        nonlocal is_ended
        is_ended = True
        if program:
            program.send_signal(number)

    signal.signal(signal.SIGINT, lambda *_: None)  # before the start: the program may be there, and Popen not be back
    signal.signal(signal.SIGTERM, end)
    program = subprocess.Popen(command, env=environment)  # noqa: S603 - what the user named
    if is_ended:
        end(signal.SIGTERM, None)
    code = program.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _run_gateway(settings: Settings, folder: Path) -> Iterator[str]:
    """A gateway in front of the configured server, until the end of the block; its address, without /v1.

    What is known of servers is copied into `folder`, and what the gateway learns stays there.
    """
    port = find_free_port()
    listen = f"127.0.0.1:{port}"
    with suppress(OSError):
        shutil.copy(settings.state / SERVERS, folder)
    served = replace(settings, state=folder, serve=replace(settings.serve, listen=listen, workers=1, keys=""))
    with explain_missing():
        from ...serve.run import serve_forever
        from ...serve.workers import block_interrupts

    process = multiprocessing.get_context("spawn").Process(target=serve_forever, args=(served,))
    with block_interrupts():
        process.start()
    try:
        _wait_for(port, process)
        yield f"http://{listen}"
    finally:
        process.terminate()
        process.join()


def _wait_for(port: int, process: SpawnProcess) -> None:
    """Raises ConfigError if the gateway ends."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not find_open_ports([port]):
        if time.monotonic() > deadline or not process.is_alive():
            raise ConfigError("The gateway did not start.", "`vllm-bot serve` says why.")
        time.sleep(POLL_S)


# Each gets the gateway's address without /v1, the model, a temporary folder, and the model's context in tokens.


def _launch_claude(address: str, model: str, _: Path, context: int | None) -> ClientCommand:
    environment = {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": NO_KEY,
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_SMALL_FAST_MODEL": model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "off",  # another number in each request would end the prefix cache
        **({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(context)} if context else {}),
    }
    return [], environment


def _launch_codex(address: str, model: str, _: Path, context: int | None) -> ClientCommand:
    provider = f'{{name="vllm-bot",base_url="{address}/v1",wire_api="responses"}}'
    settings = {"model": json.dumps(model), "model_provider": '"vllm-bot"', "model_providers.vllm-bot": provider}
    if context:
        settings["model_context_window"] = str(context)
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")], {}


def _launch_opencode(address: str, model: str, folder: Path, context: int | None) -> ClientCommand:
    name = f"vllm-bot/{model}"
    window = context or CONTEXT_TOKENS
    limit = {"context": window, "output": min(ANSWER_TOKENS, window // 4)}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{address}/v1", "apiKey": NO_KEY},
        "models": {model: {"limit": limit}},
    }
    config = {"autoupdate": False, "model": name, "small_model": name, "provider": {"vllm-bot": provider}}
    (folder / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    environment = {"OPENCODE_CONFIG": str(folder / "opencode.json"), "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    return [], environment


def _launch_copilot(address: str, model: str, _: Path, __: int | None) -> ClientCommand:
    environment = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{address}/v1",
        "COPILOT_MODEL": model,
        "COPILOT_AUTO_UPDATE": "false",
    }
    return [], environment


# How each program is run, and the package that it is installed with.
PROGRAMS: Mapping[str, tuple[Callable[[str, str, Path, int | None], ClientCommand], str]] = {
    "claude": (_launch_claude, "@anthropic-ai/claude-code"),
    "codex": (_launch_codex, "@openai/codex"),
    "opencode": (_launch_opencode, "opencode-ai"),
    "copilot": (_launch_copilot, "@github/copilot"),
}
