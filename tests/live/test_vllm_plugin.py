"""The tool parser `any` inside real servers: calls land for the SDKs of three APIs, in each format, forced or not."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from .rig import Server

RIG = Path(os.environ.get("VLLM_BOT_RIG", ""))
SDK_PYTHON = Path(os.environ.get("RIG_VENV", "~/rig/venv")).expanduser() / "bin" / "python"  # has the clients' SDKs
BOTH = pytest.mark.parametrize("server", ["plugin", "plugin, thinking"], indirect=True)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"type": "function", "function": {"name": "read", "parameters": SCHEMA}}
PATHS = ["a.txt", "b.txt", "c.txt"]
HERMES = "\n".join(
    f'<tool_call>\n{{"name": "read", "arguments": {{"path": "{path}"}}}}\n</tool_call>' for path in PATHS
)
CODER = "\n".join(
    f"<tool_call>\n<function=read>\n<parameter=path>\n{path}\n</parameter>\n</function>\n</tool_call>" for path in PATHS
)
FORCED = json.dumps([{"name": "read", "parameters": {"path": path}} for path in PATHS])
NAMED = {"type": "function", "function": {"name": "read"}}


def ask(server: Server, says: str, *, stream: bool, tool_choice: Any = "auto") -> tuple[list[tuple[str, str]], str]:
    """The calls and the finish reason of an answer in which the model says this."""
    thought = "I call a tool.</think>" if "thinking" in server.kind else ""
    body = {
        "model": "tiny", "stream": stream, "max_tokens": 400, "tools": [TOOL], "tool_choice": tool_choice,
        "messages": [{"role": "user", "content": f"@@SCRIPT@@{json.dumps([thought + says])}@@END@@"}],
    }  # fmt: skip
    url, headers = f"{server.base_url}/chat/completions", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
        data = reply.read().decode()
    if not stream:
        choice = json.loads(data)["choices"][0]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"]["tool_calls"]]
        return calls, choice["finish_reason"]
    found: dict[int, list[str]] = {}
    reason = ""
    for line in data.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            reason = choice["finish_reason"] or reason
            for piece in choice["delta"].get("tool_calls") or ():
                call = found.setdefault(piece["index"], ["", ""])
                call[0] += piece["function"].get("name") or ""
                call[1] += piece["function"].get("arguments") or ""
    return [(name, arguments) for name, arguments in found.values()], reason


@pytest.mark.parametrize("server", ["plugin"], indirect=True)
def test_each_call_lands_for_the_sdks_of_three_apis(server):
    matrix = [str(SDK_PYTHON), str(RIG / "client_matrix.py"), f"here={server.base_url.removesuffix('/v1')}"]
    done = subprocess.run(matrix, capture_output=True, text=True, check=True)
    landed = json.loads(done.stdout.splitlines()[-1])
    assert landed == {"here": {"chat": 20, "messages": 20, "responses": 20}}, done.stdout


@BOTH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("says", [HERMES, CODER], ids=["hermes", "qwen3_coder"])
def test_three_calls_in_a_row_land(server, says, stream):
    calls, reason = ask(server, says, stream=stream)
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [("read", {"path": path}) for path in PATHS]
    assert reason == "tool_calls"


@BOTH
@pytest.mark.parametrize("stream", [True, False])
def test_calls_that_are_required_land(server, stream):
    calls, _ = ask(server, FORCED, stream=stream, tool_choice="required")
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [("read", {"path": path}) for path in PATHS]


@BOTH
@pytest.mark.parametrize("stream", [True, False])
def test_a_call_of_a_named_tool_lands(server, stream):
    ((name, arguments),), _ = ask(server, '{"path": "a.txt"}', stream=stream, tool_choice=NAMED)
    assert (name, json.loads(arguments)) == ("read", {"path": "a.txt"})
