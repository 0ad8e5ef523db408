"""Tasks of a call and an answer for a very small model on llama.cpp's server, with guards and without them.

    python -m tests.benchmarks.small_model SERVER_URL [--tasks 12]

SERVER_URL is without /v1. SmolLM2-135M calls no tool for a question alone. So each task follows one that is done already,
in the same conversation. Straight at the server a plain loop reads the calls that the server gives; the same loop runs
through `vllm-bot serve`, with every guard and with none; then the loop of the library runs. Temperature 0.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from src import Agent, Conversation, tool
from src.config.settings import GUARDS
from src.types.messages import Response, Text, ToolCall, ToolResult, ToolResults, UserMessage
from tests.benchmarks.interventions import running_gateway

NUMBERS = {
    "Anna": "17", "Bob": "42", "Clara": "93", "David": "65", "Emma": "28", "Frank": "74", "Grace": "31", "Henry": "86",
    "Ida": "59", "Jack": "12", "Karl": "77", "Lena": "46",
}  # fmt: skip
DONE = ("Zoe", "24")  # the example
SYSTEM = "Use get_number to find the number of a person. Then answer."
QUESTION = "What is the number of {}?"
ANSWER = "The number of {} is {}."
MAX_TOKENS, MAX_ROUNDS = 60, 6
TOOL = {
    "type": "function",
    "function": {
        "name": "get_number",
        "description": "Get the number of a person.",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}


def find_number(name: str) -> str:
    found = [number for person, number in NUMBERS.items() if person.lower() == name.strip().lower()]
    return found[0] if found else f"error: there is no person {name!r}"


def make_example() -> list[dict[str, Any]]:
    person, number = DONE
    function = {"name": "get_number", "arguments": json.dumps({"name": person})}
    call = {"id": "call_0", "type": "function", "function": function}
    return [
        {"role": "user", "content": QUESTION.format(person)},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": number},
        {"role": "assistant", "content": ANSWER.format(person, number)},
    ]


def run_plainly(url: str, person: str) -> tuple[str, int]:
    """The answer of a loop without any guard, and how many calls it ran."""
    messages = [{"role": "system", "content": SYSTEM}, *make_example()]
    messages.append({"role": "user", "content": QUESTION.format(person)})
    calls = 0
    for _ in range(MAX_ROUNDS):
        body = {"model": "m", "messages": messages, "tools": [TOOL], "temperature": 0, "max_tokens": MAX_TOKENS}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=600) as reply:
            message = json.load(reply)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message.get("content") or "", calls
        for call in message["tool_calls"]:
            calls += 1
            given = json.loads(call["function"]["arguments"])
            result = find_number(str(given.get("name", "")) if isinstance(given, dict) else "")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return "", calls


@tool(risk="low")
def get_number(name: str) -> str:
    """Get the number of a person."""
    return find_number(name)


def run_by_library(url: str, person: str) -> tuple[str, int]:
    done, number = DONE
    call = ToolCall("call_0", "get_number", {"name": done})
    example = Conversation(
        [
            UserMessage(QUESTION.format(done)),
            Response((call,)),
            ToolResults((ToolResult(call.id, call.name, "text", number),)),
            Response((Text(ANSWER.format(done, number)),)),
        ]
    )
    fields: dict[str, Any] = {"temperature": 0, "max_tokens": MAX_TOKENS, "max_tool_turns": MAX_ROUNDS}
    with Agent.connect(f"{url}/v1", tools=[get_number], system=SYSTEM, conversation=example, **fields) as agent:
        answer = agent.answer(QUESTION.format(person), raise_on_limit=False)
    return answer.text, len(answer.calls)


def measure(title: str, run: Callable[[str, str], tuple[str, int]], url: str, count: int) -> None:
    finished, calls, began = [], 0, time.monotonic()
    for person, number in list(NUMBERS.items())[:count]:
        text, made = run(url, person)
        calls += made
        if number in text and made:
            finished.append(person)
    seconds = time.monotonic() - began
    print(f"| {title} | {len(finished)} | {calls} | {seconds:.0f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--tasks", type=int, default=len(NUMBERS))
    args = parser.parse_args()
    print(f"{args.tasks} tasks of a call and an answer\n\n| way | finished | calls | time |\n|---|---|---|---|")
    measure("straight", run_plainly, args.server, args.tasks)
    for title, guards in (("serve, no guards", ()), ("serve, every guard", GUARDS)):
        with running_gateway(args.server, guards) as gateway:
            measure(title, run_plainly, gateway, args.tasks)
    measure("our loop", run_by_library, args.server, args.tasks)


if __name__ == "__main__":
    main()
