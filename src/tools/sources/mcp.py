"""Tools of MCP servers, through the official SDK, which is an extra (`pip install vllm-bot[mcp]`).

Each server of `tools.mcp` is a task in one event loop, which has a thread of its own: it connects, lists its tools and
stays until the program ends. A server is not trusted: its names and schemas are made valid, and its tools are of high
risk unless the settings say otherwise. A server that cannot be reached is a notice, not an error. One that neither
answers in time nor answers a ping is started again. Of its standard error, and of what the SDK logs of it, the end is
kept, whose last line an error message quotes.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from threading import Event, Lock
from typing import Any, TextIO

from ...errors import ToolError, describe_error
from ...types.messages import JSON, ToolDefinition
from ...types.special_tokens import neutralize
from ..process.async_loop import AsyncLoop
from ..sdk.context import ToolContext
from ..sdk.result import Media, attempt
from ..sdk.schema import describe_model_error
from ..sdk.tool import ANY_CONTEXT, Risk, Tool
from .mcp_config import McpServerConfig

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_PAGES = 50  # of a list of tools
MAX_TOOLS = 200  # of a server
MAX_STDERR_BYTES = 4096  # that are kept
PIPE_BYTES = 65_536  # that a pipe holds
MAX_SCHEMA_CHARS = 50_000  # of a tool, as JSON
PING_TIMEOUT_S = 5.0  # for a server that did not answer a call in time
CLOSE_TIMEOUT_S = 5.0  # the SDK waits for two seconds, and kills after two more
VALUE_KEYWORDS = ("const", "default", "enum", "examples")  # of a schema; a property called so keeps its title, too
SDK_LOGGERS = ("mcp", "client")
NO_SDK = "MCP servers are configured (tools.mcp), and the SDK is not installed"


class McpServers:
    """The connected servers. `notices` say which servers and tools are left out, and why."""

    def __init__(self, configs: Sequence[McpServerConfig]) -> None:
        self.notices: list[str] = []
        self.tools: list[Tool] = []
        self._loop = AsyncLoop()
        self.servers = [McpServer(config, self._loop) for config in configs]
        if find_spec("mcp") is None:
            self.notices.append(f"{NO_SDK}. Install it: pip install 'vllm-bot[mcp]'")
            return
        for name in SDK_LOGGERS:
            logger = logging.getLogger(name)
            if not any(isinstance(each, _SdkLog) for each in logger.handlers):
                logger.addHandler(_SdkLog(logging.WARNING))
        atexit.register(self.close)
        for server in self.servers:
            server.restart(None)
        self._add_all()

    def restart(self, server: McpServer) -> None:
        """Start a server again, and take the tools that it lists now."""
        server.restart(server.connection)
        self._add_all()

    def _add_all(self) -> None:
        self.tools, self.notices = [], []
        for server in self.servers:
            lead = f"MCP server {server.config.name} is left out"
            try:
                self._add(server)
            except Exception as error:  # noqa: BLE001 - of the SDK, or of what the server listed: the others are taken
                server.problem = str(error)
                self.notices.append(f"{lead}: {error}")
        self.notices = list(dict.fromkeys(self.notices))

    def close(self) -> None:
        """End the servers, within CLOSE_TIMEOUT_S; also called at the exit of the program."""
        atexit.unregister(self.close)
        connections = [server.connection for server in self.servers if server.connection]
        for connection in connections:
            connection.stop()
        wait([connection.task for connection in connections], CLOSE_TIMEOUT_S)
        self._loop.close()

    def _add(self, server: McpServer) -> None:
        names = {tool.definition.name for tool in self.tools}
        server.tool_names = ()
        offered, is_list_cut = server.list_tools()
        if is_list_cut:
            self.notices.append(
                f"MCP server {server.config.name}: its list of tools has more than {MAX_PAGES} pages and is cut there."
            )
        if len(offered) > MAX_TOOLS:
            self.notices.append(
                f"MCP server {server.config.name}: of {len(offered):,} tools the first {MAX_TOOLS} are taken."
            )
        for listed in offered[:MAX_TOOLS]:
            tool = server.make_tool(listed)
            name = tool.definition.name
            if (size := len(json.dumps(tool.definition.parameters))) > MAX_SCHEMA_CHARS:
                self.notices.append(
                    f"MCP server {server.config.name}: the tool {name} is left out: its schema has {size:,} characters"
                )
            elif name in names:
                self.notices.append(f"MCP server {server.config.name}: a second tool {name} is left out.")
            elif why := tool.check_schema():
                self.notices.append(f"MCP server {server.config.name}: the tool {name} is left out: {why}")
            else:
                names.add(name)
                server.tool_names += (name,)
                self.tools.append(tool)


class McpServer:
    """One server, over connections that follow each other: it may be started again."""

    def __init__(self, config: McpServerConfig, loop: AsyncLoop) -> None:
        self.config = config
        self.connection: _Connection | None = None
        self.tool_names: tuple[str, ...] = ()  # those that are taken
        self.problem = ""  # why it is left out, or its last call failed
        self._loop = loop
        self._lock = Lock()  # of `connection`: calls run in several threads

    def restart(self, seen: _Connection | None) -> None:
        """End the connection that the caller saw, and begin to connect again, unless another caller did so before."""
        with self._lock:
            if self.connection is not seen:
                return
            if seen is not None:
                seen.stop()
                wait([seen.task], CLOSE_TIMEOUT_S)
            self.problem = ""
            self.connection = _Connection(self.config, self._loop)

    @property
    def state(self) -> str:
        """`connected`, or why it is not."""
        return "not started" if self.connection is None else self.connection.state

    def list_tools(self) -> tuple[list[Any], bool]:
        """Its tools as the SDK gives them, and whether there are more. Raises ToolError if it cannot be reached."""
        assert self.connection is not None  # noqa: S101 - it was started
        return self.connection.list_tools()

    def make_tool(self, listed: Any) -> Tool:
        """Make a Tool of a listed one."""
        full_name = f"{self.config.name}_{listed.name}"
        name = re.sub("[^a-zA-Z0-9_-]", "_", full_name)  # as every provider takes it
        if len(name) > MAX_NAME_CHARS:  # it ends with a hash, so that it differs from others
            digest = hashlib.sha256(full_name.encode()).hexdigest()[:8]
            name = f"{name[: MAX_NAME_CHARS - 9]}_{digest}"
        # without special tokens that forge a turn, and without references to other documents
        schema = json.loads(neutralize(json.dumps(_drop_foreign(listed.input_schema), ensure_ascii=False)))
        schema["type"] = "object"
        description = " ".join((listed.description or listed.title or listed.name).split())[:MAX_DESCRIPTION_CHARS]
        hinted = bool(listed.annotations and listed.annotations.read_only_hint)
        risk: Risk = "high"
        if self.config.risk == "low" or (self.config.risk == "annotations" and hinted):
            risk = "low"

        def call(**arguments: Any) -> object:
            ctx = arguments.pop(ANY_CONTEXT)
            try:
                value = _to_value(self._call(listed.name, arguments, ctx))
            except Exception as error:
                self.problem = str(error)
                raise
            self.problem = ""
            return value

        definition = ToolDefinition(name, neutralize(description), schema, named_by=self.config.name)
        return Tool(definition, call, risk, ANY_CONTEXT)

    def _call(self, name: str, arguments: Mapping[str, JSON], ctx: ToolContext) -> Any:
        if self.connection is None or self.connection.task.done():  # it has ended
            self.restart(self.connection)
        connection = self.connection
        assert connection is not None  # noqa: S101 - it was started
        connection.list_tools()
        timeout, began = self.config.timeout, time.monotonic()
        called = connection.client.call_tool(name, dict(arguments), read_timeout_seconds=timeout)
        try:
            return self._loop.run(called, ctx.cancelled, timeout)
        except Exception as error:
            if _is_closed(error) and not connection.answers_ping():
                self.restart(connection)
            elif time.monotonic() - began >= timeout and not ctx.cancelled.is_set():
                if connection.answers_ping():
                    raise ToolError(f"it took longer than {timeout:g} s") from error
                last_words = connection.stderr_tail()
                self.restart(connection)
                raise ToolError(
                    f"it took longer than {timeout:g} s, and the server does not answer a ping: it is started again"
                    f"{last_words}"
                ) from error
            if hasattr(error, "errors"):
                raise ToolError(_describe_error(error)) from error
            raise


class _Connection:
    """One start of a server. Nothing of it is another start's, so that one that ends late changes no later one."""

    def __init__(self, config: McpServerConfig, loop: AsyncLoop) -> None:
        self.config = config
        self.client: Any = None
        self._loop = loop
        self._ready: Future[tuple[list[Any], bool]] = Future()
        self._stopped: Any = None
        self._stderr = b""  # the end of it
        self._deadline = time.monotonic() + config.start_timeout
        self.task = loop.start(self._serve())

    def stop(self) -> None:
        """Ask it to end, without waiting. One that still starts ends once it has connected, or at `start_timeout`."""

        async def set_stopped() -> None:
            self._stopped.set()

        if not self.task.done():
            self._loop.start(set_stopped())  # the loop runs it after the first step of _serve

    @property
    def state(self) -> str:
        """`connected`, or why it is not."""
        if self.task.done():
            return "ended" if self._ready.done() else "not connected"
        return "connected" if self._ready.done() else "starting"

    def list_tools(self) -> tuple[list[Any], bool]:
        """Wait for them. Raises ToolError if the server cannot be reached."""
        either: list[Future[Any]] = [self._ready, self.task]
        wait(either, max(0.0, self._deadline - time.monotonic()), FIRST_COMPLETED)
        if self._ready.done():
            return self._ready.result()
        error: BaseException | None = TimeoutError()  # _serve is ending it
        if self.task.done():
            error = self.task.exception()
        while grouped := getattr(error, "exceptions", None):  # the SDK raises groups
            error = grouped[0]
        late = f"it did not list its tools within {self.config.start_timeout:g} s"
        reason = late if isinstance(error, TimeoutError) else _describe_error(error)
        raise ToolError(f"{reason}{self.stderr_tail()}")

    def answers_ping(self) -> bool:
        """Whether any answer comes: a server of the protocol of 2026-07-28 answers that there is no such method."""

        def ping() -> bool:
            self._loop.run(self.client.session.send_ping(), Event(), PING_TIMEOUT_S)
            return True

        return attempt(ping, lambda error: not isinstance(error, ToolError) and not _is_closed(error))

    async def _serve(self) -> None:
        import asyncio

        from anyio import fail_after  # what the SDK is built on; it lets the SDK end what it started

        self._stopped = asyncio.Event()
        _connection.set(self)
        with fail_after(self.config.start_timeout) as limit:
            async with self._connect() as client:
                listed = await _list_pages(client)
                limit.deadline = float("inf")
                self.client = client
                self._ready.set_result(listed)
                await self._stopped.wait()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        config = self.config
        if config.command:
            program, *rest = config.command
            start = StdioServerParameters(
                command=program,
                args=rest,
                env=dict(config.env) or None,
                cwd=config.cwd,
                encoding_error_handler="replace",  # else one wrong byte ends the reading
            )
            with self._open_stderr() as stderr:
                async with Client(stdio_client(start, stderr)) as client:
                    yield client
            return
        async with (
            create_mcp_http_client(headers=dict(config.headers)) as http,
            Client(streamable_http_client(config.url, http_client=http)) as client,
        ):
            yield client

    @contextmanager
    def _open_stderr(self) -> Iterator[TextIO]:
        """A pipe to write standard error to. It is read as it comes, since nobody bounds what a server writes."""
        import asyncio

        reader, writer = os.pipe()
        os.set_blocking(reader, False)

        def read() -> None:
            with suppress(BlockingIOError):
                self._keep_end(os.read(reader, PIPE_BYTES))

        loop = asyncio.get_running_loop()
        loop.add_reader(reader, read)
        try:
            with os.fdopen(writer, "w") as stderr:
                yield stderr
        finally:
            loop.remove_reader(reader)
            read()  # the last words of one that has ended
            os.close(reader)

    def _keep_end(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]

    def note(self, line: str) -> None:
        """Add a line to what the server said."""
        self._keep_end(f"{line}\n".encode("utf-8", "replace"))

    def stderr_tail(self) -> str:
        """The last line of its standard error."""
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        return f"\nIt said: {lines[-1][:200]}" if lines else ""


