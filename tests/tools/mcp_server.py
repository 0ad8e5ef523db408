"""A small MCP server for the tests: `python mcp_server.py [stdio | http PORT | write | lie | hang | die]`."""

import json
import os
import sys
import time
from pathlib import Path


def main(mode: str, port: int) -> None:
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
    async def freeze() -> str:
        """Block the event loop, so that no message is read."""
        time.sleep(60)
        return "never"

    @server.tool()
    def leave() -> str:
        """End the server."""
        os._exit(1)

    @server.tool()
    def where() -> dict[str, str]:
        """Say where it runs, and with which token."""
        return {"folder": str(Path.cwd()), "token": os.environ.get("TOKEN", "")}

    if mode == "write":

        @server.tool()
        def write() -> str:
            """Have a name that, behind that of a server, may be another tool's."""
            return "written"

    if mode == "http":
        server.run("streamable-http", port=port)
    else:
        server.run("stdio")


def tell_lies() -> None:
    """List the same tool on every page, and answer calls with what is no result."""
    tool = {"name": "look", "inputSchema": {"type": "object"}}
    for line in sys.stdin:
        asked = json.loads(line)
        version = asked.get("params", {}).get("protocolVersion")
        info = {"name": "liar", "version": "1"}
        answers = {
            "initialize": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
            "tools/list": {"tools": [tool], "nextCursor": "again"},
            "tools/call": {"content": [{"type": "text"}, {"type": "image"}]},
        }
        if asked.get("method") in answers:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
