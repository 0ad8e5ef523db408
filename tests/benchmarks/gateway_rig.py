"""The gateway in front of a real vLLM server: requests of clients that left, and the prompt cache of a second turn.

    python -m tests.benchmarks.gateway_rig GATEWAY_URL SERVER_URL      both without /v1, of a server that is idle

The model is to be that of the rig (tests/live/rig.py), which writes what a script in the message says. The prompt is as
Claude Code writes it: a block with a hash of each request first, then the system prompt and the tools.
"""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
RUNNING, HITS = "vllm:num_requests_running", "vllm:prefix_cache_hits_total"
CALL = 'TOOL_CALL: {"name": "tool_1", "args": {"path": "a.txt"}}'


def read_metric(server: str, name: str) -> float:
    with urllib.request.urlopen(f"{server}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))


def measure_gone(gateway: str, server: str) -> float:
    """Seconds from the end of a client's connection to the server's being idle."""
    tool = {"type": "function", "function": {"name": "read", "parameters": SCHEMA}}
    message = {"role": "user", "content": f"Something random: {time.time()}"}
    fields = {"model": "tiny", "stream": True, "max_tokens": 4000, "ignore_eos": True}
    body = json.dumps({**fields, "tools": [tool], "messages": [message]}).encode()
    where, received = urlsplit(gateway), b""
    with socket.create_connection((where.hostname or "", where.port or 80)) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        while received.count(b"data:") < 5:
            received += client.recv(4096)
        assert read_metric(server, RUNNING) == 1, "the server is not idle"
    began = time.monotonic()
    while read_metric(server, RUNNING):
        pass
    return time.monotonic() - began


def ask(gateway: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    hashed = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={time.monotonic_ns()};"}
    system = {"type": "text", "text": "You are a coding agent. " * 150, "cache_control": {"type": "ephemeral"}}
    tools = [
        {"name": f"tool_{number}", "description": "It does a thing. " * 20, "input_schema": SCHEMA}
        for number in range(12)
    ]
    body = {"model": "tiny", "max_tokens": 60, "system": [hashed, system], "tools": tools, "messages": messages}
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{gateway}/v1/messages", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer


def measure_cache(gateway: str, server: str) -> float:
    """The part of the first turn's prompt that the second turn found in the server's cache."""
    script = f"Read it, {time.time()}. @@SCRIPT@@{json.dumps([CALL, 'done'])}@@END@@"
    messages: list[dict[str, Any]] = [{"role": "user", "content": script}]
    first = ask(gateway, messages)
    hits = read_metric(server, HITS)
    result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "It says hi."}
    messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    ask(gateway, messages)
    return (read_metric(server, HITS) - hits) / float(first["usage"]["input_tokens"])


if __name__ == "__main__":
    gone = sorted(measure_gone(*sys.argv[1:3]) for _ in range(5))
    print(f"client gone: the server is idle after {gone[2]:.2f} s (median), {gone[-1]:.2f} s at most")
    print(f"second turn: {measure_cache(*sys.argv[1:3]):.1%} of the first prompt's tokens are cached")
