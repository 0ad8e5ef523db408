"""Tools of MCP servers, through the official SDK, which is an extra (`pip install vllm-bot[mcp]`).

Each server of `tools.mcp` is one task in an event loop of its own thread: it connects, lists its tools and
stays until the program ends. What a server says is untrusted: names and schemas are made fit, its tools are of
high risk unless the settings say otherwise, and one that cannot be reached is a notice, not an error. What it
writes to standard error goes to a file that only an error message quotes.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from ...errors import ConfigError, ToolError
from ...types.messages import JSON, ToolDefinition
from ...types.special_tokens import neutralize
from ..process.async_loop import Background
from ..sdk.context import ToolContext
from ..sdk.dependencies import attempt
from ..sdk.registry import Risk, Tool
from ..sdk.result import Media
from .rows import Key, checked, is_command, is_list_of, is_number, is_string, one_of

NAME_LENGTH = 64
DESCRIPTION = 1024  # characters of it that a model is told
PAGES = 50  # of a list of tools
MOST_TOOLS = 200  # of a server
LAST_WORDS = 4096  # bytes of its standard error that are looked at
LARGEST = 50_000  # characters of a tool's schema, as JSON
CLOSING = 5.0  # seconds that servers have to end; the SDK asks for two and kills after two more
STRINGS = Key("an object of strings", lambda value: isinstance(value, dict) and all(map(is_string, value.values())))
SECONDS = Key("a number of seconds", lambda value: is_number(value) and 0 < value < 1e6)
ADDRESS = re.compile("https?://.+")
KEYS = {
    "name": Key(
        "1 to 32 letters, digits, _ or -, and stands before its tools' names",
        lambda value: is_string(value) and bool(re.fullmatch(r"[a-zA-Z0-9_-]{1,32}", value)),
    ),
    "command": Key("a program, or a list of it and its arguments", is_command),
    "args": Key("a list of strings", partial(is_list_of, is_string)),
    "env": STRINGS,
    "cwd": Key("a folder", lambda value: is_string(value) and "\0" not in value),
    "url": Key("an http:// or https:// address", lambda value: is_string(value) and bool(ADDRESS.fullmatch(value))),
    "headers": STRINGS,
    "risk": one_of("high", "low", "annotations"),
    "timeout": SECONDS,
    "start_timeout": SECONDS,
}
NO_SDK = "MCP servers are configured (tools.mcp), and the SDK is not installed"


class Spec(NamedTuple):
    """A row of `tools.mcp`. `command` is a program to start, else `url` is where the server listens."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    risk: str = "high"
    timeout: float = 60.0  # seconds of one call
    start_timeout: float = 20.0  # seconds until its tools are listed


def specs(rows: Sequence[Mapping[str, Any]], environ: Mapping[str, str], workspace: Path) -> list[Spec]:
    """The rows, checked. `${NAME}` in env and headers is replaced from `environ`. Raises ConfigError."""
    checked = [_spec(f"tools.mcp[{number}]", row, environ, workspace) for number, row in enumerate(rows)]
    names = [spec.name for spec in checked]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"tools.mcp: two servers have the name {name!r}")
    return checked


