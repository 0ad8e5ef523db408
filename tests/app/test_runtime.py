"""From settings to a running agent."""

from __future__ import annotations

import json
import sys
import threading
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.app.connect import FACTS
from src.app.discovery import discover
from src.app.factory import Factory
from src.app.permissions import defer_sandbox, make_policy, make_tool_context
from src.app.toolset import make_tools
from src.cli.demo.loopback import serve
from src.cli.demo.protocol import DemoServer, DemoTurn
from src.config import SecuritySettings, Settings
from src.config.settings import AgentSettings, ToolSettings, VllmSettings
from src.negotiation.call_path import CallPath, Reason
from src.security.permissions.approval import APPROVE_ALL, REFUSE_ALL, Answer
from src.security.sandbox.deferred import DeferredSandbox
from src.session.replay import replay
from src.types.events import CallDenied, CallFinished, Completed, Notice
from src.types.messages import CHECKS_LEAD, Response, Text, ToolCall, ToolResults, UserMessage
from tests.doubles import ScriptedServer
from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S

NO_SANDBOX = SecuritySettings(sandbox="off")  # trying one takes time


def list_requests(state, ask_twice=False):
    """The requests of one question to a server that was not asked anything before."""
    paths = []
    server = DemoServer(lambda _: DemoTurn("Hello."), lambda _: None)
    with serve(lambda request: paths.append(request.path) or server(request)) as address:
        for _ in range(1 + ask_twice):
            paths.clear()
            FACTS.clear()  # as in a new program
            settings = Settings(vllm=VllmSettings(base_url=f"{address}/v1"), root=state, state=state)
            target = discover(Factory(settings), lambda names: names[0], lambda _: None)
            runtime = Factory(target.settings).make_runtime(target.model, REFUSE_ALL)
            session = Factory(target.settings).make_session(target.model)
            list(runtime.answer(session, UserMessage("Hi.")))
            assert runtime.save_server_facts() == ""
    return paths[: paths.index("/v1/chat/completions")]


def test_four_requests_go_out_before_the_first_question(tmp_path):
    assert list_requests(tmp_path) == ["/v1/models", "/tokenize", "/tokenize", "/v1/chat/completions/render"]


def test_what_was_learned_of_the_server_is_not_asked_again_at_the_next_start(tmp_path):
    assert list_requests(tmp_path, ask_twice=True) == ["/v1/models", "/version"]


def test_what_only_one_conversation_was_refused_is_not_saved(tmp_path):
    settings = Settings(vllm=VllmSettings(base_url="http://127.0.0.1:9/v1"), root=tmp_path, state=tmp_path)
    runtime = Factory(settings).make_runtime("m", REFUSE_ALL)
    runtime.model.path = CallPath("text", Reason.REFUSED_HERE)
    assert runtime.save_server_facts() == ""
    assert not (tmp_path / "servers.json").exists()


def warn_of_sandbox(state, calls):
    """For each event of an answer in a workspace that no sandbox can contain: its type, or the words of a notice."""
    turns = iter([DemoTurn("", calls=(call,)) for call in calls])
    with serve(DemoServer(lambda _: next(turns, DemoTurn("Done.")), lambda _: None)) as address:
        FACTS.clear()
        settings = Settings(vllm=VllmSettings(base_url=f"{address}/v1"), root=Path("/"), state=state)
        runtime = Factory(settings).make_runtime("demo", REFUSE_ALL)
        session = Factory(settings).make_session("demo")
        return [
            event.text if isinstance(event, Notice) else type(event)
            for event in runtime.answer(session, UserMessage("Hi."))
        ]


def test_that_no_sandbox_works_is_told_once_and_before_the_first_call(tmp_path):
    events = warn_of_sandbox(tmp_path, [("exec", {"command": "true"})] * 2)
    warnings = [at for at, each in enumerate(events) if "none works here" in str(each)]
    assert warnings == [events.index(Completed) + 1]
    assert warnings[0] < events.index(CallDenied)


