"""An editor for the tests: the SDK's own client on the program's pipes, which holds each message to the schema."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import connect_to_agent
from acp.meta import CLIENT_METHODS
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    WriteTextFileRequest,
)

from src.acp.agent import MakeSettings
from src.acp.run import serve_editor
from src.config import Settings, load
from tests.waiting import PATIENCE_S

SCHEMAS = {
    CLIENT_METHODS["session_update"]: SessionNotification,
    CLIENT_METHODS["session_request_permission"]: RequestPermissionRequest,
    CLIENT_METHODS["fs_read_text_file"]: ReadTextFileRequest,
    CLIENT_METHODS["fs_write_text_file"]: WriteTextFileRequest,
}


class Editor:
    """The client's side: what it was shown and asked. `answer` is the id of the option that it chooses."""

    def __init__(self, answer: str | None = "once") -> None:
        self.answer = answer
        self.updates: list[dict[str, Any]] = []
        self.sessions: list[str] = []
        self.asked: list[Any] = []
        self.wrong: list[Any] = []  # messages that differ from what the schema reads in them
        self.buffers: dict[str, str] = {}  # what is open, by its path
        self.saves = True  # what is written is on the disk at once
        self.read: list[str] = []
        self.written: list[str] = []
        self.watch: Callable[[dict[str, Any]], None] = lambda _: None

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = update.model_dump(by_alias=True, exclude_none=True)
        self.updates.append(shown)
        self.sessions.append(session_id)
        self.watch(shown)

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        self.asked.append((tool_call, options))
        if self.answer in [option.option_id for option in options]:
            chosen = AllowedOutcome(outcome="selected", option_id=self.answer)
            return RequestPermissionResponse(outcome=chosen)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        self.read.append(path)
        return ReadTextFileResponse(content=self.buffers[path] if path in self.buffers else Path(path).read_text())

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.written.append(path)
        self.buffers[path] = content
        if self.saves:
            Path(path).write_text(content)

    def check(self, event: Any) -> None:
        """The schema drops what it cannot read; so what it read must be all that was sent."""
        message = event.message
        if event.direction.value == "incoming" and (schema := SCHEMAS.get(message.get("method"))):
            read = schema.model_validate(message["params"]).model_dump(mode="json", by_alias=True, exclude_unset=True)
            if read != message["params"]:
                self.wrong.append((message["params"], read))

    def list_kinds(self) -> list[str]:
        return [shown["sessionUpdate"] for shown in self.updates]

    def join_text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(shown["content"]["text"] for shown in self.updates if shown["sessionUpdate"] == kind)


def make_settings(url: str, file: Path | None = None, sandbox: str = "off") -> MakeSettings:
    """As the command makes them: those for sessions in a folder, and others added to it. Trying a sandbox takes time."""
    given = {"vllm.base_url": url, "vllm.retries": 0, "security.sandbox": sandbox}
    return lambda folder, added: load(
        file, {**given, "workspace.dir": str(folder), "workspace.add_dirs": [*added]}, os.environ
    )


@asynccontextmanager
async def open_program(make: Callable[[Path], Settings], editor: Editor) -> AsyncIterator[Any]:
    """The program in a thread, on pipes. Every message of it is valid."""
    to_program, from_editor = os.pipe()
    from_program, to_editor = os.pipe()
    program = threading.Thread(target=serve_editor, args=(make, to_program, to_editor), daemon=True)
    program.start()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_program, "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(from_editor, "wb", 0)
    )
    writer = asyncio.StreamWriter(writing, protocol, None, loop)
    client = connect_to_agent(editor, writer, reader, use_unstable_protocol=True, observers=[editor.check])
    try:
        yield client
    finally:
        writing.close()
        await asyncio.to_thread(program.join, PATIENCE_S)
        await client.close()
        reading.close()
    assert not program.is_alive()
    assert not editor.wrong


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))
