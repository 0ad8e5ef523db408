"""A small MCP server for the tests: `python mcp_server.py [stdio | http PORT | write | plain | frail | many N | lie | hang | die]`.

`write`, `plain`, `frail`, `many`, `banner` and `lie` do without the SDK, which takes half a second to load.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLAIN_TOOLS = ("add", "slow", "freeze", "rant")
FRAIL_TOOLS = (*PLAIN_TOOLS, "refuse", "crash")
CALLS_TO_CRASH = 4


def main(mode: str, port: int) -> None:
    if starts := os.environ.get("STARTS"):
        with Path(starts).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if mode == "hang":
        time.sleep(60)
    if mode.startswith("banner"):
        sys.stdout.buffer.write(b"Gr\xfc\xdfe!\n")  # not UTF-8
        print("Welcome to the server!", flush=True)
    if mode == "banner-and-hang":
        time.sleep(60)
    if mode == "die":
        print("cannot find my database", file=sys.stderr)
        sys.exit(3)
    if mode == "lie":
        tell_lies()
        return
    if mode in ("plain", "banner"):
        serve_plainly(PLAIN_TOOLS)
        return
    if mode == "write":  # a name that, behind that of a server, may be another tool's
        serve_plainly(("add", "write"))
        return
    if mode == "frail":
        serve_plainly(FRAIL_TOOLS)
        return
    if mode == "many":
        serve_many(port)
        return
    from mcp.server.mcpserver import Image, MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("small")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(name="odd.name/with?marks")
    def odd(ctx: str) -> str:
        """Have an odd name, and an argument that is called as a context of ours."""
        return ctx

    @server.tool()
    def draw() -> Image:
        """Draw a picture."""
        return Image(data=b"\x89PNG", format="png")

    @server.tool()
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    @server.tool()
    def slow(seconds: float) -> str:
        """Take a while."""
        time.sleep(seconds)
        return "done"

    @server.tool()
    def where() -> dict[str, str]:
        """Say where it runs, and with which token."""
        return {"folder": str(Path.cwd()), "token": os.environ.get("TOKEN", "")}

    if mode == "http":
        server.run("streamable-http", port=port)
    else:
        server.run("stdio")


def tell_lies() -> None:
    """List the same tool on every page, and answer calls with what is no result."""
    for asked in read_requests():
        answers = {
            "tools/list": {"tools": [describe_tool("look")], "nextCursor": "again"},
            "tools/call": {"content": [{"type": "text"}, {"type": "image"}]},
        }
        if asked["method"] in answers:
            write_result(asked, answers[asked["method"]])


def serve_plainly(names: tuple[str, ...]) -> None:
    """Tools that may add, take a while, fill standard error, refuse, crash, and block the server so that it reads no message."""
    crashes = 0
    for asked in read_requests():
        if asked["method"] == "tools/list":
            write_result(asked, {"tools": [describe_tool(name) for name in names]})
        elif asked["method"] == "ping":
            write_result(asked, {})
        elif asked["method"] == "tools/call":
            call, given = asked["params"]["name"], asked["params"].get("arguments", {})
            if call == "freeze":
                time.sleep(60)
            if call == "refuse":
                error = {"code": -32000, "message": "Issue 7 is already closed"}
                print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
                continue
            if call == "crash":
                crashes += 1
                if crashes == CALLS_TO_CRASH:
                    os._exit(1)
                continue
            if call == "rant":
                sys.stderr.write("all is lost\n" * given["lines"] + "or not?\n")
                sys.stderr.flush()
            text = str(given.get("a", 0) + given.get("b", 1)) if call == "add" else "done"
            result = {"content": [{"type": "text", "text": text}]}
            later = threading.Timer(given.get("seconds", 0.0), write_result, (asked, result))
            later.daemon = True
            later.start()


def serve_many(count: int) -> None:
    """So many tools, each of which repeats its name and its argument."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    rows = [
        {"name": f"tool_{each}", "inputSchema": schema, "description": f"Do work of the kind {each}."}
        for each in range(count)
    ]
    for asked in read_requests():
        if asked["method"] == "tools/list":
            write_result(asked, {"tools": rows})
        elif asked["method"] == "tools/call":
            call = asked["params"]
            text = f"{call['name']} did {call['arguments']['id']}"
            write_result(asked, {"content": [{"type": "text", "text": text}]})


def describe_tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def read_requests() -> Iterator[dict[str, Any]]:
    """What a client asks for once it has been greeted."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:  # it only tells something
            continue
        if asked["method"] == "initialize":
            info, version = {"name": "plain", "version": "1"}, asked["params"]["protocolVersion"]
            write_result(asked, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif asked["method"] in ("ping", "tools/list", "tools/call"):
            yield asked
        else:  # else the SDK waits for an answer
            print(
                json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}),
                flush=True,
            )


def write_result(asked: dict[str, Any], result: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
