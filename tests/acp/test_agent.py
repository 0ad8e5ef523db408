"""The program as an editor sees it: the SDK's client, a server on loopback, and files in a folder."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("acp", reason="the SDK of editors is not installed: pip install agent-client-protocol")

from acp import RequestError, embedded_text_resource, image_block, resource_block, resource_link_block, text_block
from acp.schema import HttpHeader, HttpMcpServer, McpServerStdio, SseMcpServer

from src.acp.agent import INTERNAL_ERROR
from src.acp.greeting import PROTOCOL_VERSION
from src.security.permissions.modes import MODES
from tests.doubles import ScriptedServer
from tests.each import check_rows
from tests.mcp.program import KEY, serve_http
from tests.thorough import only_thorough, take_turns

from .editing import Editor, make_settings, open_program, run

IDS = count()
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def says(text: str) -> list[dict]:
    return [{"content": text}, {"finish": "stop", "usage": {"prompt_tokens": 10, "completion_tokens": 2}}]


def calls(name: str, **arguments: object) -> list[dict]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call-{next(IDS)}", "type": "function", "function": function}
    return [{"tool_calls": [call]}, {"finish": "tool_calls"}]


def test_initialize_names_the_version_and_what_is_offered(tmp_path):
    async def work() -> None:
        async with open_program(make_settings("http://127.0.0.1:9/v1"), Editor()) as client:
            greeting = await client.initialize(protocol_version=PROTOCOL_VERSION)
            assert greeting.protocol_version == PROTOCOL_VERSION
            assert greeting.agent_capabilities.load_session
            assert greeting.agent_capabilities.session_capabilities.fork is not None
            assert [method.id for method in greeting.auth_methods] == ["setup"]

    run(work())


def test_an_answer_is_streamed_with_its_thought(tmp_path):
    answer = [{"reasoning_content": "Hm."}, {"content": "Hel"}, {"content": "lo"}, {"finish": "stop"}]
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            done = await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])
            assert done.stop_reason == "end_turn"

    with ScriptedServer(answer) as server:
        run(work(server.url))
    assert editor.join_text() == "Hello"
    assert editor.join_text("agent_thought_chunk") == "Hm."


@check_rows("word, stop_reason", [("content_filter", "refusal"), ("length", "max_tokens"), ("abort", "max_tokens")])
def test_an_answer_that_was_cut_is_no_whole_one(tmp_path, word, stop_reason):
    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            session = await client.new_session(cwd=str(tmp_path))
            done = await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])
            assert done.stop_reason == stop_reason

    with ScriptedServer([{"content": "Half"}, {"finish": word}]) as server:
        run(work(server.url))


def test_more_folders_of_a_session_are_reached_as_the_workspace_is(tmp_path):
    (workspace := tmp_path / "work").mkdir()
    (added := tmp_path / "lib").mkdir()
    (added / "a.txt").write_text("old\n")
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(workspace), additional_directories=[str(added)])
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])
            with pytest.raises(RequestError, match="an absolute path"):
                await client.new_session(cwd=str(workspace), additional_directories=["lib"])

    with ScriptedServer(calls("edit", path="../lib/a.txt", oldText="old", newText="new"), says("Done.")) as server:
        run(work(server.url))
    ((asked, _),) = editor.asked
    assert [location.path for location in asked.locations] == [str(added / "a.txt")]
    assert "outside the workspace" not in str(editor.updates)


def test_a_write_is_shown_as_a_diff_and_asked_about_before_the_file_changes(tmp_path):
    (tmp_path / "a.txt").write_text("old\n")
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])

    with ScriptedServer(calls("write", path="a.txt", content="new\n"), says("Done.")) as server:
        run(work(server.url))
    call, options = editor.asked[0]
    diff = call.content[0]
    assert (diff.path, diff.old_text, diff.new_text) == (str(tmp_path / "a.txt"), "old\n", "new\n")
    assert [option.kind for option in options] == [
        "allow_once",
        "allow_always",
        "allow_always",
        "reject_once",
        "reject_once",
    ]
    steps = [shown.get("status") for shown in editor.updates if shown["sessionUpdate"].startswith("tool_call")]
    assert steps == ["pending", "in_progress", "completed"]
    started = next(shown for shown in editor.updates if shown["sessionUpdate"] == "tool_call")
    assert started["kind"] == "edit"
    assert started["locations"] == [{"path": str(tmp_path / "a.txt")}]
    assert (tmp_path / "a.txt").read_text() == "new\n"


MAY_ASK = {  # a kind of tool -> a call of it that asks in mode ask
    "write": {"path": "new.txt", "content": "x"},
    "edit": {"path": "old.txt", "oldText": "old", "newText": "x"},
    "exec": {"command": "echo x > new.txt", "access": "write"},
}
ANSWERS = ("once", "session", "always", "no", "no_with_words")


@pytest.mark.thorough
@pytest.mark.parametrize(("answer", "tool"), take_turns(ANSWERS, [*MAY_ASK]))
def test_each_answer_means_the_same_for_each_kind_of_tool(tool, answer, tmp_path):
    """Two equal calls: the second asks again only after `once`, and after `no`. Without a yes nothing changes."""
    (tmp_path / "old.txt").write_text("old old")
    editor = Editor(answer)
    allowed = answer in ("once", "session", "always")

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            done = await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])
            assert done.stop_reason == "end_turn"

    again = dict(MAY_ASK[tool])
    if tool == "exec":
        again["command"] = "echo x > new.txt"
    arguments = {**MAY_ASK[tool], "replace_all": True} if tool == "edit" else MAY_ASK[tool]
    with ScriptedServer(calls(tool, **arguments), calls(tool, **again), says("Done.")) as server:
        run(work(server.url))
        requests = len(server.requests)
    failed = [shown for shown in editor.updates if shown.get("status") == "failed"]
    assert bool(failed) is not allowed or tool == "edit"  # the second edit finds nothing to replace
    changed = (tmp_path / "new.txt").exists() or (tmp_path / "old.txt").read_text() != "old old"
    assert changed is allowed
    if answer == "no_with_words":
        assert (requests, len(editor.asked)) == (1, 1)  # the turn has ended; the words come with the next prompt
    else:
        assert requests == 3
    if answer in ("session", "always"):
        assert len(editor.asked) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_decides_what_asks(mode, tmp_path):
    editor = Editor("no")

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            await client.set_session_mode(session_id=session.session_id, mode_id=mode)
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])

    refused = [says("Done.")] * 3  # a model that calls what mode plan does not offer is asked again
    with ScriptedServer(calls("write", path="a.txt", content="x"), *refused) as server:
        run(work(server.url))
    assert bool(editor.asked) is (mode == "ask")
    assert (tmp_path / "a.txt").exists() is (mode in ("edits", "auto", "full"))


def test_a_call_after_always_does_not_ask_in_the_next_session(tmp_path):
    editor = Editor("always")

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            for _ in range(2):
                session = await client.new_session(cwd=str(tmp_path))
                await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])

    call = calls("write", path="a.txt", content="x")
    with ScriptedServer(call, says("One."), call, says("Two.")) as server:
        run(work(server.url))
    assert len(editor.asked) == 1


def test_a_cancelled_turn_ends_as_cancelled_and_the_session_goes_on(tmp_path):
    def endless() -> Iterator[dict]:
        while True:
            yield {"content": "more "}

    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            begun = asyncio.Event()
            editor.watch = lambda shown: begun.set() if shown["sessionUpdate"] == "agent_message_chunk" else None
            turn = asyncio.ensure_future(
                client.prompt(session_id=session.session_id, prompt=[text_block("Count for ever.")])
            )
            await begun.wait()
            await client.cancel(session_id=session.session_id)
            assert (await turn).stop_reason == "cancelled"
            done = await client.prompt(session_id=session.session_id, prompt=[text_block("Go on.")])
            assert done.stop_reason == "end_turn"

    with ScriptedServer(endless(), says("Here.")) as server:
        run(work(server.url))
    assert editor.join_text().endswith("Here.")


def test_a_call_of_a_cancelled_turn_is_shown_as_ended(tmp_path):
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            begun = asyncio.Event()
            editor.watch = lambda shown: begun.set() if shown.get("status") == "in_progress" else None
            turn = asyncio.ensure_future(client.prompt(session_id=session.session_id, prompt=[text_block("Wait.")]))
            await begun.wait()
            await client.cancel(session_id=session.session_id)
            await turn

    with ScriptedServer(calls("exec", command="sleep 600")) as server:
        run(work(server.url))
    assert [shown["status"] for shown in editor.updates if "status" in shown][-1] == "failed"


def test_a_command_that_printed_nothing_yet_shows_no_empty_block(tmp_path):
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            await client.prompt(session_id=session.session_id, prompt=[text_block("Go")])

    with ScriptedServer(calls("exec", command="true"), says("Done.")) as server:
        run(work(server.url))
    assert "```\n\n```" not in json.dumps(editor.updates)


def test_a_session_gets_its_title_from_the_first_prompt(tmp_path):
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            for text in ("First " * 40, "Second"):
                await client.prompt(session_id=session.session_id, prompt=[text_block(text)])

    with ScriptedServer(says("One."), says("Two.")) as server:
        run(work(server.url))
    titles = [shown["title"] for shown in editor.updates if shown["sessionUpdate"] == "session_info_update"]
    assert titles == ["First " * 12 + "First..."]


def test_a_session_is_deleted_open_or_not_and_twice(tmp_path):
    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            sessions = [await client.new_session(cwd=str(tmp_path)) for _ in range(2)]
            for each in sessions:
                await client.prompt(session_id=each.session_id, prompt=[text_block("Hi")])
            closed, opened = (each.session_id for each in sessions)
            await client.close_session(session_id=closed)
            for session_id in (closed, opened, opened):  # the SDK's client has no method for it
                assert await client._conn.send_request("session/delete", {"sessionId": session_id}) == {}
            assert (await client.list_sessions()).sessions == []
            with pytest.raises(RequestError, match="not the id"):
                await client._conn.send_request("session/delete", {"sessionId": "../x"})

    with ScriptedServer(says("One."), says("Two.")) as server:
        run(work(server.url))


def test_what_an_interruption_left_is_told_below_the_conversation(tmp_path):
    editor = Editor()

    async def begin(url: str) -> str:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])
            return session.session_id

    async def load(url: str, session_id: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            await client.load_session(session_id=session_id, cwd=str(tmp_path))

    with ScriptedServer(calls("exec", command="true"), says("Done.")) as server:
        session_id = asyncio.run(begin(server.url))
        (journal,) = Path(os.environ["XDG_STATE_HOME"]).rglob(f"{session_id}.jsonl")
        lines = journal.read_text().splitlines(keepends=True)
        started = next(place for place, line in enumerate(lines) if '"exec"' in line and '"call"' in line)
        journal.write_text("".join(lines[: started + 1]))
        editor.updates.clear()
        run(load(server.url, session_id))
    shown = [each for each in editor.updates if each["sessionUpdate"] != "available_commands_update"]
    assert shown[0]["sessionUpdate"] == "user_message_chunk"
    assert "stopped before these calls finished" in shown[-1]["content"]["text"]


def test_a_connection_that_breaks_in_a_turn_does_not_ask_to_set_up(tmp_path):
    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            session = await client.new_session(cwd=str(tmp_path))
            with pytest.raises(RequestError) as raised:
                await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])
            assert raised.value.code == INTERNAL_ERROR
            assert "--setup" not in str(raised.value)

    with ScriptedServer(b'data: {"choices": [{"delta": {"content": "cut"}}]}\n\n') as server:
        run(work(server.url))


def test_a_session_is_listed_loaded_resumed_and_forked(tmp_path):
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            session = await client.new_session(cwd=str(tmp_path))
            await client.prompt(session_id=session.session_id, prompt=[text_block("First")])
        editor.updates.clear()
        async with open_program(make_settings(url), editor) as client:
            listed = await client.list_sessions(cwd=str(tmp_path))
            assert [(each.session_id, each.title) for each in listed.sessions] == [(session.session_id, "First")]
            await client.load_session(cwd=str(tmp_path), session_id=session.session_id)
            assert editor.join_text("user_message_chunk") == "First"
            assert editor.join_text() == "Done."
            kinds = [kind for kind in editor.list_kinds() if kind.startswith("tool_call")]
            assert kinds == ["tool_call", "tool_call_update", "plan"][:2]
            assert "plan" in editor.list_kinds()
            await client.prompt(session_id=session.session_id, prompt=[text_block("Second")])
            forked = await client.fork_session(cwd=str(tmp_path), session_id=session.session_id)
            assert forked.session_id != session.session_id
            await client.prompt(session_id=forked.session_id, prompt=[text_block("Third")])
            await client.resume_session(cwd=str(tmp_path), session_id=session.session_id)
            await client.close_session(session_id=session.session_id)

    todo = calls("todo_write", todos=[{"content": "look", "status": "in_progress"}])
    with ScriptedServer(todo, says("Done."), says("Again."), says("Forked.")) as server:
        run(work(server.url))
        asked = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
    assert asked == ["First", "Second", "Third"]


def test_a_session_without_a_message_is_resumed_forked_and_closed(tmp_path):
    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            where = {"cwd": str(tmp_path), "mcp_servers": []}
            session = (await client.new_session(**where)).session_id
            await client.resume_session(session_id=session, **where)
            await client.load_session(session_id=session, **where)
            forked = (await client.fork_session(session_id=session, **where)).session_id
            assert forked != session
            done = await client.prompt(session_id=session, prompt=[text_block("Hi")])
            assert done.stop_reason == "end_turn"
            await client.close_session(session_id=session)

    with ScriptedServer(says("Hello.")) as server:
        run(work(server.url))


def test_two_sessions_answer_at_once(tmp_path):
    editor = Editor()

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            one, two = [await client.new_session(cwd=str(tmp_path)) for _ in range(2)]
            both = [client.prompt(session_id=each.session_id, prompt=[text_block("Hi")]) for each in (one, two)]
            assert [done.stop_reason for done in await asyncio.gather(*both)] == ["end_turn", "end_turn"]
            assert {one.session_id, two.session_id} == set(editor.sessions)

    with ScriptedServer(says("A"), says("A")) as server:
        run(work(server.url))
    assert editor.join_text() == "AA"


def test_files_selections_links_and_images_reach_the_model(tmp_path):
    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            session = await client.new_session(cwd=str(tmp_path))
            prompt = [
                text_block("Explain "),
                resource_block(embedded_text_resource(f"file://{tmp_path}/a.py#L2:3", "x = 1\n")),
                resource_link_block("b.py", f"file://{tmp_path}/b.py"),
                image_block(PNG, "image/png"),
            ]
            await client.prompt(session_id=session.session_id, prompt=prompt)

    with ScriptedServer(says("Well.")) as server:
        run(work(server.url))
        sent = server.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in sent] == ["image_url", "text"]
    assert sent[1]["text"] == 'Explain `a.py#L2:3` `b.py`\n\n<file path="a.py#L2:3">\nx = 1\n\n</file>'


def test_models_of_every_server_can_be_chosen(tmp_path):
    async def work(one: ScriptedServer, two: ScriptedServer) -> None:
        file = tmp_path / "settings.json"
        file.write_text(json.dumps({"servers": {"big": {"base_url": two.url, "model": "huge"}}}))
        settings = make_settings(one.url, file)
        async with open_program(settings, Editor()) as client:
            session = await client.new_session(cwd=str(tmp_path))
            model = next(option for option in session.config_options if option.id == "model")
            assert [each.value for each in model.options] == ["vllm:tiny", "big:huge"]
            changed = await client.set_config_option(config_id="model", session_id=session.session_id, value="big:huge")
            assert [option.current_value for option in changed.config_options] == ["ask", "big:huge"]
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])

    with ScriptedServer() as one, ScriptedServer(says("Hello."), models=["huge"]) as two:
        run(work(one, two))
        assert [each["model"] for each in two.requests] == ["huge"]


@check_rows(
    "ask, said",
    [
        (lambda client: client.new_session(cwd="/"), "vllm-bot acp --setup"),
        (lambda client: client.new_session(cwd="here"), "absolute path"),
        (lambda client: client.prompt(session_id="none", prompt=[text_block("Hi")]), "no open session"),
        (lambda client: client.load_session(cwd="/", session_id="../../etc/passwd"), "not the id"),
        (lambda client: client.authenticate(method_id="setup"), "vllm-bot acp --setup"),
        (lambda client: client.authenticate(method_id="other"), "there is setup"),
        (
            lambda client: client.new_session(
                cwd="/", mcp_servers=[SseMcpServer(type="sse", name="x", url="http://x", headers=[])]
            ),
            "stdio and http",
        ),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(ask, said):
    async def work() -> None:
        async with open_program(make_settings("http://127.0.0.1:9/v1"), Editor()) as client:
            with pytest.raises(RequestError) as raised:
                await ask(client)
            assert said in str(raised.value)

    run(work())


def test_an_mcp_server_of_the_editor_gives_its_tools(tmp_path):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    program = str(Path(__file__).parents[1] / "tools" / "mcp_server.py")

    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            mcp = McpServerStdio(name="the editor's", command=sys.executable, args=[program, "plain"], env=[])
            session = await client.new_session(cwd=str(tmp_path), mcp_servers=[mcp])
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])

    with ScriptedServer(says("Hello.")) as server:
        run(work(server.url))
        names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert any(name.startswith("the_editor_s_") for name in names)


@only_thorough
def test_an_mcp_server_over_http_gets_the_headers_that_the_editor_names(tmp_path):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    root = tmp_path / "root"
    root.mkdir()

    async def work(url: str) -> None:
        async with serve_http(url, root) as address, open_program(make_settings(url), Editor()) as client:
            key = HttpHeader(name="Authorization", value=f"Bearer {KEY}")
            mcp = HttpMcpServer(type="http", name="web", url=address, headers=[key])
            session = await client.new_session(cwd=str(root), mcp_servers=[mcp])
            await client.prompt(session_id=session.session_id, prompt=[text_block("Hi")])

    with ScriptedServer(says("Hello.")) as server:
        run(work(server.url))
        names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert "web_delegate" in names
