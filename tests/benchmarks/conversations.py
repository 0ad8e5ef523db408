"""1,000 conversations at once on asyncio, beside bare aiohttp: errors, and CPU time a turn.

    python -m tests.benchmarks.conversations [--rounds N] [--conversations N]

Each conversation has two turns: a call of an asynchronous tool, and an answer of 26 chunks. The server is a process of
its own, and as fast as aiohttp can be: it sends each answer in one write. The bare client sends the same conversation,
reads the stream as JSON, and runs the call; it holds no conversation for later, and checks nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tests.benchmarks.measure import ROOT, Row, print_table, require_byte_code

CONVERSATIONS, ROUNDS, BAR = 1_000, 3, 2.0

SERVER = r"""
import json
from aiohttp import web

def encode(*choices):
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    chunks = [{**head, "choices": [{"index": 0, "logprobs": None, **choice}]} for choice in choices]
    usage = {**head, "choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 24, "total_tokens": 74}}
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in [*chunks, usage]) + b"data: [DONE]\n\n"

call = {"id": "chatcmpl-tool-1", "type": "function", "index": 0, "function": {"name": "weather", "arguments": ""}}
CALL = encode(
    {"delta": {"role": "assistant", "content": ""}, "finish_reason": None},
    {"delta": {"tool_calls": [call]}, "finish_reason": None},
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Oslo"}'}}]}, "finish_reason": None},
    {"delta": {}, "finish_reason": "tool_calls"},
)
TEXT = "Yes, take one: it is going to rain in Oslo until the evening, and there is a strong wind from the west as well."
ANSWER = encode(
    {"delta": {"role": "assistant", "content": ""}, "finish_reason": None},
    *({"delta": {"content": f" {word}"}, "finish_reason": None} for word in TEXT.split()),
    {"delta": {}, "finish_reason": "stop"},
)

async def chat(request):
    messages = (await request.json())["messages"]
    body = ANSWER if messages[-1]["role"] == "tool" else CALL
    return web.Response(body=body, content_type="text/event-stream")

async def models(request):
    return web.json_response({"data": [{"id": "tiny", "max_model_len": 16384}]})

async def tokenize(request):
    body = await request.json()
    return web.json_response({"tokens": [1] * (90 if body.get("tools") else 40), "count": 1, "max_model_len": 16384})

app = web.Application()
app.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", models), web.post("/tokenize", tokenize)])
web.run_app(app, host="127.0.0.1", port=0, access_log=None, print=lambda text: print(text, flush=True), backlog=4096)
"""

# argv: the address, how many conversations. Prints the CPU seconds of all of them, and how many failed.
OURS = """
import asyncio, sys, time
from src import AsyncServer, tool

@tool(risk="low")
async def weather(city: str) -> str:
    "The weather in a city, now."
    return f"{city}: rain"

async def ask(server):
    result = await server.agent([weather]).answer("Do I need an umbrella in Oslo?")
    assert result.text.endswith("west as well.") and len(result.calls) == 1

async def main():
    async with AsyncServer(sys.argv[1]) as server:
        await ask(server)  # once unmeasured: modules are loaded
        start = time.process_time()
        results = await asyncio.gather(*(ask(server) for _ in range(int(sys.argv[2]))), return_exceptions=True)
        print(time.process_time() - start, sum(result is not None for result in results))

asyncio.run(main())
"""
BARE = r"""
import asyncio, json, sys, time
import aiohttp

SYSTEM = "You are a helpful assistant. Use the tools to look and to act, rather than guessing."
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
function = {"name": "weather", "description": "The weather in a city, now.", "parameters": parameters}
tools = [{"type": "function", "function": function}]

async def weather(city):
    return f"{city}: rain"

async def ask(session):
    messages = [
        {"role": "system", "content": SYSTEM}, {"role": "user", "content": "Do I need an umbrella in Oslo?"}
    ]
    while True:
        body = {"model": "tiny", "messages": messages, "tools": tools, "stream": True,
                "stream_options": {"include_usage": True}}
        text, call, arguments, rest = "", {}, "", b""
        async with session.post(sys.argv[1] + "/chat/completions", json=body) as answer:
            async for piece in answer.content.iter_any():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    if event == b"data: [DONE]" or not (choices := json.loads(event[6:])["choices"]):
                        continue
                    delta = choices[0]["delta"]
                    text += delta.get("content") or ""
                    for each in delta.get("tool_calls") or ():
                        call = call or each
                        arguments += each["function"]["arguments"]
        if not call:
            assert text.endswith("west as well.")
            return
        result = await weather(**json.loads(arguments))
        called = {**call, "function": {"name": "weather", "arguments": arguments}}
        messages.append({"role": "assistant", "content": text, "tool_calls": [called]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

async def main():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await ask(session)
        start = time.process_time()
        results = await asyncio.gather(*(ask(session) for _ in range(int(sys.argv[2]))), return_exceptions=True)
        print(time.process_time() - start, sum(result is not None for result in results))

asyncio.run(main())
"""


def measure(code: str, address: str, conversations: int) -> tuple[float, int]:
    """CPU ms a turn, and how many conversations failed."""
    command = [sys.executable, "-c", code, address, str(conversations)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, failed = done.stdout.split()
    return float(seconds) / conversations / 2 * 1000, int(failed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    options = parser.parse_args(arguments)
    require_byte_code()
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            port = next(line for line in server.stdout or () if "http://" in line).split(":")[2].split()[0].rstrip("/")
            address, count = f"http://127.0.0.1:{port}/v1", options.conversations
            ours, bare = [], []
            for _ in range(options.rounds):
                ours.append(measure(OURS, address, count))
                bare.append(measure(BARE, address, count))
        finally:
            server.kill()
    errors = sum(failed for _, failed in ours)
    rows = [
        Row(f"{count} conversations on asyncio: CPU a turn", min(ours)[0], "ms", min(bare)[0], BAR),
        Row("conversations that ended in an error", errors, "", None, 0),
    ]
    return print_table(rows)


if __name__ == "__main__":
    sys.exit(main())