class Servers:
    """The servers, connected. `notices` says which are not, and which of their tools cannot be offered."""

    def __init__(self, wanted: Sequence[Spec]) -> None:
        self.notices: list[str] = []
        self.tools: list[Tool] = []
        self._background = Background()
        self._servers = [Server(spec, self._background) for spec in wanted]
        if not _has_sdk():
            self.notices.append(f"{NO_SDK}. Install it: pip install 'vllm-bot[mcp]'")
            return
        atexit.register(self.close)
        for server in self._servers:
            server.start()
        for server in self._servers:
            attempt(partial(self._add, server), partial(self._failed, server))

    def close(self) -> None:
        """End the servers, within CLOSING seconds; also called at the program's exit."""
        atexit.unregister(self.close)
        for server in self._servers:
            server.stop()
        wait([server.task for server in self._servers if server.task], CLOSING)
        self._background.close()
        for server in self._servers:
            server.forget_words()

    def _add(self, server: Server) -> None:
        names = {tool.definition.name for tool in self.tools}
        offered = server.listed()
        if len(offered) > MOST_TOOLS:
            self.notices.append(
                f"MCP server {server.spec.name}: of {len(offered):,} tools the first {MOST_TOOLS} are taken."
            )
        for listed in offered[:MOST_TOOLS]:
            tool = server.tool(listed)
            name = tool.definition.name
            if (size := len(json.dumps(tool.definition.parameters))) > LARGEST:
                self.notices.append(
                    f"MCP server {server.spec.name}: the tool {name} is left out: its schema has {size:,} characters"
                )
            elif name in names:
                self.notices.append(f"MCP server {server.spec.name}: a second tool {name} is left out.")
            elif why := tool.schema_error():
                self.notices.append(f"MCP server {server.spec.name}: the tool {name} is left out: {why}")
            else:
                names.add(name)
                self.tools.append(tool)

    def _failed(self, server: Server, error: Exception) -> None:
        self.notices.append(f"MCP server {server.spec.name} is left out: {error}")


class Server:
    """One server. `start` begins to connect, `listed` waits for it."""

    def __init__(self, spec: Spec, background: Background) -> None:
        self.spec = spec
        self.task: Future[None] | None = None
        self._background = background
        self._ready: Future[list[Any]] = Future()
        self._client: Any = None
        self._stopped: Any = None
        self._errors: Any = None

    def start(self) -> None:
        """Begin to connect; also again, after it ended."""
        self.forget_words()
        self._ready = Future()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - the server's, for as long as it runs
        self._deadline = time.monotonic() + self.spec.start_timeout
        self.task = self._background.start(self._serve())

    def stop(self) -> None:
        """Ask it to end, and wait for nothing."""
        if self._stopped is not None and self.task and not self.task.done():

            async def stop() -> None:
                self._stopped.set()

            self._background.start(stop())

    def listed(self) -> list[Any]:
        """Its tools, as it lists them. Raises ToolError where it cannot be reached."""
        assert self.task is not None  # noqa: S101 - it was started
        either: list[Future[Any]] = [self._ready, self.task]
        wait(either, max(0.0, self._deadline - time.monotonic()), FIRST_COMPLETED)
        if self._ready.done():
            return self._ready.result()
        error = _cause(self.task.exception()) if self.task.done() else TimeoutError()  # _serve is ending it
        late = f"it did not list its tools within {self.spec.start_timeout:g} s"
        said = late if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        raise ToolError(f"{said}{self._last_words()}")

    def tool(self, listed: Any) -> Tool:
        """One of its tools as ours."""
        name, schema = _fit_name(f"{self.spec.name}_{listed.name}"), _fit_schema(listed.input_schema)
        description = " ".join((listed.description or listed.title or listed.name).split())[:DESCRIPTION]
        hinted = bool(listed.annotations and listed.annotations.read_only_hint)
        is_low = self.spec.risk == "low" or (self.spec.risk == "annotations" and hinted)
        risk: Risk = "low" if is_low else "high"

        def call(ctx: ToolContext, **arguments: JSON) -> object:
            return _value(self._call(listed.name, arguments, ctx))

        return Tool(ToolDefinition(name, neutralize(description), schema), call, risk, "ctx")

    def _call(self, name: str, arguments: Mapping[str, JSON], ctx: ToolContext) -> Any:
        if self.task is None or self.task.done():  # it ended meanwhile
            self.start()
            self.listed()
        timeout = self.spec.timeout
        called = self._client.call_tool(name, dict(arguments), read_timeout_seconds=timeout)
        try:
            return self._background.run(called, ctx.cancelled, timeout)
        except Exception as error:
            if "closed" in f"{type(error).__name__} {error}".lower():  # the next call starts it again
                self.stop()
                wait([self.task] if self.task else [], CLOSING)
            raise

    async def _serve(self) -> None:
        import asyncio

        from anyio import fail_after  # what the SDK is built on; it lets the SDK end what it started

        self._stopped = asyncio.Event()
        with fail_after(self.spec.start_timeout) as limit:
            async with self._connected() as client:
                listed = await _listed(client)
                limit.deadline = float("inf")
                self._client = client
                self._ready.set_result(listed)
                await self._stopped.wait()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        spec = self.spec
        if spec.command:
            program, *rest = spec.command
            start = StdioServerParameters(command=program, args=rest, env=dict(spec.env) or None, cwd=spec.cwd)
            async with Client(stdio_client(start, self._errors)) as client:
                yield client
            return
        async with (
            create_mcp_http_client(headers=dict(spec.headers)) as http,
            Client(streamable_http_client(spec.url, http_client=http)) as client,
        ):
            yield client

    def forget_words(self) -> None:
        """Close the file that its standard error goes to."""
        if self._errors is not None:
            self._errors.close()

    def _last_words(self) -> str:
        """The last line it wrote to standard error."""
        self._errors.seek(max(0, self._errors.seek(0, 2) - LAST_WORDS))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"\nIt said: {lines[-1][:200]}" if lines else ""


