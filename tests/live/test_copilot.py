"""The real Copilot CLI as a provider, offline, with a scripted server behind it.

The CLI is the one at COPILOT_CLI_PATH or on PATH; with VLLM_BOT_RIG it is installed by npm. Else these are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec.structs import replace

from src.app.connect import Connections
from src.app.endpoint import make_settings
from src.app.library.agent import Agent
from src.app.library.server import Server
from src.batch.driver import Batch
from src.batch.results import Results
from src.batch.tasks import BatchOptions, Task
from src.config import Settings
from src.config.settings import ReviewSettings, VllmSettings
from src.errors import Cancelled, RequestFailed, Unauthorized
from src.security.permissions.approval import Answer
from src.tools import tool
from src.transport import Timeouts
from src.types.events import CallDenied, TextDelta, ToolCallDelta
from tests.doubles import ScriptedServer
from tests.waiting import wait_until

from .clients import Installation
from .conftest import RIG, ROOT

SUM = [{"content": "The sum is 3."}, {"finish": "stop", "usage": {"prompt_tokens": 20, "completion_tokens": 6}}]
QUESTION = "What is 1 + 2?"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = shutil.which(os.environ.get("COPILOT_CLI_PATH") or "copilot")
    if found:
        return str(Path(found).absolute())
    if not (RIG and shutil.which("npm")):
        pytest.skip("there is no Copilot CLI: see tests/live/test_copilot.py")
    folder = Path(os.environ.get("VLLM_BOT_CLIENTS") or tmp_path_factory.mktemp("clients"))
    Installation(folder).install("copilot")
    return str(folder / "pinned" / "node_modules" / ".bin" / "copilot")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home for all, where the CLI unpacks itself once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(program: str, unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Afterwards no process of the CLI is left, and no file."""
    monkeypatch.setenv("HOME", str(unpacked))
    monkeypatch.setenv("COPILOT_CLI_PATH", program)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield unpacked
    wait_until(lambda: not list_processes(tmp_path), "a process of the CLI is left")
    assert list(tmp_path.glob("vllm-bot-copilot-*")) == []


