#!/usr/bin/env python
"""Stands in for the Copilot CLI: speaks its protocol on standard input and output, and plays turns of a script.

COPILOT_DOUBLE names a JSON file: `turns`, each with `text` (its pieces), `calls` (id, name, arguments) or `events` to
send as they are, `tokens` of the answer, `exits`, `hangs`; and `version`, of the protocol. What it receives goes to the file beside, `.log`.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

SCRIPT = Path(os.environ["COPILOT_DOUBLE"])
script = json.loads(SCRIPT.read_text())
turns = iter(script["turns"])
log = SCRIPT.with_suffix(".log").open("a")
open_calls = {}  # by the id of the request that asks about it
session = ""


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def tell(kind, agent="", **data):
    event = {"type": kind, "data": data, **({"agentId": agent} if agent else {})}
    send({"method": "session.event", "params": {"sessionId": session, "event": event}})


def play(turn):
    tell("assistant.turn_start")
    for event in turn.get("events", []):
        tell(**event)
    for piece in turn.get("text", []):
        tell("assistant.message_delta", deltaContent=piece)
    if "exits" in turn:
        print("out of luck", file=sys.stderr)
        sys.exit(turn["exits"])
    if turn.get("hangs"):
        return
    calls = turn.get("calls", [])
    tell("assistant.usage", inputTokens=10, outputTokens=turn.get("tokens", 5), cacheReadTokens=4)
    requests = [{"toolCallId": id, "name": name, "arguments": arguments} for id, name, arguments in calls]
    text = "".join(turn.get("text", []))
    tell("assistant.message", messageId=f"m{time.monotonic_ns()}", model="tiny", content=text, toolRequests=requests)
    for id, name, _ in calls:
        open_calls[f"ask {id}"] = id
        tell("permission.requested", requestId=f"ask {id}", permissionRequest={"toolCallId": id, "toolName": name})
    if not calls:
        if turn.get("is_empty"):
            tell("session.error", message="No response was returned.")
        tell("session.idle")


def answer(message):
    global session
    method, params = message.get("method", ""), message.get("params", {})
    result = {"success": True}
    if method == "connect":
        result = {"protocolVersion": script.get("version", 3), "version": "1.0.0"}
    if method == "models.list":
        if "models" not in script:
            send({"id": message["id"], "error": {"code": -32603, "message": "Not authenticated."}})
            return
        result = {"models": [{"id": name} for name in script["models"]]}
    if method == "session.create":
        session = params["sessionId"]
        send({"id": "ask", "method": "userInput.request", "params": {}})  # a request to the client
    if method == "session.send":
        turn = next(turns)
        if "refuses" in turn:
            send({"id": message["id"], "error": {"code": -32603, "message": turn["refuses"]}})
            return
    send({"id": message["id"], "result": result})
    if method == "session.send":
        play(turn)
    if method == "session.permissions.handlePendingPermissionRequest":
        id = open_calls.pop(params["requestId"])
        if params["result"]["kind"] == "approve-once":
            open_calls[f"run {id}"] = id
            tell("external_tool.requested", requestId=f"run {id}", toolCallId=id)
    if method == "session.tools.handlePendingToolCall":
        open_calls.pop(params["requestId"])
    if method.endswith(("handlePendingPermissionRequest", "handlePendingToolCall")) and not open_calls:
        play(next(turns))


def main():
    while True:
        size = 0
        while (line := sys.stdin.buffer.readline()).strip():
            size = int(line.split(b":")[1])
        if not line:
            break
        message = json.loads(sys.stdin.buffer.read(size))
        log.write(json.dumps(message) + "\n")
        log.flush()
        if "method" in message:
            answer(message)
    if script.get("stays"):
        signal.pause()


main()