async def _listed(client: Any) -> list[Any]:
    listed: list[Any] = []
    cursor = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return listed


def _has_sdk() -> bool:
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def _spec(place: str, row: Mapping[str, Any], environ: Mapping[str, str], workspace: Path) -> Spec:
    row = checked(place, row, KEYS, required=("name",))
    if ("command" in row) == ("url" in row):
        raise ConfigError(f"{place}: either command or url is needed")
    for key in ("env", "headers"):
        row[key] = _filled(f"{place}: {key}", row.get(key, {}), environ)
    row["cwd"] = str(workspace / os.path.expanduser(row.get("cwd", ".")))  # noqa: PTH111 - raises nothing, as Path does
    command = row.get("command", [])
    row["command"] = (*([command] if isinstance(command, str) else command), *row.pop("args", ()))
    return Spec(**row)


def _filled(place: str, values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    try:
        return {str(name): Template(value).substitute(environ) for name, value in values.items()}
    except KeyError as error:
        raise ConfigError(f"{place}: there is no environment variable {error.args[0]}") from error
    except ValueError as error:
        raise ConfigError(f"{place}: a $ stands for a variable, as in ${{NAME}}; write $$ for a dollar") from error


def _fit_name(name: str) -> str:
    """A name that every provider takes; one that is too long keeps what tells it from others."""
    fit = re.sub("[^a-zA-Z0-9_-]", "_", name)
    if len(fit) <= NAME_LENGTH:
        return fit
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{fit[: NAME_LENGTH - 9]}_{digest}"


def _fit_schema(schema: Any) -> dict[str, JSON]:
    """Of an object, without words that forge a turn or references that lead out of it: nobody shall fetch them."""
    fit = json.loads(neutralize(json.dumps(_local(schema), ensure_ascii=False)))
    return {**fit, "type": "object"} if isinstance(fit, dict) else {"type": "object"}


def _local(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_local(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _local(value)
        for key, value in schema.items()
        if key not in ("$id", "$schema")
        and not (key == "title" and isinstance(value, str))  # the name once more, in capitals
        and not (key == "$ref" and not str(value).startswith("#"))
    }


def _value(result: Any) -> object:
    parts = [_part(block) for block in result.content]
    if result.is_error:
        raise ToolError("\n".join(part for part in parts if isinstance(part, str)) or "the server gave no reason")
    if any(isinstance(part, Media) for part in parts):
        return parts
    if not parts and result.structured_content is not None:
        return result.structured_content
    return "\n".join(map(str, parts))


def _part(block: Any) -> str | Media:
    import base64

    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return Media(base64.b64decode(block.data), block.mime_type)
    if block.type == "resource" and hasattr(block.resource, "text"):
        return f"[{block.resource.uri}]\n{block.resource.text}"
    where = getattr(block, "uri", "") or getattr(getattr(block, "resource", None), "uri", "")
    return f"[{block.type} {where}, not shown]"


def _cause(error: BaseException | None) -> BaseException | None:
    """What lies under the groups that the SDK wraps errors in."""
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]  # type: ignore[union-attr]
    return error
