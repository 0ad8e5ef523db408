"""The tool `delegate` for the SDK: its description, its progress while it runs, and its end when the client cancels it.

The methods run in the event loop, and each task in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event as CancelToken
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations
from msgspec.structs import asdict

from .. import __version__
from ..app.keys import KeyRing
from ..app.listening import ListenAddress
from ..app.pipes import LineTooLong, open_pipes, read_line
from ..config import Settings
from ..errors import BotError, describe_error
from .task import TaskReport, find_folder, run_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

THREADS = 32  # tasks at once; further ones wait
SHUTDOWN_S = 5  # for answers that are under way
DELEGATE = "delegate"
DESCRIPTION = """\
Hand a task to an agent on a local model. It works in the folder with its own tools: it reads and searches, and in a \
mode that allows it edits files and runs commands in a sandbox. It runs in mode {mode}: {about}. Nobody is asked, so \
what needs permission is not run. Say in the task all that it has to know: it sees nothing of this conversation. The \
report has its answer, what it changed as a diff, and what it was not allowed to do."""
STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {**STRING, "description": "What to do, with all that the agent has to know"},
        "folder": {**STRING, "description": "The folder to work in"},
    },
    "required": ["task", "folder"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": STRING,
        "outcome": {**STRING, "description": "done, or why the agent did not come to an end"},
        "mode": STRING,
        "changed": {**STRINGS, "description": "Files that were changed"},
        "diff": {**STRING, "description": "Unified diff of the changes"},
        "denied": {**STRINGS, "description": "Calls that were not allowed, with the reason"},
        "notices": STRINGS,
        "session": {**STRING, "description": "`vllm-bot --resume` goes on with it"},
    },
    "required": ["answer", "outcome", "mode", "changed", "diff", "denied", "notices", "session"],
}
TOO_LONG = "(too long)\n"  # in place of a line, for the SDK, which passes over what is no JSON
NO_KEY = "A key is needed: Authorization: Bearer KEY. `vllm-bot serve --new-key FILE` makes one."


class DelegateServer:
    """`make_settings`: those for tasks in a folder; it may raise ConfigError. `about` says what `mode` allows.

    `roots` are resolved; tasks work below them.
    """

    def __init__(self, make_settings: Callable[[Path], Settings], roots: Sequence[Path], mode: str, about: str) -> None:
        self._make_settings = make_settings
        self.roots = roots
        self.mode = mode
        self._is_reading = mode == "plan"
        self._description = DESCRIPTION.format(mode=mode, about=about)
        self._busy: list[Path] = []  # folders that tasks may change
        self._threads = ThreadPoolExecutor(THREADS, "mcp")

    def make_server(self) -> Server[Any]:
        return Server(
            "vllm-bot",
            title="vLLM Bot",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(self, _context: Any, _params: Any) -> ListToolsResult:
        roots = " or ".join(map(str, self.roots))
        folder = {**INPUT_SCHEMA["properties"]["folder"], "description": f"The folder to work in, in or below {roots}"}
        schema = {**INPUT_SCHEMA, "properties": {**INPUT_SCHEMA["properties"], "folder": folder}}
        tool = Tool(
            name=DELEGATE,
            title="Delegate to a local model",
            description=self._description,
            input_schema=schema,
            output_schema=OUTPUT_SCHEMA,
            annotations=ToolAnnotations(read_only_hint=self._is_reading, open_world_hint=False),
        )
        return ListToolsResult(tools=[tool])

    async def _call_tool(self, context: Any, params: Any) -> CallToolResult:
        try:
            if params.name != DELEGATE:
                raise BotError(f"There is no tool {params.name!r}; there is {DELEGATE}.")
            task, folder = self._read_arguments(params.arguments or {})
            with self._occupy(folder):
                report = await self._run(context, task, folder)
            text = TextContent(type="text", text=report.to_text())
            return CallToolResult(content=[text], structured_content=asdict(report))
        except BotError as error:
            why = TextContent(type="text", text=describe_error(error))
            return CallToolResult(content=[why], is_error=True)

    def _read_arguments(self, arguments: dict[str, Any]) -> tuple[str, Path]:
        """Raises BotError."""
        for name in ("task", "folder"):
            if not isinstance(arguments.get(name), str) or not arguments[name].strip():
                raise BotError(f"`{name}` is missing: it is a text that is not empty.")
        return arguments["task"], find_folder(arguments["folder"], self.roots)

    @contextmanager
    def _occupy(self, folder: Path) -> Iterator[None]:
        """Raises BotError if another task may change the folder: neither could trust what it reads, nor its diff."""
        if self._is_reading:
            yield
            return
        for busy in self._busy:
            if busy.is_relative_to(folder) or folder.is_relative_to(busy):
                raise BotError(f"Another task works in {busy}. Wait for its end, or name a folder apart from it.")
        self._busy.append(folder)
        try:
            yield
        finally:
            self._busy.remove(folder)

    async def _run(self, context: Any, task: str, folder: Path) -> TaskReport:
        """Run the task and report each of its calls. When the client cancels, the task ends first. Raises BotError."""
        loop, cancelled = asyncio.get_running_loop(), CancelToken()
        steps: asyncio.Queue[str | None] = asyncio.Queue()

        def show(line: str) -> None:
            loop.call_soon_threadsafe(steps.put_nowait, line)

        def work() -> TaskReport:
            return run_task(self._make_settings(folder), task, cancelled, show)

        running = loop.run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: steps.put_nowait(None))
        count = 0
        try:
            while (line := await steps.get()) is not None:
                count += 1
                await context.session.report_progress(count, None, line)
        finally:
            cancelled.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([running])
                running.exception()  # else asyncio logs it as never retrieved
        return running.result()


def serve_pipes(delegate: DelegateServer, incoming: int, outgoing: int) -> None:
    """Serve one client on two descriptors until it closes them. Raises ConfigError."""

    async def serve() -> None:
        async with open_pipes(incoming, outgoing) as (reader, writer):
            server = delegate.make_server()
            lines: Any = _Lines(reader)
            text: Any = _Text(writer)
            async with stdio_server(lines, text) as (received, sent):
                await server.run(received, sent, server.create_initialization_options())

    asyncio.run(serve())


class _Lines:
    """What the SDK reads as a file. Its own reads in a thread, which would outlive a signal."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await read_line(self._reader)
        except LineTooLong:
            return TOO_LONG
        if not line:
            raise StopAsyncIteration
        return line.decode(errors="replace")


class _Text:
    """What the SDK writes to as a file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


def serve_http(delegate: DelegateServer, address: ListenAddress, keys: KeyRing) -> None:
    """Serve clients that have a key, until SIGINT or SIGTERM."""
    import uvicorn

    app = RequireKey(delegate.make_server().streamable_http_app(host=address.host), keys)
    config = uvicorn.Config(
        app, address.host, address.port, log_level="warning", lifespan="on", timeout_graceful_shutdown=SHUTDOWN_S
    )
    uvicorn.Server(config).run()


class RequireKey:
    """Passes requests on that have a key, and answers the others."""

    def __init__(self, app: ASGIApp, keys: KeyRing) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import HTTPConnection
        from starlette.responses import JSONResponse

        if scope["type"] == "http":
            scheme, _, key = HTTPConnection(scope).headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or self._keys.find(key.strip()) is None:
                refusal = JSONResponse({"error": NO_KEY}, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