@pytest.mark.parametrize("call", [("read", {"path": "etc/hostname"}), ("todo_write", {"todos": []})])
def test_the_sandbox_is_not_tried_for_calls_that_run_no_command(tmp_path, call):
    assert "none works here" not in str(warn_of_sandbox(tmp_path, [call]))


def test_the_sandbox_is_not_tried_for_an_answer_without_calls(tmp_path):
    assert "none works here" not in str(warn_of_sandbox(tmp_path, []))


def test_what_a_tool_changes_does_not_widen_what_commands_see(tmp_path):
    """A virtual environment in the workspace names the Python that it was made from, which commands may read."""
    workspace, secret = tmp_path / "ws", tmp_path / "secret"
    for folder in (workspace, secret / "bin", secret / "lib" / "python3.11"):
        folder.mkdir(parents=True)
    (secret / "bin" / "python3").touch()
    (secret / "lib" / "python3.11" / "os.py").touch()
    settings = Settings(root=workspace, state=tmp_path / "state")
    sandbox = defer_sandbox(settings)
    before = sandbox.view
    (workspace / ".venv" / "bin").mkdir(parents=True)
    (workspace / ".venv" / "bin" / "python3").symlink_to(secret / "bin" / "python3")
    assert secret.resolve() not in before.readable
    assert sandbox.view is before
    assert secret.resolve() in defer_sandbox(settings).view.readable


@pytest.mark.parametrize(
    ("name", "arguments", "is_looked"),
    [
        ("read", {"path": "a"}, False),
        ("write", {"path": "a", "content": ""}, True),
        ("exec", {"command": "true"}, True),
        ("task", {"prompt": "Look."}, True),
    ],
)
def test_what_commands_see_is_found_before_the_first_call_that_may_change_it(
    tmp_path, monkeypatch, name, arguments, is_looked
):
    looked = []
    monkeypatch.setattr(DeferredSandbox, "take_warning", lambda sandbox: looked.append(sandbox.view))
    warn_of_sandbox(tmp_path, [(name, arguments)])
    assert bool(looked) == is_looked


class TestChecks:
    """After an edit the project's checkers run, in a sandbox, where the user trusts the workspace."""

    @pytest.fixture
    def tell(self, tmp_path):
        """The result of an edit in a workspace with an error, which has a checker."""
        root = (tmp_path / "ws").resolve()
        (root / "venv" / "bin").mkdir(parents=True)
        (root / "ruff.toml").touch()
        (root / "venv" / "bin" / "ruff").write_text("#!/bin/sh\necho a.py:1:1: E1 wrong\n")
        (root / "venv" / "bin" / "ruff").chmod(0o755)

        def tell(*, is_trusted, **changes):
            security = SecuritySettings(**{"mode": "edits", **changes.pop("security", {})})
            settings = Settings(security=security, root=root, state=tmp_path / "state", **changes)
            Factory(settings).trust_memory.save(is_trusted=is_trusted)
            call = ("write", {"path": "a.py", "content": "x"})
            turns = iter([DemoTurn("", calls=(call,)), DemoTurn("Done.")])
            with serve(DemoServer(lambda _: next(turns), lambda _: None)) as address:
                FACTS.clear()
                settings = replace(settings, vllm=replace(settings.vllm, base_url=f"{address}/v1"))
                runtime = Factory(settings).make_runtime("demo", REFUSE_ALL)
                events = [*runtime.answer(Factory(settings).make_session("demo"), UserMessage("Hi."))]
            if not runtime.sandbox.is_enforcing and security.sandbox != "off":
                pytest.skip("no sandbox works here")
            (root / "a.py").unlink()
            return next(event.result.text for event in events if isinstance(event, CallFinished))

        return tell

    def test_in_a_trusted_folder_errors_are_told(self, tell):
        assert tell(is_trusted=True).endswith(f"[{CHECKS_LEAD}\na.py:1:1: E1 wrong [ruff]]")

    def test_in_another_they_are_not(self, tell):
        assert CHECKS_LEAD not in tell(is_trusted=False)

    @pytest.mark.parametrize("mode", ["edits", "full"])
    def test_without_a_sandbox_they_are_not(self, tell, mode):
        assert CHECKS_LEAD not in tell(is_trusted=True, security={"mode": mode, "sandbox": "off"})

    def test_to_a_model_that_takes_them_for_failure_they_are_not(self, tell):
        assert CHECKS_LEAD not in tell(is_trusted=True, models={"dem*": {"diagnostics": False}})


