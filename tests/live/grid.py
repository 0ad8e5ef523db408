"""Each row of the table of formats, as a real vLLM server's model writes it, read by real SDKs through `vllm-bot serve`.

    PYTHONPATH=. ~/rig/venv/bin/python -m tests.live.grid GATEWAY [--scenarios N] [--out FILE]

GATEWAY is the address of a gateway in front of a server of the rig, whose model says what the message scripts. Under the
grammar of a format that the gateway has learned from another row it cannot: in front of a server without a tool parser,
the settings of the gateway have `text_protocol.constrained: off`. The packages openai and anthropic come with vLLM. Each
row is asked in N scenarios (2, in turns; 9 is all), in three APIs, streamed and whole.
A cell is one of:

- right: the calls with exact arguments, and the text around them, but for white space.
- extra text, text cut: the calls are right, and the text is not.
- as text: no call, and what the model wrote is shown.
- lost: no call, and it is not shown either. partly: one call of two. wrong: another call. error: an error.

Exits with 1 if anything is wrong or lost.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from src.parsing.formats.table import FORMATS, Format

AT_ONCE = 4
TIMEOUT_S = 120.0
MAX_TOKENS = 2_000
APIS = ("chat", "responses", "messages")
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
TOOLS: Mapping[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": TEXT,
            "days": {"type": "integer"},
            "hourly": {"type": "boolean"},
            "unit": {"type": ["string", "null"]},
        },
        "required": ["city"],
    },
    "write_file": {
        "type": "object",
        "properties": {"path": TEXT, "content": TEXT},
        "required": ["path", "content"],
    },
    "plan": {
        "type": "object",
        "properties": {
            "title": TEXT,
            "steps": TEXTS,
            "options": {"type": "object", "properties": {"depth": {"type": "integer"}, "tags": TEXTS}},
        },
        "required": ["title"],
    },
    "now": {"type": "object", "properties": {}},
}
CODE = (
    'def f(a, b):\n    """Says "x" & <b>y</b>."""\n    if a < b and b > 3:\n        return {"a": [1, 2], \'k\': "v"}\n'
    "    return None\n\n\nprint(f(1, 2))  # done\n"
)
NOTES = "A heron stands in the reeds and waits for the fish that will come soon.\n- one\n- two"
OPTIONS = {"depth": 2, "tags": ["a", "b"]}


class Scenario(NamedTuple):
    """What the model says: text, calls, text."""

    calls: tuple[tuple[str, dict[str, Any]], ...]
    before: str = ""
    after: str = ""

    def write(self, row: Format) -> str:
        return self.before + "\n".join(row.write(name, arguments) for name, arguments in self.calls) + self.after


SCENARIOS = {
    "plain": Scenario((("get_weather", {"city": "Oslo"}),)),
    "typed": Scenario((("get_weather", {"city": "São Paulo", "days": 3, "hourly": True}),), "I will look.\n"),
    "null": Scenario((("get_weather", {"city": "Rome", "unit": None}),)),
    "code": Scenario((("write_file", {"path": "src/a.py", "content": CODE}),), "Let me write it.\n\n"),
    "text after": Scenario(
        (("write_file", {"path": "notes.md", "content": NOTES}),), after="\n\nI wait for the result."
    ),
    "two calls": Scenario((("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen", "days": 2}))),
    "two tools": Scenario((("write_file", {"path": "a", "content": "x"}), ("plan", {"title": "t"}))),
    "nested": Scenario((("plan", {"title": "Trip", "steps": ["pack", "go, then rest"], "options": OPTIONS}),)),
    "no arguments": Scenario((("now", {}),)),
}


class Answer(NamedTuple):
    """`calls` are names and arguments as JSON text."""

    text: str
    calls: list[tuple[str, str]]


class Cell(NamedTuple):
    row: Format
    scenario: str
    api: str
    stream: bool


class Clients:
    """The SDKs, without their own retries."""

    def __init__(self, address: str) -> None:
        import anthropic
        import openai

        settings: dict[str, Any] = {"api_key": "x", "max_retries": 0, "timeout": TIMEOUT_S}
        self._openai = openai.OpenAI(base_url=f"{address}/v1", **settings)
        self._anthropic = anthropic.Anthropic(base_url=address, **settings)
        self.errors = (openai.OpenAIError, anthropic.AnthropicError, RuntimeError, ValueError)

    def ask(self, api: str, stream: bool, message: str) -> Answer:
        by_api = {"chat": self._ask_chat, "responses": self._ask_responses, "messages": self._ask_messages}
        return by_api[api](stream, message)

    def _ask_chat(self, stream: bool, message: str) -> Answer:
        functions = [{"name": name, "description": name, "parameters": schema} for name, schema in TOOLS.items()]
        request: dict[str, Any] = {
            "model": "tiny",
            "messages": [{"role": "user", "content": message}],
            "tools": [{"type": "function", "function": function} for function in functions],
            "max_tokens": MAX_TOKENS,
        }
        if not stream:
            said = self._openai.chat.completions.create(**request).choices[0].message
            calls = [(call.function.name, call.function.arguments) for call in said.tool_calls or []]
            return Answer(said.content or "", calls)
        text, parts = "", dict[int, list[str]]()
        for chunk in self._openai.chat.completions.create(stream=True, **request):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for delta in choice.delta.tool_calls or []:
                    name_and_arguments = parts.setdefault(delta.index, ["", ""])
                    name_and_arguments[0] += delta.function.name or ""
                    name_and_arguments[1] += delta.function.arguments or ""
        return Answer(text, [(name, arguments) for _, (name, arguments) in sorted(parts.items())])

    def _ask_responses(self, stream: bool, message: str) -> Answer:
        tools = [
            {"type": "function", "name": name, "description": name, "parameters": schema}
            for name, schema in TOOLS.items()
        ]
        request: dict[str, Any] = {"model": "tiny", "input": message, "tools": tools, "max_output_tokens": MAX_TOKENS}
        if stream:
            with self._openai.responses.stream(**request) as events:
                events.until_done()
                response = events.get_final_response()
        else:
            response = self._openai.responses.create(**request)
        calls = [(item.name, item.arguments) for item in response.output if item.type == "function_call"]
        return Answer(response.output_text, calls)

    def _ask_messages(self, stream: bool, message: str) -> Answer:
        request: dict[str, Any] = {
            "model": "tiny",
            "max_tokens": MAX_TOKENS,
            "messages": [{"role": "user", "content": message}],
            "tools": [{"name": name, "description": name, "input_schema": schema} for name, schema in TOOLS.items()],
        }
        if stream:
            with self._anthropic.messages.stream(**request) as events:
                said = events.get_final_message()
        else:
            said = self._anthropic.messages.create(**request)
        text = "".join(block.text for block in said.content if block.type == "text")
        return Answer(text, [(each.name, json.dumps(each.input)) for each in said.content if each.type == "tool_use"])


def judge(answer: Answer, scenario: Scenario, written: str) -> str:
    try:
        calls = [(name, json.loads(arguments)) for name, arguments in answer.calls]
    except ValueError:
        return "wrong"
    shown, expected = join_words(answer.text), join_words(scenario.before + scenario.after)
    if calls == list(scenario.calls):
        if shown == expected:
            return "right"
        return "extra text" if len(shown) > len(expected) else "text cut"
    if not calls:
        return "as text" if join_words(written) in shown else "lost"
    return "partly" if all(call in scenario.calls for call in calls) else "wrong"


def join_words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def ask_cell(clients: Clients, cell: Cell) -> dict[str, Any]:
    scenario = SCENARIOS[cell.scenario]
    written = scenario.write(cell.row)
    found: dict[str, Any] = {"row": cell.row.name, "scenario": cell.scenario, "api": cell.api, "stream": cell.stream}
    try:
        answer = clients.ask(cell.api, cell.stream, f"Do it. @@SCRIPT@@{json.dumps([written])}@@END@@")
    except clients.errors as error:
        return {**found, "verdict": "error", "error": repr(error)}
    return {**found, "verdict": judge(answer, scenario, written), "written": written, "answer": answer}


def list_cells(count: int) -> list[Cell]:
    names = list(SCENARIOS)
    return [
        Cell(row, names[(number * count + turn) % len(names)], api, stream)
        for number, row in enumerate(FORMATS)
        for turn in range(min(count, len(names)))
        for api in APIS
        for stream in (False, True)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("--scenarios", type=int, default=2)
    parser.add_argument("--out", type=Path, help="one JSON line a cell")
    options = parser.parse_args()
    clients = Clients(options.gateway.rstrip("/"))
    cells = list_cells(options.scenarios)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = list(pool.map(lambda cell: ask_cell(clients, cell), cells))
    if options.out:
        options.out.write_text("".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in judged))
    counts = Counter(each["verdict"] for each in judged)
    for each in judged:
        if each["verdict"] != "right":
            print(f"{each['verdict']}: {each['row']}, {each['scenario']}, {each['api']}, stream={each['stream']}")
    print(f"{counts['right']} of {len(cells)} right = {counts['right'] / len(cells):.4f}; {dict(counts)}")
    return 1 if counts["wrong"] or counts["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
