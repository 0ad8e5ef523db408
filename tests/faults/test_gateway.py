"""Every fault of the table behind the gateway: each API's client gets an error in its own shape, or an answer.

A row is asked through one API, streamed or whole, in turns; `--hypothesis-profile many` asks each through all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("aiohttp")

from aiohttp.test_utils import TestClient, TestServer

from src.app.async_model import make_async_client
from src.app.state_files import ServerMemory
from src.config import load
from src.serve.gateway import Gateway
from src.serve.pages.metrics import Metrics
from src.serve.upstreams import Replica, Upstreams
from tests.thorough import sample, take_turns
from tests.waiting import PATIENCE_S

from .server import FaultServer
from .table import ROWS

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FUNCTION = {"name": "read", "description": "Read a file.", "parameters": PARAMETERS}
ASKED = [{"role": "user", "content": "go"}]
BODIES = {
    "/v1/chat/completions": {"messages": ASKED, "tools": [{"type": "function", "function": FUNCTION}]},
    "/v1/messages": {"messages": ASKED, "max_tokens": 99, "tools": [{"name": "read", "input_schema": PARAMETERS}]},
    "/v1/responses": {"input": ASKED, "tools": [{"type": "function", **FUNCTION}]},
}
ENDS = {"/v1/chat/completions": "[DONE]", "/v1/messages": "message_stop", "/v1/responses": "event: response."}
OF_THE_MODEL = (49, 50, 52, 61)  # an answer that is cut, empty or repeats itself is the server's own


class Told(NamedTuple):
    status: int
    kind: str
    body: str

    @property
    def is_error(self) -> bool:
        """Whether the client is told of an error, by the status or inside the stream."""
        return self.status >= 400 or '"error":{' in self.body or "response.failed" in self.body


def ask(folder: Path, url: str, settings: dict[str, object], path: str, stream: bool) -> Told:
    config = folder / "config.json"
    config.write_text(json.dumps({"vllm": {**settings, "base_url": url}}))
    loaded = load(config, {}, {"HOME": str(folder)})

    async def run() -> Told:
        gateway = Gateway(Upstreams([Replica(make_async_client(loaded), ServerMemory(folder))]), Metrics(folder))
        body = {"model": "tiny", "stream": stream, **BODIES[path]}
        async with TestClient(TestServer(gateway.make_app())) as client, client.post(path, json=body) as reply:
            return Told(reply.status, reply.content_type, (await reply.read()).decode(errors="replace"))

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


CASES = take_turns(sample(ROWS, 2, 1), list(itertools.product(BODIES, (True, False))))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("row", "path", "stream"),
    [(row, path, stream) for row, (path, stream) in CASES],
    ids=[f"{row.number} {row.name}, {path}, {'streamed' if stream else 'whole'}" for row, (path, stream) in CASES],
)
def test_fault(row, path, stream, tmp_path):
    with FaultServer(*row.scripts, aside=row.aside) as server:
        url = (row.url or "http://127.0.0.1:{port}/v1").format(port=server.port)
        told = ask(tmp_path, url, row.settings, path, stream)
    assert "Traceback" not in told.body
    if told.status >= 400:
        assert told.kind == "application/json"
        assert isinstance(json.loads(told.body)["error"], dict)
    elif told.kind == "text/event-stream":
        assert told.is_error or ENDS[path] in told.body
    else:
        json.loads(told.body)
    if row.code and row.out == "" and row.number not in OF_THE_MODEL:
        assert told.is_error