def test_what_was_shown_of_an_answer_is_saved_while_the_server_is_silent(tmp_path):
    """But for its last word, which may be half a secret."""
    words, saved = iter("Hello"), []
    is_saved = threading.Event()
    server = DemoServer(lambda _: DemoTurn("It is so"), lambda _: next(words) == "l" and is_saved.wait(PATIENCE_S))
    with serve(server) as address:
        FACTS.clear()
        settings = Settings(vllm=VllmSettings(base_url=f"{address}/v1"), root=tmp_path, state=tmp_path)
        factory = Factory(settings)
        session, _ = factory.open_session(None)
        save_waiting = session.save_waiting

        def save_and_look():
            save_waiting()
            if session.path and '"delta"' in session.path.read_text():
                saved.append(json.loads(session.path.read_text().splitlines()[-1])["text"])
                is_saved.set()

        session.save_waiting = save_and_look
        list(factory.make_runtime("demo", REFUSE_ALL).answer(session, UserMessage("Hi.")))
        session.close()
    assert saved[0] == "It "


@pytest.mark.parametrize("enabled", [True, False])
def test_exec_is_offered_where_commands_are_switched_on(enabled):
    tools = make_tools(Settings(security=SecuritySettings(exec_enabled=enabled)))
    offered = {each.name for each in tools.definitions}
    assert ("exec" in offered, "read" in offered) == (enabled, True)


def test_a_server_whose_tool_has_a_taken_name_is_reported_and_breaks_nothing(tmp_path):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    program = str(Path(__file__).parents[1] / "tools" / "mcp_server.py")
    row = {"name": "todo", "command": [sys.executable, program, "write"]}
    tools = make_tools(Settings(root=tmp_path, tools=ToolSettings(mcp=(row,))))
    assert ("todo_add" in tools, tools.risk("todo_write")) == (True, "low")
    assert any("todo_write" in notice for notice in tools.notices)


MCP_SERVER = str(Path(__file__).parents[1] / "tools" / "mcp_server.py")
MANY = {"name": "hub", "command": [sys.executable, MCP_SERVER, "many", "200"], "start_timeout": 100}


