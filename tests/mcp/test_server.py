"""The program as another agent sees it: the SDK's client, on pipes and over HTTP, a server on loopback, a folder."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from src.cli.commands.mcp import make_delegate
from src.cli.main import EXIT_SIGNAL, make_parser
from tests.doubles import ScriptedServer
from tests.sources import ROOT
from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S

from .program import KEY, SECRET, list_variables, make_options, make_words, serve_http

if TYPE_CHECKING:
    from mcp import Client

IDS = count()


@pytest.fixture(autouse=True, scope="module")
def sdk() -> None:
    """The SDK, loaded only in processes that run these tests: that takes 0.7 s of CPU."""
    pytest.importorskip("mcp", reason="the SDK of MCP is not installed: pip install mcp")


def says(text: str) -> list[dict]:
    return [{"content": text}, {"finish": "stop"}]


def calls(name: str, **arguments: object) -> list[dict]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call-{next(IDS)}", "type": "function", "function": function}
    return [{"tool_calls": [call]}, {"finish": "tool_calls"}]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which tasks work, and in which the program runs, with its variables."""
    folder = tmp_path / "root"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, value in list_variables(folder).items():
        monkeypatch.setenv(name, value)
    write_settings(folder)
    return folder


def write_settings(root: Path, **security: object) -> None:
    """The user's. Trying a sandbox takes time."""
    file = root.parent / "state/vllm-bot/config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"security": {"sandbox": "off", **security}}))


@asynccontextmanager
async def open_client(url: str, root: Path, *words: str) -> AsyncIterator[Client]:
    """A client of the program, which runs in this process."""
    from mcp import Client

    options = make_parser(("mcp",)).parse_args(make_options(url, root, *words))
    async with Client(make_delegate(options).make_server()) as client:
        yield client


