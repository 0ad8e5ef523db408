"""Tasks of two calls for a very small model on llama.cpp's server, with guards and without them.

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

PEOPLE = {
    "Anna": ("A12", "17"), "Bob": ("B34", "42"), "Clara": ("C56", "93"), "David": ("D78", "65"), "Emma": ("E90", "28"),
    "Frank": ("F21", "74"), "Grace": ("G43", "31"), "Henry": ("H65", "86"), "Ida": ("I87", "59"), "Jack": ("J09", "12"),
    "Karl": ("K31", "77"), "Lena": ("L53", "46"),
}  # fmt: skip
DONE = ("Zoe", "Z11", "24")  # the example
SYSTEM = "Use get_id to find the id of a person. Then use get_age with that id. Then answer."
QUESTION = "How old is {}?"
MAX_TOKENS, MAX_ROUNDS = 60, 6
PARAMETERS = {"get_id": "name", "get_age": "id"}


def run_tool(name: str, value: str) -> str:
    if name == "get_id":
        found = [id_ for person, (id_, _) in PEOPLE.items() if person.lower() == value.strip().lower()]
        return found[0] if found else f"error: there is no person {value!r}"
    found = [age for id_, age in PEOPLE.values() if id_.lower() == value.strip().lower()]
    return found[0] if found else f"error: there is no id {value!r}"


def make_example() -> list[dict[str, Any]]:
    person, id_, age = DONE
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION.format(person)}]
    for number, (name, given, result) in enumerate((("get_id", person, id_), ("get_age", id_, age))):
        function = {"name": name, "arguments": json.dumps({PARAMETERS[name]: given})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
    return [*messages, {"role": "assistant", "content": f"{person} is {age} years old."}]


def run_plainly(url: str, person: str) -> tuple[str, int]:
    """The answer of a loop without any guard, and how many calls it ran."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"{name.replace('_', ' ')} of a person.",
                "parameters": {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]},
            },
        }
        for name, key in PARAMETERS.items()
    ]
    messages = [{"role": "system", "content": SYSTEM}, *make_example()]
    messages.append({"role": "user", "content": QUESTION.format(person)})
    calls = 0
    for _ in range(MAX_ROUNDS):
        body = {"model": "m", "messages": messages, "tools": tools, "temperature": 0, "max_tokens": MAX_TOKENS}
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
            value = given.get(PARAMETERS.get(call["function"]["name"], ""), "") if isinstance(given, dict) else ""
            result = run_tool(call["function"]["name"], str(value))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return "", calls


@tool(risk="low")
def get_id(name: str) -> str:
    """Get the id of a person."""
    return run_tool("get_id", name)


@tool(risk="low")
def get_age(id: str) -> str:
    """Get the age of a person."""
    return run_tool("get_age", id)


def run_by_library(url: str, person: str) -> tuple[str, int]:
    done, id_, age = DONE
    calls = [ToolCall("call_0", "get_id", {"name": done}), ToolCall("call_1", "get_age", {"id": id_})]
    results = [ToolResult(call.id, call.name, "text", text) for call, text in zip(calls, (id_, age), strict=True)]
    example = Conversation([UserMessage(QUESTION.format(done))])
    for call, result in zip(calls, results, strict=True):
        example += [Response((call,)), ToolResults((result,))]
    example.append(Response((Text(f"{done} is {age} years old."),)))
    fields: dict[str, Any] = {"temperature": 0, "max_tokens": MAX_TOKENS, "max_tool_turns": MAX_ROUNDS}
    with Agent.connect(f"{url}/v1", tools=[get_id, get_age], system=SYSTEM, conversation=example, **fields) as agent:
        answer = agent.answer(QUESTION.format(person), raise_on_limit=False)
    return answer.text, len(answer.calls)


def measure(title: str, run: Callable[[str, str], tuple[str, int]], url: str, count: int) -> None:
    finished, calls, began = [], 0, time.monotonic()
    for person, (_, age) in list(PEOPLE.items())[:count]:
        text, made = run(url, person)
        calls += made
        if age in text and made >= len(PARAMETERS):
            finished.append(person)
    seconds = time.monotonic() - began
    print(f"| {title} | {len(finished)} | {calls} | {seconds:.0f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--tasks", type=int, default=len(PEOPLE))
    args = parser.parse_args()
    print(f"{args.tasks} tasks of two calls\n\n| way | finished | calls | time |\n|---|---|---|---|")
    measure("straight", run_plainly, args.server, args.tasks)
    for title, guards in (("serve, no guards", ()), ("serve, every guard", GUARDS)):
        with running_gateway(args.server, guards) as gateway:
            measure(title, run_plainly, gateway, args.tasks)
    measure("our loop", run_by_library, args.server, args.tasks)


if __name__ == "__main__":
    main()
