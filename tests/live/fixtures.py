"""The fixtures of `canitoolcall`, said by the rig's model and read through `vllm-bot serve`, or by vLLM's own parser.

    pip install canitoolcall
    python -m tests.live.fixtures URL [URL ...]

URL is a server of the rig with a tool parser, or a gateway in front of it whose settings have `text_protocol.constrained`
off. Each fixture is an answer of one of nine families of models. Those that are whole are asked for on chat completions,
streamed and not, and their calls are compared: names, arguments, order. A thought that the family's prompt opens is opened
by the model here, since the rig's template opens none. Prints for each URL what is not right, and the share that is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import requests

from src.parsing.formats.envelopes import REASONING

AT_ONCE = 4
TIMEOUT_S = 120
MAX_TOKENS = 8_000
NOT_WHOLE = {"truncated", "malformed"}

Call = tuple[str, Any]


class Fixture(NamedTuple):
    id: str
    text: str
    tools: list[dict[str, Any]]
    calls: list[Call]


def read_fixtures() -> Iterator[Fixture]:
    """Those that are whole. Raises ModuleNotFoundError without the package."""
    folder = Path(str(files("canitoolcall"))) / "_data" / "fixtures"
    for path in sorted(folder.glob("*/*.jsonl")):
        settings = json.loads((path.parent / "family.json").read_text(encoding="utf-8"))
        for line in path.read_text(encoding="utf-8").splitlines():
            stored = json.loads(line)
            if "expected" in stored and NOT_WHOLE.isdisjoint(stored["tags"]):
                prompt = stored.get("generation_prompt") or settings.get("default_generation_prompt") or ""
                yield make_fixture(stored, prompt)


def make_fixture(stored: dict[str, Any], prompt: str) -> Fixture:
    openers = (pair.opener for pair in REASONING if prompt.rstrip().endswith(pair.opener.rstrip()))
    calls = [(call["name"], call["arguments"]) for call in stored["expected"].get("tool_calls") or []]
    return Fixture(stored["id"], next(openers, "") + stored["raw_output"], stored["tools"], calls)


def ask(url: str, fixture: Fixture, *, stream: bool) -> list[Call]:
    """The calls of the answer. Raises requests.RequestException."""
    message = f"Do it. @@SCRIPT@@{json.dumps([fixture.text])}@@END@@"
    body: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": message}],
        "max_tokens": MAX_TOKENS,
        "stream": stream,
        **({"tools": fixture.tools} if fixture.tools else {}),
    }
    answer = requests.post(f"{url}/v1/chat/completions", json=body, stream=stream, timeout=TIMEOUT_S)
    answer.raise_for_status()
    if not stream:
        found = answer.json()["choices"][0]["message"].get("tool_calls") or []
        return [read_call(call["function"]["name"], call["function"]["arguments"]) for call in found]
    parts: dict[int, list[str]] = {}
    for line in answer.iter_lines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line.removeprefix(b"data: ")).get("choices", ()):
                for delta in choice["delta"].get("tool_calls") or []:
                    function, name_and_arguments = delta["function"], parts.setdefault(delta["index"], ["", ""])
                    name_and_arguments[0] += function.get("name") or ""
                    name_and_arguments[1] += function.get("arguments") or ""
    return [read_call(name, arguments) for _, (name, arguments) in sorted(parts.items())]


def read_call(name: str, arguments: str) -> Call:
    try:
        return name, json.loads(arguments)
    except ValueError:
        return name, arguments


def judge(url: str, fixture: Fixture) -> list[str]:
    """What is wrong, streamed and whole."""
    wrong = []
    for stream in (False, True):
        try:
            found = ask(url, fixture, stream=stream)
        except requests.RequestException as error:
            wrong.append(f"{fixture.id}, stream={stream}: {error}")
            continue
        if found != fixture.calls:
            wrong.append(f"{fixture.id}, stream={stream}: {fixture.text!r:.200} -> {found!r:.200}")
    return wrong


def main() -> None:
    fixtures = list(read_fixtures())
    for url in sys.argv[1:]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            wrong = [told for each in pool.map(partial(judge, url.rstrip("/")), fixtures) for told in each]
        print("\n".join(wrong))
        asked = 2 * len(fixtures)
        print(f"{url}: {asked - len(wrong)} of {asked} right = {1 - len(wrong) / asked:.4f}")


if __name__ == "__main__":
    main()