def list_processes(folder: Path) -> list[str]:
    """The processes whose command line names the folder for temporary files, as the CLI's does."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"{folder}/vllm-bot-copilot-" in line]


def call(index: int, id: str | None, arguments: str, name: str = "add") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments} if id else {"arguments": arguments}
    return {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}


def make_agent(server: ScriptedServer, **options: Any) -> Agent:
    ran: list[tuple[int, int]] = []

    @tool(risk="low" if "approve" not in options else "high")
    def add(a: Annotated[int, "first"], b: Annotated[int, "second"]) -> str:
        """Add two numbers."""
        ran.append((a, b))
        return str(a + b)

    agent = Server(server.url, provider="copilot", timeouts=options.pop("timeouts", None)).agent(
        tools=[add], model="tiny", **options
    )
    agent.ran = ran  # type: ignore[attr-defined]
    return agent


def test_a_tool_round_trip_goes_on_in_one_session(home):
    asked = [{"content": "Let me see."}, call(0, "c1", '{"a": 1, "b": 2}'), {"finish": "tool_calls"}]
    with ScriptedServer(asked, SUM, SUM) as server, make_agent(server) as agent:
        first = agent.answer(QUESTION)
        agent.answer("And now?")
    assert (first.text, agent.ran) == ("The sum is 3.", [(1, 2)])
    assert (first.usage.input_tokens, first.usage.output_tokens) == (20, 6)
    sent = server.requests[1]["messages"]
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "tool"]
    assert (sent[-1]["tool_call_id"], sent[-1]["content"]) == ("c1", "3")
    assert [each["function"]["name"] for each in server.requests[0]["tools"]] == ["add"]
    assert [each["role"] for each in server.requests[2]["messages"]][-2:] == ["assistant", "user"]
    assert not (home / ".copilot").exists()


def test_an_answer_dense_in_tokens_ends_the_turn():
    dense = "5feceb66ffc86f38d952786c6d696c79"
    asked = [{"content": dense}, {"finish": "stop", "usage": {"prompt_tokens": 20, "completion_tokens": len(dense)}}]
    with ScriptedServer(asked) as server, make_agent(server) as agent:
        assert agent.answer(QUESTION).text == dense
    assert len(server.requests) == 1


def test_text_and_arguments_stream_while_the_server_still_writes():
    seen = threading.Event()

    def write() -> Iterator[dict[str, Any]]:
        yield {"content": "Let me see, "}
        yield call(0, "c1", '{"a": 1, ')
        assert seen.wait(60)
        yield call(0, None, '"b": 2}')
        yield {"finish": "tool_calls"}

    with ScriptedServer(write(), SUM) as server, make_agent(server) as agent:
        events = []
        for event in agent.ask(QUESTION):
            events.append(event)
            if isinstance(event, ToolCallDelta):
                seen.set()
    assert events[1] == TextDelta("Let me see, ")
    assert "".join(each.arguments_delta for each in events if isinstance(each, ToolCallDelta)) == '{"a": 1, "b": 2}'
    assert agent.ran == [(1, 2)]


def test_parallel_calls_get_each_its_result():
    asked = [call(0, "c1", '{"a": 1, "b": 2}'), call(1, "c2", '{"a": 3, "b": 4}'), {"finish": "tool_calls"}]
    with ScriptedServer(asked, SUM) as server, make_agent(server) as agent:
        agent.answer(QUESTION)
    results = {
        each["tool_call_id"]: each["content"] for each in server.requests[1]["messages"] if each["role"] == "tool"
    }
    assert results == {"c1": "3", "c2": "7"}


def test_a_refused_permission_is_told_with_its_reason_and_nothing_runs():
    asked = [call(0, "c1", '{"a": 1, "b": 2}'), {"finish": "tool_calls"}]
    refuse = lambda request: Answer(False, "Not on a Sunday.")  # noqa: E731
    with ScriptedServer(asked, SUM) as server, make_agent(server, approve=refuse) as agent:
        events = list(agent.ask(QUESTION))
    assert any(isinstance(each, CallDenied) for each in events)
    assert agent.ran == []
    (told,) = [each["content"] for each in server.requests[1]["messages"] if each["role"] == "tool"]
    assert "rejected" in told and "Not on a Sunday." in told


def test_what_the_model_gets_wrong_is_told_and_the_session_goes_on():
    asked = [call(0, "c1", '{"a": 1, "b": '), call(1, "c2", "{}", name="frob"), {"finish": "tool_calls"}]
    with ScriptedServer(asked, SUM) as server, make_agent(server) as agent:
        assert agent.answer(QUESTION).text == "The sum is 3."
    assert agent.ran == []
    told = [each["content"] for each in server.requests[1]["messages"] if each["role"] == "tool"]
    assert "not valid JSON" in told[0] and "does not exist" in told[1]


def test_a_cancelled_answer_ends_at_once_and_the_conversation_goes_on():
    over = threading.Event()

    def write() -> Iterator[dict[str, Any]]:
        yield {"content": "Let me see, "}
        over.wait(60)

    with ScriptedServer(write(), SUM) as server, make_agent(server) as agent:
        with pytest.raises(Cancelled):
            for event in agent.ask(QUESTION):
                if isinstance(event, TextDelta):
                    agent.cancel()
        assert agent.answer("And now?").text == "The sum is 3."
        over.set()
    assert "And now?" in server.requests[-1]["messages"][-1]["content"]


def test_a_killed_server_is_an_error_and_no_wait():
    def write() -> Iterator[dict[str, Any]]:
        yield {"content": "Let me see, "}
        raise ConnectionResetError

    with ScriptedServer(write(), SUM) as server, make_agent(server) as agent:
        with pytest.raises(RequestFailed, match="broke"):
            list(agent.ask(QUESTION))
        assert agent.answer("And now?").text == "The sum is 3."
    with make_agent(server) as agent, pytest.raises(RequestFailed, match="cannot reach"):
        list(agent.ask(QUESTION))


def test_refusals_of_the_server_count_with_their_status():
    no_parser = {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice', "code": 400}}
    asked = [{"content": 'TOOL_CALL: {"name": "add", "args": {"a": 1, "b": 2}}'}, {"finish": "stop"}]
    busy = 503, {"error": {"message": "busy", "code": 503}}
    with ScriptedServer((400, no_parser), asked, busy, SUM) as server, make_agent(server) as agent:
        assert agent.answer(QUESTION).text == "The sum is 3."
        assert agent.ran == [(1, 2)]
    assert ["tools" in each for each in server.requests] == [True, False, False, False]
    refusal = 401, {"error": {"message": "no such key"}}
    refused = pytest.raises(Unauthorized, match="no such key")
    with ScriptedServer(refusal) as server, make_agent(server) as agent, refused:
        agent.answer(QUESTION)


def test_a_server_that_says_nothing_runs_into_the_limit():
    over = threading.Event()

    def write() -> Iterator[dict[str, Any]]:
        over.wait(60)
        yield {"finish": "stop"}

    limits = Timeouts(first_token=20.0, total=15.0)
    with ScriptedServer(write()) as server, make_agent(server, timeouts=limits) as agent:
        with pytest.raises(RequestFailed, match="15 seconds"):
            list(agent.ask(QUESTION))
        over.set()


def test_one_question_on_the_command_line_ends_with_nothing_left(home, tmp_path):
    asked = [{"content": "Let me see."}, call(0, "c1", '{"path": "."}', "list_files"), {"finish": "tool_calls"}]
    with ScriptedServer(asked, SUM) as server:
        settings = {"vllm": {"provider": "copilot", "base_url": server.url, "model": "tiny"}}
        file = tmp_path / "settings.json"
        file.write_text(json.dumps(settings))
        command = [sys.executable, str(ROOT / "cli.py"), "--config", str(file), "-p", QUESTION]
        environ = {**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
        done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("The sum is 3.")


def test_a_batch_on_it_leaves_nothing(tmp_path):
    asked = [call(0, "c1", '{"path": "a.txt", "content": "new"}', "write"), {"finish": "tool_calls"}]
    with ScriptedServer(asked, SUM) as server:
        settings = replace(make_settings(server.url, "copilot", model="tiny"), state=tmp_path / "state")
        with Results(tmp_path / "out") as results:
            batch = Batch([Task("t", "Write it")], settings, results, BatchOptions((server.url,), jobs=1))
            batch.run()
    (row,) = batch.rows
    assert (row.status, row.answer, row.calls) == ("answered", "The sum is 3.", 1)
    assert "+new" in row.patch


def test_a_reviewer_and_a_panel_may_be_on_it():
    with ScriptedServer([{"content": "APPROVE: fine"}, {"finish": "stop"}], SUM) as server:
        other = VllmSettings(provider="copilot", base_url=server.url, model="tiny")
        review = ReviewSettings(models=({"server": "cli"},))
        connections = Connections(Settings(servers={"cli": other}, review=review))
        (reviewer,) = connections.make_review_board().reviewers
        assert reviewer.ask("May it run?") == "APPROVE: fine"
        (member,) = connections.make_panel().members
        assert member.ask(QUESTION) == "The sum is 3."