_connection: ContextVar[_Connection] = ContextVar("connection")  # whose task runs


class _SdkLog(logging.Handler):
    """Adds what the SDK logs to what the server said. Without a handler, Python prints it on the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        line = error.errors()[0].get("input", "") if error and hasattr(error, "errors") else error or ""  # of pydantic
        if connection := _connection.get(None):
            connection.note(f"{record.getMessage()}: {line}" if line else record.getMessage())


async def _list_pages(client: Any) -> tuple[list[Any], bool]:
    """The tools, and whether there are more."""
    listed: list[Any] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return listed, bool(cursor)


def _drop_foreign(schema: Any, is_value: bool = False) -> Any:
    """`is_value`: it stands in a value that a schema names, where fastjsonschema would follow references, too."""
    if isinstance(schema, list):
        return [_drop_foreign(each, is_value) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _drop_foreign(value, is_value or key in VALUE_KEYWORDS)
        for key, value in schema.items()
        if key not in ("$id", "$schema")
        and not (key == "title" and isinstance(value, str) and not is_value)  # repeats the name
        and not (key == "$ref" and not str(value).startswith("#"))
    }


def _to_value(result: Any) -> object:
    parts = [_to_part(block) for block in result.content]
    if result.is_error:
        raise ToolError("\n".join(part for part in parts if isinstance(part, str)) or "the server gave no reason")
    if any(isinstance(part, Media) for part in parts):
        return parts
    if not parts and result.structured_content is not None:
        return result.structured_content
    return "\n".join(map(str, parts))


def _to_part(block: Any) -> str | Media:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return Media(base64.b64decode(block.data), block.mime_type)
    if block.type == "resource" and hasattr(block.resource, "text"):
        return f"[{block.resource.uri}]\n{block.resource.text}"
    where = getattr(block, "uri", "") or getattr(getattr(block, "resource", None), "uri", "")
    return f"[{block.type} {where}, not shown]"


def _is_closed(error: BaseException) -> bool:
    """Whether the SDK may say so of the connection; a server's own errors may have the same code."""
    from anyio import ClosedResourceError
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED
    return isinstance(error, ClosedResourceError)


def _describe_error(error: BaseException | None) -> str:
    """In one line: of an answer that is not valid, the first of pydantic's errors."""
    if hasattr(error, "errors"):
        return f"its answer is not valid: {describe_model_error(error)}"
    if isinstance(error, OSError):
        return describe_error(error).rstrip(".")
    return f"{type(error).__name__}: {error}"