@pytest.mark.skipif(find_spec("mcp") is None, reason="the MCP SDK is not installed")
class TestManyTools:
    """An MCP server with 200 tools."""

    @pytest.mark.parametrize(
        ("search", "context", "is_on"),
        [
            ("auto", 32_768, True),
            ("auto", 1_000_000, False),
            pytest.param("auto", None, True, marks=only_thorough),
            pytest.param("always", 1_000_000, True, marks=only_thorough),
            pytest.param("never", 4_096, False, marks=only_thorough),
        ],
    )
    def test_their_definitions_are_left_out_where_they_fill_the_context(self, tmp_path, search, context, is_on):
        settings = Settings(root=tmp_path, tools=ToolSettings(mcp=(MANY,), search=search))
        tools = make_tools(settings, get_context=lambda: context)
        assert ("tool_search" in tools, bool(tools["hub_tool_7"].definition.named_by)) == (is_on, is_on)

    def test_tools_that_are_chosen_by_name_are_few(self, tmp_path):
        settings = Settings(root=tmp_path, tools=ToolSettings(mcp=(MANY,)))
        tools = make_tools(settings, ["read", "hub_tool_7"], lambda: 32_768)
        assert [(each.name, each.named_by) for each in tools.definitions] == [("read", ""), ("hub_tool_7", "")]

    @staticmethod
    def write(way, name, **arguments):
        if way == "native":
            function = {"name": name, "arguments": json.dumps(arguments)}
            return [{"tool_calls": [{"index": 0, "id": f"id-{name}", "function": function}]}, {"finish": "tool_calls"}]
        return [{"content": f"TOOL_CALL: {json.dumps({'name': name, 'args': arguments})}"}, {"finish": "stop"}]

    @staticmethod
    def make_factory(folder, url, way):
        FACTS.clear()
        vllm = VllmSettings(base_url=url, model="tiny", enable_function_calling=way == "native")
        tools = ToolSettings(mcp=(MANY,))
        return Factory(Settings(vllm=vllm, root=folder, state=folder / "state", tools=tools, security=NO_SANDBOX))

    def test_a_subagent_searches_as_well(self, tmp_path):
        turns = [call_task(), self.write("text", "call_tool", tool="hub_tool_7", args={"id": 3}), REPORT, REPORT]
        with ScriptedServer(*turns, card={"max_model_len": 32_768}) as server:
            factory = self.make_factory(tmp_path, server.url, "text")
            session = factory.make_session("tiny", factory.make_store())
            list(factory.make_runtime("tiny", APPROVE_ALL, lambda: session).answer(session, UserMessage("Work.")))
        heads = [json.dumps(request["messages"][0]) for request in server.requests]
        assert ["tool_search" in head and "Do work of the kind" not in head for head in heads] == [True] * 4
        assert "hub_tool_7 is of high risk" in json.dumps(server.requests[2]["messages"][-1])  # it only reads

    @pytest.mark.parametrize("way", ["native", pytest.param("text", marks=only_thorough)])
    def test_a_tool_is_found_and_called_while_the_head_of_the_prompt_stays(self, tmp_path, way):
        turns = [
            self.write(way, "tool_search", query="hub_tool_7"),
            self.write(way, "call_tool", tool="hub_tool_7", args={"id": "3"}),
            self.write(way, "hub_tool_150", id=4),
            self.write(way, "call_tool", tool="hub_tool_9", args={}),
            self.write(way, "call_tool", tool="hub_tool_9", args={"id": 5}),
            [{"content": "Done."}, {"finish": "stop"}],
            [{"content": "Yes."}, {"finish": "stop"}],
        ]
        with ScriptedServer(*turns, card={"max_model_len": 32_768}) as server:
            factory = self.make_factory(tmp_path, server.url, way)
            session = factory.make_session("tiny", factory.make_store())
            runtime = factory.make_runtime("tiny", APPROVE_ALL, lambda: session)
            list(runtime.answer(session, UserMessage("Work.")))
            session.close()
            resumed, _ = factory.open_session(session.id)
            list(factory.make_runtime("tiny", APPROVE_ALL, lambda: resumed).answer(resumed, UserMessage("Done?")))
        results = [
            result for message in session.messages if isinstance(message, ToolResults) for result in message.results
        ]
        assert json.loads(results[0].text)["parameters"]["required"] == ["id"]
        assert [each.text for each in (results[1], results[2], results[4])] == [
            "tool_7 did 3",
            "tool_150 did 4",
            "tool_9 did 5",
        ]
        assert '"name": "hub_tool_9"' in results[3].text
        sent = [(request.get("tools"), request["messages"]) for request in server.requests]
        for (tools, before), (tools_now, now) in pairwise(sent):
            assert (tools_now, now[: len(before)]) == (tools, before)
        assert "hub_tool_199" in json.dumps(sent[0])
        assert "Do work of the kind" not in json.dumps(sent[0])