@asynccontextmanager
async def open_pipes(url: str, root: Path) -> AsyncIterator[Client]:
    """A client whose server is the program in a process of its own, on pipes."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = StdioServerParameters(
        command=sys.executable, args=make_words(url, root), env=dict(os.environ), cwd=str(root)
    )
    # By default the standard error of when the SDK was loaded: in a test, that may be no file.
    async with Client(stdio_client(program, sys.__stderr__)) as client:
        yield client


def run(work) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def test_there_is_one_tool_with_a_schema_for_what_it_takes_and_gives(root):
    async def work() -> None:
        async with open_client("http://127.0.0.1:9/v1", root) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.name == "delegate"
            assert tool.input_schema["required"] == ["task", "folder"]
            assert str(root) in tool.input_schema["properties"]["folder"]["description"]
            assert "mode plan" in tool.description
            assert tool.annotations.read_only_hint

    run(work())


@pytest.mark.parametrize("open_it", [open_client, pytest.param(open_pipes, marks=only_thorough)])
def test_a_task_in_mode_plan_reads_and_reports(open_it, root):
    (root / "part").mkdir()
    (root / "part/notes.txt").write_text("the answer is 42\n")
    told: list[str] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(f"{progress:g} {message}")

    async def work(url: str) -> None:
        async with open_it(url, root) as client:
            asked = {"task": "What is the answer?", "folder": "part"}
            report = await client.call_tool("delegate", asked, progress_callback=tell)
            assert not report.is_error
            assert report.structured_content["answer"] == "It is 42."
            assert report.structured_content["outcome"] == "done"
            assert report.structured_content["changed"] == []
            assert report.content[0].text.startswith("It is 42.\n\nChanged files: none.")

    with ScriptedServer(calls("read", path="notes.txt"), says("It is 42.")) as server:
        run(work(server.url))
        assert "the answer is 42" in json.dumps(server.requests[1]["messages"])
    assert told == ["1 read notes.txt"]


def test_the_progress_of_a_task_holds_no_key(root):
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def work(url: str) -> None:
        async with open_client(url, root) as client:
            await client.call_tool("delegate", {"task": "Find it.", "folder": "."}, progress_callback=tell)

    with ScriptedServer(calls("glob", pattern=f"{SECRET}*"), says("None.")) as server:
        run(work(server.url))
    assert len(told) == 1
    assert SECRET not in str(told)


def test_the_diff_shows_no_file_that_a_rule_keeps_from_read(root):
    (root / ".env").write_text("KEY=swordfish\n")
    write_settings(root, rules=[{"tool": "read", "path": ".env", "action": "deny"}])

    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "edits") as client:
            report = await client.call_tool("delegate", {"task": "Empty it.", "folder": "."})
            assert report.structured_content["changed"] == [".env"]
            assert report.structured_content["diff"] == "# .env: changed, and a rule keeps it from being read\n"
            assert "swordfish" not in report.content[0].text

    with ScriptedServer(calls("write", path=".env", content="empty\n"), says("Done.")) as server:
        run(work(server.url))


def test_a_task_that_may_edit_reports_the_diff(root):
    (root / "a.txt").write_text("old\n")
    command = calls("exec", command="echo made > b.txt", access="write")

    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "full") as client:
            report = await client.call_tool("delegate", {"task": "Change it.", "folder": "."})
            diff = report.structured_content["diff"]
            assert report.structured_content["changed"] == ["a.txt", "b.txt"]
            assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n" in diff
            assert "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+made\n" in diff
            assert diff in report.content[0].text

    with ScriptedServer(calls("write", path="a.txt", content="new\n"), command, says("Done.")) as server:
        run(work(server.url))
    assert (root / "a.txt").read_text() == "new\n"


def test_a_task_that_fails_after_a_change_reports_the_change(root):
    (root / "a.txt").write_text("one\n")

    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "edits") as client:
            report = await client.call_tool("delegate", {"task": "Change it.", "folder": "."})
            assert not report.is_error
            told = report.structured_content
            assert "HTTP 400" in told["outcome"]
            assert told["changed"] == ["a.txt"]
            assert "+two" in told["diff"]

    with ScriptedServer(
        calls("edit", path="a.txt", oldText="one", newText="two"), (400, {"error": {"message": "no more"}})
    ) as server:
        run(work(server.url))


def test_what_the_mode_does_not_allow_is_not_run_and_reported(root):
    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "ask") as client:
            report = await client.call_tool("delegate", {"task": "Change it.", "folder": "."})
            (denied,) = report.structured_content["denied"]
            assert denied.startswith("write a.txt: ")

    with ScriptedServer(calls("write", path="a.txt", content="new"), says("I may not.")) as server:
        run(work(server.url))
    assert not (root / "a.txt").exists()


def test_the_users_hooks_hold_for_a_task(root):
    guard = root.parent / "guard.py"
    guard.write_text("import sys; sys.exit('broken')")
    settings = root.parent / "settings.json"
    settings.write_text(json.dumps({"hooks": {"before_call": [{"command": [sys.executable, "guard.py"]}]}}))

    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "full", "--config", str(settings)) as client:
            report = await client.call_tool("delegate", {"task": "Change it.", "folder": "."})
            (denied,) = report.structured_content["denied"]
            assert denied == (
                "write a.txt: nobody is there to be asked, and this call needs a person: "
                "hook guard.py failed: exit code 1: broken."
            )

    with ScriptedServer(calls("write", path="a.txt", content="new"), says("I may not.")) as server:
        run(work(server.url))
    assert not (root / "a.txt").exists()


def test_the_report_holds_no_key(root):
    async def work(url: str) -> None:
        async with open_client(url, root) as client:
            report = await client.call_tool("delegate", {"task": "What is it?", "folder": "."})
            assert SECRET not in report.model_dump_json()

    with ScriptedServer(says(f"The key is {SECRET}.")) as server:
        run(work(server.url))


REFUSED = {  # a folder -> what is said of it
    "..": "is not below",
    "/": "is not below",
    "link": "is not below",
    "missing": "There is no folder 'missing'",
    "file": "There is no folder 'file'",
    "a\0b": "There is no folder",
    "": "`folder` is missing",
}


def test_a_folder_that_is_not_below_a_root_is_refused(root):
    (root / "link").symlink_to(root.parent)
    (root / "file").touch()

    async def work() -> None:
        async with open_client("http://127.0.0.1:9/v1", root) as client:
            for folder, said in REFUSED.items():
                report = await client.call_tool("delegate", {"task": "Look.", "folder": folder})
                assert report.is_error
                assert said in report.content[0].text

    run(work())


@only_thorough
@pytest.mark.parametrize("command", ["acp", "mcp"])
def test_without_input_the_program_ends_in_silence(command, root):
    words = [sys.executable, str(ROOT / "cli.py"), command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@only_thorough
def test_a_signal_ends_the_program_while_the_client_is_there(root):
    words = make_words("http://127.0.0.1:9/v1", root)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *words], **pipes) as program:
        program.stdin.write(json.dumps(hello).encode() + b"\n")
        program.stdin.flush()
        assert program.stdout.readline()
        program.terminate()
        assert program.wait(PATIENCE_S) == EXIT_SIGNAL + signal.SIGTERM


def test_without_a_server_the_report_says_what_to_do(root):
    async def work() -> None:
        async with open_client("http://127.0.0.1:9/v1", root) as client:
            report = await client.call_tool("delegate", {"task": "Look.", "folder": "."})
            assert report.is_error
            assert "127.0.0.1:9" in report.content[0].text

    run(work())


def test_a_cancelled_task_ends_and_the_next_one_runs(root):
    begun, ended = threading.Event(), threading.Event()

    def drip() -> Iterator[dict]:
        try:
            while True:
                begun.set()
                yield {"content": "word "}
                ended.wait(0.01)
        finally:
            ended.set()  # the program has closed the connection

    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "edits") as client:
            task = asyncio.ensure_future(client.call_tool("delegate", {"task": "Go on.", "folder": "."}))
            await asyncio.to_thread(begun.wait, PATIENCE_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(ended.wait, PATIENCE_S)
            while (report := await client.call_tool("delegate", {"task": "Again.", "folder": "."})).is_error:
                assert "Another task works" in report.content[0].text  # it is about to end
            assert report.structured_content["answer"] == "Here."

    with ScriptedServer(drip(), says("Here.")) as server:
        run(work(server.url))


def test_two_tasks_may_not_change_the_same_folder_at_once(root):
    (root / "inner").mkdir()
    begun, may_end = threading.Event(), threading.Event()

    def wait() -> Iterator[dict]:
        begun.set()
        yield {"content": "I was first."}
        may_end.wait(PATIENCE_S)
        yield {"finish": "stop"}

    async def work(url: str) -> None:
        async with open_client(url, root, "--mode", "edits") as client:
            first = asyncio.ensure_future(client.call_tool("delegate", {"task": "Go.", "folder": "."}))
            await asyncio.to_thread(begun.wait, PATIENCE_S)
            second = await client.call_tool("delegate", {"task": "Go.", "folder": "inner"})
            assert second.is_error
            assert "Another task works in" in second.content[0].text
            may_end.set()
            assert (await first).structured_content["answer"] == "I was first."

    with ScriptedServer(wait()) as server:
        run(work(server.url))


def test_over_http_a_client_with_the_key_delegates_and_nobody_else_is_answered(root):
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def work(url: str) -> None:
        async with (
            serve_http(url, root) as address,
            create_mcp_http_client(headers={"Authorization": f"Bearer {KEY}"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            report = await client.call_tool("delegate", {"task": "Hello?", "folder": "."})
            assert report.structured_content["answer"] == "Hello."
            async with create_mcp_http_client() as stranger:
                for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {KEY}"}):
                    refusal = await stranger.post(address, json={}, headers=wrong)
                    assert refusal.status_code == 401
                    assert refusal.json()["error"].startswith("A key is needed")

    with ScriptedServer(says("Hello.")) as server:
        run(work(server.url))
