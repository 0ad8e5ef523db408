"""The benchmarks' servers, each in a process of its own so that its work is not counted as ours.

`VLLM` answers as vLLM does. The first part of a path is what it does: a kind, then options, as in
http://127.0.0.1:PORT/read,turns=200,pid=1234/v1. Kinds:

say        `chunks` chunks of text, `pace` seconds apart; `of` is prose or code
read       `turns` calls of read, one an answer, then a last word; `text=1` writes them as text blocks;
           `counted=1` counts calls here and not in the conversation, which may be compacted
add        `turns` calls of the first tool, then a last word
endless    text without end, `step` words a chunk

Each path has a log of its own: GET .../log gives [path, CPU ns of the process `pid` then, bytes] of each request, and
GET .../bodies the chat requests themselves, GET .../sent the characters of text sent. `context` is the model's, in tokens; four bytes of a request count as one, and a longer prompt is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.request import urlopen

VLLM = r'''
import argparse, json, random, re, socket, sys, threading, time

SOURCE = open(argparse.__file__).read()
CODE = [SOURCE[start:start + 4] for start in range(0, len(SOURCE), 4)]
WORDS = sorted(set(re.findall("[a-z]{2,9}", SOURCE)))
dice = random.Random(1)
# Paragraphs of 120 words, a word a token.
PROSE = ["\n\n" if at % 120 == 119 else " " + dice.choice(WORDS) for at in range(25_000)]
TEXTS = {"code": CODE, "prose": PROSE}
HEAD = {"id": "chatcmpl-b76877260288296b", "object": "chat.completion.chunk", "created": 1795243173, "model": "tiny"}
logs, bodies = {}, {}

def encode(value):
    return json.dumps(value, separators=(",", ":")).encode()

def read_clock(pid):
    """CPU ns of another process, with its threads that ended: the clock id as the kernel makes it."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) if pid else 0
    except OSError:
        return 0

def make_event(delta, request, finish=None, at=0):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    if request.get("return_token_ids"):
        choice["token_ids"] = [at % 50000]
    return b"data: " + encode({**HEAD, "choices": [choice]}) + b"\n\n"

def make_events(kind, options, request, size, key):
    """The events of an answer, one a chunk."""
    first = {**HEAD, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    if request.get("return_token_ids"):
        first["prompt_token_ids"] = [at % 50000 for at in range(size // 4)]
    yield b"data: " + encode(first) + b"\n\n"
    count, finish = 0, "stop"
    done = sum(message["role"] == "assistant" for message in request["messages"])
    if "counted" in options:
        done = options["answered"] = options.get("answered", -1) + 1
    is_text = "text" in options
    may_call = kind in ("read", "add") and done < int(options["turns"])
    may_call = may_call and (is_text or request.get("tools") and request.get("tool_choice") != "none")
    if "counted" in options and not may_call:
        options["answered"] -= 1
    if kind in ("say", "endless"):
        number, step, texts = 0, int(options.get("step", 1)), TEXTS[options.get("of", "prose")]
        while kind == "endless" or number < int(options["chunks"]):
            lap, place = divmod(number, len(texts))
            text = "".join(texts[place:place + step]) if place or not lap else f"\n# lap {lap}\n"
            if "pace" in options:
                time.sleep(float(options["pace"]))
            yield make_event({"content": text}, request, at=number)
            number += step
            options["sent"] = options.get("sent", 0) + len(text)
        count = number
    elif may_call:
        names = [tool["function"]["name"] for tool in request.get("tools") or ()]
        name = "read" if kind == "read" else names[0]
        arguments = json.dumps({"path": f"f{done:04}.txt"} if kind == "read" else {"a": done, "b": 2})
        if is_text:
            call = f'I look at it.\nTOOL_CALL: {{"name": "{name}", "args": {arguments}}}\n'
            pieces = [{"content": call[at:at + 4]} for at in range(0, len(call), 4)]
        else:
            call = {"index": 0, "id": f"chatcmpl-tool-{done:032x}", "type": "function"}
            pieces = [{"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}]
            for at in range(0, len(arguments), 4):
                pieces.append({"tool_calls": [{"index": 0, "function": {"arguments": arguments[at:at + 4]}}]})
            finish = "tool_calls"
        for at, piece in enumerate(pieces):
            yield make_event(piece, request, at=at)
        count = len(pieces)
    else:
        for at, word in enumerate(("All ", "is ", "done", ".")):
            yield make_event({"content": word}, request, at=at)
        count = 4
    yield make_event({}, request, finish)
    usage = {"prompt_tokens": size // 4, "completion_tokens": count, "total_tokens": size // 4 + count}
    yield b"data: " + encode({**HEAD, "choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n"

def answer(connection, path, body):
    scenario, _, rest = path.lstrip("/").partition("/")
    kind, *given = scenario.split(",")
    options = settings.setdefault(scenario, dict(each.partition("=")[::2] for each in given))
    if rest == "sent":
        return send(connection, options.get("sent", 0))
    if rest in ("log", "bodies"):
        value = logs.get(scenario, []) if rest == "log" else [json.loads(each) for each in bodies.get(scenario, ())]
        return send(connection, value)
    logs.setdefault(scenario, []).append((rest, read_clock(int(options.get("pid", 0))), len(body)))
    context = int(options.get("context", 1_000_000))
    if rest == "v1/models":
        return send(connection, {"object": "list", "data": [
            {"id": "tiny", "object": "model", "created": 1795243173, "owned_by": "vllm", "root": "tiny",
             "parent": None, "max_model_len": context, "permission": []}]})
    if rest == "version":
        return send(connection, {"version": "0.32.0"})
    if rest == "health":
        return send(connection, {})
    if rest == "tokenize":
        tokens = [0] * (len(body) // 4)
        return send(connection, {"count": len(tokens), "max_model_len": context, "tokens": tokens, "token_strs": None})
    if rest != "v1/chat/completions":
        return send(connection, {"detail": "Not Found"}, "404 Not Found")
    if kind == "read":
        bodies.setdefault(scenario, []).append(body)
    if len(body) // 4 > context:
        message = (f"This model's maximum context length is {context} tokens. However, your request has "
                   f"{len(body) // 4} input tokens. Please reduce the length of the input messages.")
        error = {"message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400}
        return send(connection, {"error": error}, "400 Bad Request")
    request = json.loads(body)
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(head.encode())
    for event in make_events(kind, options, request, len(body), scenario):
        connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
    connection.sendall(b"0\r\n\r\n")

def send(connection, value, status="200 OK"):
    body = encode(value)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)

def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming = connection.makefile("rb")
    try:
        while line := incoming.readline():
            length = 0
            while (field := incoming.readline()) not in (b"\r\n", b""):
                if field.lower().startswith(b"content-length:"):
                    length = int(field.split(b":")[1])
            answer(connection, line.split()[1].decode(), incoming.read(length))
    except OSError:
        pass
    connection.close()

settings = {}
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
'''

CHAT = "v1/chat/completions"


@contextmanager
def serving(script: str = VLLM) -> Iterator[str]:
    """The address of what `script` serves; it prints its port first."""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def fetch(url: str) -> Any:
    with urlopen(url) as reply:
        return json.load(reply)


def list_turn_costs(url: str) -> list[float]:
    """CPU ms between each chat request and the next, of the process that `url` names."""
    clocks = [clock for path, clock, _ in fetch(f"{url}/log") if path == CHAT]
    return [(after - before) / 1e6 for before, after in pairwise(clocks)]