@pytest.mark.parametrize("profile", ["workspace", "full"])
def test_what_was_always_allowed_is_not_for_the_model_to_write(tmp_path, monkeypatch, profile):
    """Where the workspace is the home, the state lies in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    settings = Settings(root=tmp_path, security=SecuritySettings(profile=profile))
    call = ToolCall("1", "write", {"path": ".local/state/vllm-bot/allowed.json", "content": "{}"})
    assert make_policy(settings, None).decide(call, "high").action == "deny"


def test_a_file_that_a_rule_denies_to_read_is_kept_from_grep_and_from_commands(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / ".env").write_text("KEY=1\n")
    rules = ({"tool": "read", "path": ".env", "action": "deny"},)
    settings = Settings(root=tmp_path / "ws", state=tmp_path / "state", security=SecuritySettings(rules=rules))
    sandbox = defer_sandbox(settings)
    context = make_tool_context(settings, make_policy(settings, sandbox))
    shown = [make_tools(settings).run(ToolCall("1", "grep", {"pattern": "KEY"}), context)]
    if sandbox.can_hide_files:  # bubblewrap
        shown.append(make_tools(settings).run(ToolCall("1", "exec", {"command": "cat .env"}), context))
    assert [result.text for result in shown if "KEY=1" in result.text] == []


def test_a_rule_for_a_tool_that_there_is_not_is_told(tmp_path):
    rules = tuple({"tool": tool, "action": "deny"} for tool in ("exce", "exec", "*", "task"))
    (told,) = make_tools(Settings(root=tmp_path, security=SecuritySettings(rules=rules, exec_enabled=False))).notices
    assert told == 'There is no tool exce, so this rule changes nothing: {"tool": "exce", "action": "deny"}'


def test_what_is_told_of_tools_is_told_where_only_some_are_offered_too(tmp_path):
    rules = ({"tool": "exce", "action": "deny"},)
    settings = Settings(root=tmp_path, security=SecuritySettings(rules=rules))
    assert make_tools(settings, only=["read"]).notices == make_tools(settings).notices != []


def test_what_a_tool_of_yours_says_may_name_the_workspace(tmp_path):
    (tmp_path / "tools.yaml").write_text(
        "{name: list, description: 'List {workspace_dir}.', command: 'ls {where}', "
        "parameters: {where: 'Below {workspace_dir}'}}"
    )
    files = ToolSettings(commands=(str(tmp_path / "tools.yaml"),))
    told = make_tools(Settings(root=tmp_path, tools=files))["list"].definition
    assert told.description == f"List {tmp_path}."
    assert told.parameters["properties"]["where"]["description"] == f"Below {tmp_path}"


class OneAnswer:
    """An Approver that gives one answer, and keeps what it was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked = []

    def approve(self, request):
        self.asked.append((request.call.name, request.needs_person))
        return Answer(self.answer)


def leave_something(state, workspace, approver):
    """The texts of the notices of an answer in which a command leaves a `.envrc`."""
    workspace.mkdir()
    call = ("exec", {"command": "echo wanted >.envrc", "access": "write"})
    turns = iter([DemoTurn("", calls=(call,)), DemoTurn("Done.")])
    with serve(DemoServer(lambda _: next(turns), lambda _: None)) as address:
        FACTS.clear()
        security = SecuritySettings(mode="full")
        settings = Settings(
            vllm=VllmSettings(base_url=f"{address}/v1"), root=workspace.resolve(), state=state, security=security
        )
        runtime = Factory(settings).make_runtime("demo", approver)
        if not runtime.sandbox.is_enforcing:
            pytest.skip("no sandbox works here")
        session = Factory(settings).make_session("demo")
        return [event.text for event in runtime.answer(session, UserMessage("Hi.")) if isinstance(event, Notice)]


def test_what_a_command_left_to_run_later_is_put_back_if_the_user_says_so(tmp_path):
    approver = OneAnswer(True)
    assert leave_something(tmp_path / "state", tmp_path / "ws", approver) == []
    assert approver.asked == [("put_back", True)]
    assert (tmp_path / "ws" / ".envrc").read_text() == "wanted\n"


def test_where_nobody_says_so_it_stays_aside_also_with_yes(tmp_path):
    (notice,) = leave_something(tmp_path / "state", tmp_path / "ws", APPROVE_ALL)
    assert notice.startswith("Set aside, as it would run by itself: .envrc is now ")
    assert Path(notice.rpartition(" ")[2]).read_text() == "wanted\n"
    assert not (tmp_path / "ws" / ".envrc").exists()


