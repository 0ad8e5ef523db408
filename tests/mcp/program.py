"""The program as an MCP server, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from src.app.keys import PREFIX, hash_key
from tests.sources import ROOT
from tests.waiting import POLL_S

SECRET = "sk-secret-of-the-server"
KEY = "key-of-a-client"


def make_options(url: str, root: Path, *words: str) -> list[str]:
    return ["mcp", "--base-url", url, "--model", "tiny", "--root", str(root), *words]


def make_words(url: str, root: Path, *words: str) -> list[str]:
    return [str(ROOT / "cli.py"), *make_options(url, root, *words)]


def list_variables(root: Path) -> dict[str, str]:
    state = str(root.parent / "state")
    return {"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state, "VLLM_API_KEY": SECRET}


async def wait_until_it_listens(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(POLL_S)
        else:
            writer.close()
            return


@asynccontextmanager
async def serve_http(url: str, root: Path) -> AsyncIterator[str]:
    """The address of the program, which answers whoever has the key."""
    keys = root.parent / "keys"
    keys.write_text(f"{PREFIX}{hash_key(KEY)}\n")
    words = make_words(url, root, "--listen", "127.0.0.1:0", "--keys", str(keys))
    program = await asyncio.create_subprocess_exec(
        sys.executable, *words, env={**os.environ, **list_variables(root)}, cwd=root, stderr=asyncio.subprocess.PIPE
    )
    try:
        line = (await program.stderr.readline()).decode()
        address = next(word for word in line.split() if word.startswith("http://"))
        await wait_until_it_listens(urlsplit(address).port)
        yield address
    finally:
        program.terminate()
        await program.communicate()
