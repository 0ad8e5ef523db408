"""A program that speaks JSON-RPC 2.0 over its standard input and output, each message after a Content-Length header.

Two threads read and write, so that whoever waits for an answer waits within a limit, whatever the program does. The
program ends when its input does, and is killed with all of its process group if it does not. The framing is that of
the Language Server Protocol, base protocol.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, cast

from ..errors import StreamCut

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
END_GRACE_S = 2.0  # for the program to end by itself
MAX_REASON_CHARS = 300  # of what the program wrote to its standard error

RpcMessage = dict[str, Any]


class JsonRpcProcess:
    """A program that runs in `folder`, in a session of its own: Ctrl-C in the terminal does not reach it.

    `name`: what messages to the user call it. Raises OSError if it cannot be started.
    """

    def __init__(self, name: str, command: Sequence[str], environ: Mapping[str, str], folder: str) -> None:
        self._name = name
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the program that the user installed
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=dict(environ),
                cwd=folder,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        self._last_id = 0
        self._input, self._output = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._incoming: SimpleQueue[RpcMessage | None] = SimpleQueue()
        for work in (self._read, self._write):
            Thread(target=work, daemon=True, name=f"{name}: {work.__name__}").start()

    def send(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request. Returns its id, which the answer has too."""
        self._last_id += 1
        self._put({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def refuse(self, request: RpcMessage) -> None:
        """Answer a request of the program: there is no such method."""
        error = {"code": -32601, "message": f"Method not found: {request.get('method')}"}
        self._put({"jsonrpc": "2.0", "id": request.get("id"), "error": error})

    def receive(self, within: float) -> RpcMessage | None:
        """The next message; None if none comes within so many seconds. Raises StreamCut if the program ended."""
        try:
            message = self._incoming.get(timeout=within)
        except Empty:
            return None
        if message is None:
            self._incoming.put(None)  # for who asks again
            raise StreamCut(f"{self._name} ended{self._describe_end()}.")
        return message

    def end(self) -> None:
        """End the program, and what it started."""
        self._outgoing.put(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_GRACE_S)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def _put(self, message: RpcMessage) -> None:
        body = json.dumps(message).encode()
        self._outgoing.put(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def _write(self) -> None:
        with suppress(OSError, ValueError), self._input as pipe:
            while (message := self._outgoing.get()) is not None:
                pipe.write(message)
                pipe.flush()

    def _read(self) -> None:
        with suppress(OSError, ValueError), self._output as pipe:
            while (message := read_message(pipe)) is not None:
                self._incoming.put(message)
        self._incoming.put(None)

    def _describe_end(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_GRACE_S)
        status = self._process.poll()
        self._errors.seek(0)
        written = " ".join(self._errors.read().decode(errors="replace").split())[-MAX_REASON_CHARS:]
        return f" with status {status}: {written}".rstrip(".: ")


def read_message(pipe: IO[bytes]) -> RpcMessage | None:
    """The next message; None at the end. Raises ValueError for a line that is not a message."""
    size: int | None = None
    while line := pipe.readline():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            size = int(value)
        if line.strip():
            continue
        if size is None or not 0 <= size <= MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {size} bytes")
        body = pipe.read(size)
        if len(body) < size:
            return None
        message = json.loads(body)
        return message if isinstance(message, dict) else None
    return None