def test_another_server_by_name_writes_the_summary(tmp_path):
    answer, summary = [{"content": "Yes."}, {"finish": "stop"}], [{"content": "In short."}, {"finish": "stop"}]
    with ScriptedServer(answer) as big, ScriptedServer(summary, models=("mini",)) as small:
        servers = {"big": VllmSettings(base_url=big.url, model="tiny"), "small": VllmSettings(base_url=small.url)}
        settings = Settings(root=tmp_path, state=tmp_path, servers=servers, agent=AgentSettings(compact_model="small"))
        factory = Factory(settings.with_server("big"))
        runtime, session = factory.make_runtime("tiny", REFUSE_ALL), factory.make_session("tiny")
        for text in ("one", "two"):
            session.messages.append(UserMessage(text))
            session.messages.append(Response((Text("Yes."),)))
        list(runtime.compact(session, ""))
    assert (len(big.requests), small.requests[0]["model"]) == (0, "mini")
    assert "In short." in str(session.messages)


REPORT = [{"content": "It is in a.py."}, {"finish": "stop"}]


def call_task(**arguments):
    call = {"name": "task", "args": {"prompt": "Find it.", **arguments}}
    return [{"content": f"TOOL_CALL: {json.dumps(call)}"}, {"finish": "stop"}]


def hand_out(settings, approver=REFUSE_ALL):
    """One answer whose calls start subagents: its session, after its end."""
    factory = Factory(replace(settings, security=NO_SANDBOX))
    session = factory.make_session("tiny", factory.make_store())
    runtime = factory.make_runtime("tiny", approver, lambda: session)
    list(runtime.answer(session, UserMessage("Where is it?")))
    session.close()
    return session


def test_a_subagent_on_another_server_by_name_reports(tmp_path):
    with (
        ScriptedServer(call_task(server="small"), REPORT) as big,
        ScriptedServer(REPORT, models=("mini",)) as small,
    ):
        servers = {"big": VllmSettings(base_url=big.url, model="tiny"), "small": VllmSettings(base_url=small.url)}
        settings = Settings(root=tmp_path, state=tmp_path / "state", servers=servers).with_server("big")
        session = hand_out(settings)
    (asked,) = small.requests
    assert asked["model"] == "mini"
    assert "Find it." in str(asked["messages"])
    assert "It is in a.py." in str(big.requests[1]["messages"])
    assert "Where is it?" not in str(asked["messages"])
    assert session.messages[-1].text == "It is in a.py."


def test_its_conversation_is_saved_beside_that_of_its_session_and_deleted_with_it(tmp_path):
    with ScriptedServer(call_task(), REPORT, REPORT) as server:
        settings = Settings(vllm=VllmSettings(base_url=server.url), root=tmp_path, state=tmp_path / "state")
        session = hand_out(settings)
    (journal,) = session.path.with_suffix(".tasks").iterdir()
    kept = replay(journal)
    assert [message.text for message in kept.messages[1:]] == ["Find it.", "It is in a.py."]
    assert kept.state.meta["task_of"] == session.id
    store = Factory(settings).make_store()
    assert [each.id for each in store.list_sessions()] == [session.id]
    store.delete(session.id)
    assert not journal.exists()


def test_a_file_that_a_subagent_wrote_is_undone_with_the_turn_of_its_parent(tmp_path):
    write = [
        {"content": 'TOOL_CALL: {"name": "write", "args": {"path": "new.txt", "content": "x"}}'},
        {"finish": "stop"},
    ]
    with ScriptedServer(call_task(may_change=True), write, REPORT, REPORT) as server:
        settings = Settings(vllm=VllmSettings(base_url=server.url), root=tmp_path, state=tmp_path / "state")
        session = hand_out(settings, APPROVE_ALL)
    assert (tmp_path / "new.txt").read_text() == "x"
    undone = session.undo(lambda path, content, _mode: path.unlink())
    assert undone.files.removed == [str(tmp_path / "new.txt")]
    assert not (tmp_path / "new.txt").exists()
