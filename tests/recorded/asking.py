"""Questions put to the program in a world of its own, and what came of them as JSON values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import answers
from .program import Answer, Answers, Server, World

DATA = Path(__file__).parent / "data"
SESSIONS = DATA / "sessions"
API_KEY = "key-0123456789abcdef"
BASE_PATHS = {"gemini": "/v1beta", "vertex": "/v1/projects/p/locations/l/publishers/google"}
NO_SANDBOX = {"security": {"sandbox": "off"}}
NO_TOOLS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
TEXT_CALL = 'I will look. TOOL_CALL: {"name": "read", "arguments": {"path": "notes.md",}}'
HERMES_CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "notes.md"}}\n</tool_call>'

Scenario = Callable[[World], Any]


def ask(
    world: World,
    answered: list[Answer],
    *options: str,
    asides: Answers | None = None,
    vllm: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    is_terminal: bool = False,
    **sections: Mapping[str, Any],
) -> dict[str, Any]:
    """A run of the program against a server with these answers: exit code, output, and the requests it made."""
    server = Server(answered, answers.serve_vllm_asides() if asides is None else asides)
    provider = str((vllm or {}).get("provider", "vllm"))
    with server.serve() as port:
        base_url = f"http://127.0.0.1:{port}{BASE_PATHS.get(provider, '/v1')}"
        given = {"base_url": base_url, "model": "tiny", "api_key": API_KEY, "retries": 0, **(vllm or {})}
        config = world.configure({**NO_SANDBOX, **sections, "vllm": given})
        ran = world.run("--config", config, *options, stdin=stdin, is_terminal=is_terminal, environment=environment)
    found = {
        "exit_code": ran.code,
        "out": ran.out.splitlines(),
        "err": ran.err.splitlines(),
        "requests": server.requests,
    }
    normal: dict[str, Any] = json.loads(world.normalize(json.dumps(found, ensure_ascii=False), port))
    for request in normal["requests"]:
        request["body"] = _parse_body(request["body"])
    return normal


def _parse_body(body: str) -> Any:
    """The body as JSON where that says all of it: compact JSON, or JSON as json.dumps writes it."""
    if not body:
        return None
    value = json.loads(body)
    if body == json.dumps(value, ensure_ascii=False, separators=(",", ":")):
        return value
    return {"spaced": value} if body == json.dumps(value) else body


def install_session(world: World, journal: str, session: str) -> str:
    world.sessions.mkdir(parents=True, exist_ok=True)
    (world.sessions / f"{session}.jsonl").write_text(journal.replace("{base}", str(world.base)), encoding="utf-8")
    return session


def talk(world: World, answered: list[Answer], *lines: str) -> dict[str, Any]:
    """A chat with these lines typed."""
    text = "".join(f"{line}\n" for line in (*lines, "/exit"))
    return ask(world, answered, "--yes", "--plain", stdin=text, is_terminal=True)


def run_command(*arguments: str, stdin: str = "", **environment: str) -> Scenario:
    def run(world: World) -> Any:
        ran = world.run(*arguments, stdin=stdin, environment=environment)
        text = world.normalize(
            json.dumps({"exit_code": ran.code, "out": ran.out.splitlines(), "err": ran.err.splitlines()})
        )
        return json.loads(text)

    return run


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
