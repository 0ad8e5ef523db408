"""`from src import Agent, tool`: the library in another program."""

import asyncio
import inspect
import json
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import src
from src import (
    Agent,
    Answer,
    BotError,
    CallDenied,
    CallFinished,
    CallStarted,
    Cancelled,
    LimitReached,
    Media,
    Named,
    Notice,
    TextDelta,
    ToolContext,
    ToolError,
)
from src.cli.demo.loopback import JSON, STREAM, LoopbackReply, serve
from src.cli.demo.protocol import MODEL, DemoServer, DemoTurn
from src.errors import ConfigError, NeverReached, ServerError
from src.tools.builtin.files import read
from tests.app.library.servers import serve_one_call
from tests.doubles import ScriptedServer, stream_event
from tests.each import check_rows
from tests.faults.scripts import HALF, HELLO, SILENCE, refused
from tests.faults.server import STALL, FaultServer
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(
    r"<!-- example: library -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: rain"


def model(conversation):
    """Looks at the weather once, and says then what it was told."""
    last = conversation.messages[-1]
    if last["role"] == "tool":
        return DemoTurn(f"I was told: {last['content']}")
    return DemoTurn("", calls=(("weather", {"city": "Oslo"}),))


@pytest.fixture
def server():
    with serve(DemoServer(model, lambda _: None)) as address:
        yield f"{address}/v1"


def test_the_example_of_the_readme_runs(server, capsys):
    exec(EXAMPLE.replace("http://localhost:8000/v1", server), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert printed == "I was told: Oslo: rain, 7 degrees\n"


def test_it_is_ten_lines():
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 10


class TestAskingAboutTools:
    def events(self, server, **options):
        with Agent.connect(server, tools=[weather], **options) as agent:
            return list(agent.ask("Rain in Oslo?")), agent

    def of(self, events, kind):
        return [event for event in events if isinstance(event, kind)]

    def test_a_high_risk_tool_does_not_run_without_approval(self, server):
        events, _ = self.events(server)
        assert self.of(events, CallStarted) == []
        assert len(self.of(events, CallDenied)) == 1

    @pytest.mark.parametrize("yes", [True, False])
    def test_a_function_is_asked(self, server, yes):
        requests = []
        events, _ = self.events(server, approve=lambda request: requests.append(request) or yes)
        assert requests[0].call.arguments == {"city": "Oslo"}
        assert len(self.of(events, CallStarted)) == yes

    def test_an_approved_call_has_the_result_of_the_tool_alone(self, server):
        events, _ = self.events(server, approve=lambda request: True)
        assert self.of(events, CallFinished)[0].result.value == "Oslo: rain"

    def test_who_is_asked_may_say_more_than_yes_or_no(self, server):
        events, _ = self.events(server, approve=lambda request: Answer(False, "Look outside."))
        assert "Look outside." in self.of(events, CallFinished)[0].result.value

    def test_a_tool_of_low_risk_runs(self, server):
        tool = src.tool(risk="low")(weather)
        with Agent.connect(server, tools=[tool]) as agent:
            (finished,) = self.of(agent.ask("Rain?"), CallFinished)
            assert finished.result.value == "Oslo: rain"


class TestTheConversation:
    def test_the_answer_alone(self, server):
        with Agent.connect(server, tools=[src.tool(risk="low")(weather)]) as agent:
            assert "Oslo: rain" in agent.answer("Rain?").text
            said = len(agent.conversation)
            assert agent.answer("Still?")
            assert len(agent.conversation) > said

    def test_a_tool_can_be_forced_and_forbidden(self):
        answers = [[{"content": "Hello"}, {"finish": "stop"}] for _ in range(3)]
        with ScriptedServer(*answers) as scripted:
            agent = Agent.connect(scripted.url, tools=[src.tool(risk="low")(weather)])
            (told,) = [event for event in agent.ask("Rain?", tool_choice=Named("weather")) if isinstance(event, Notice)]
            agent.answer("Rain?", tool_choice="none")
            agent.answer("Rain?")
        forced = {"type": "function", "function": {"name": "weather"}}
        assert [request["tool_choice"] for request in scripted.requests] == [forced, "none", "auto"]
        assert "was to call weather" in told.text

    def test_its_file_tools_reach_the_folders_added_to_its_workspace(self, tmp_path):
        for name in ("work", "lib", "other"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "a.txt").write_text(f"in {name}\n")
        calls = [
            {"index": at, "id": f"c{at}", "function": {"name": "read", "arguments": json.dumps({"path": path})}}
            for at, path in enumerate((f"{tmp_path}/lib/a.txt", "../other/a.txt"))
        ]
        with ScriptedServer(
            [{"tool_calls": calls}, {"finish": "tool_calls"}], [{"content": "Ok"}, {"finish": "stop"}]
        ) as scripted:
            folders = {"workspace": tmp_path / "work", "add_dirs": [tmp_path / "lib"]}
            Agent.connect(scripted.url, tools=[read], **folders).answer("Go")
        inside, outside = [each["content"] for each in scripted.requests[1]["messages"] if each["role"] == "tool"]
        assert "in lib" in inside
        assert "is outside the workspace" in outside

    def test_its_pieces_are_the_answer(self):
        with ScriptedServer([{"content": "Hel"}, {"content": "lo"}, {"finish": "stop"}]) as scripted:
            events = list(Agent.connect(scripted.url).ask("Hi"))
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"

    def test_a_question_may_hold_a_picture(self):
        with ScriptedServer([{"content": "A dot."}, {"finish": "stop"}]) as scripted:
            agent = Agent.connect(scripted.url, "tiny", system="")
            assert agent.answer(["What is it?", Media(b"\x89PNG", "image/png")]).text == "A dot."
        (sent,) = [body["messages"] for body in scripted.requests]
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
        assert sent == [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
        assert agent.conversation[0].text == "What is it?\n[image of type image/png, not shown]"

    def test_a_question_holds_nothing_that_no_model_takes(self):
        with ScriptedServer() as scripted, pytest.raises(ToolError, match="application/pdf"):
            Agent.connect(scripted.url, "tiny").answer([Media(b"", "application/pdf")])

    def test_a_question_that_failed_is_not_asked_again_with_the_next(self):
        with ScriptedServer(
            (400, {"error": {"message": "no luck"}}), [{"content": "Hi"}, {"finish": "stop"}]
        ) as server:
            agent = Agent.connect(server.url, "tiny")
            with pytest.raises(ServerError):
                agent.answer("lost")
            assert agent.answer("hello").text == "Hi"
            assert "lost" not in str(server.requests[1])

    def test_without_a_system_prompt(self):
        with ScriptedServer([{"content": "Hi"}, {"finish": "stop"}]) as scripted:
            Agent.connect(scripted.url, system="").answer("Hi")
            assert [message["role"] for message in scripted.requests[0]["messages"]] == ["user"]

    def test_one_question_at_a_time(self):
        with ScriptedServer(*[[{"content": "Hi"}, {"finish": "stop"}]] * 2) as scripted:
            agent = Agent.connect(scripted.url)
            for _ in agent.ask("one"):
                with pytest.raises(BotError, match="answering another question"):
                    agent.answer("two")
                break
            assert agent.answer("three").text == "Hi"


@pytest.mark.parametrize("word", ["All done.", ""])
def test_a_run_that_a_tool_ended_is_complete_whatever_its_last_word(word):
    @src.tool(risk="low")
    def finish(summary: str, ctx: ToolContext) -> str:
        """Finish the work."""
        ctx.end_run(summary)
        return "ok"

    with serve_one_call("finish", {"summary": word}) as url, src.Server(url) as server:
        result = server.agent([finish]).answer("Go.")
    assert (result.text, result.stop_reason, result.ending) == (word, "end_turn", "")


class TestCancelling:
    """From another thread than the one that runs it."""

    def cancelled(self, agent, ready=threading.Event, until=TextDelta):
        """What `ask` raised in its thread, once the event came, or `ready` was set, and the run was cancelled."""
        raised, come = [], ready()

        def run():
            try:
                for event in agent.ask("go"):
                    if isinstance(event, until):
                        come.set()
            except BotError as error:
                raised.append(error)

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        assert come.wait(PATIENCE_S)
        agent.cancel()
        worker.join(PATIENCE_S)
        assert not worker.is_alive()
        return raised

    def test_an_answer_that_stalls_ends_and_what_was_said_is_kept(self):
        with FaultServer([HALF, STALL], HELLO) as server:
            agent = Agent.connect(f"http://127.0.0.1:{server.port}/v1", "tiny")
            (error,) = self.cancelled(agent)
            assert isinstance(error, Cancelled)
            assert agent.conversation[-1].text == "Half an answer"
            assert agent.answer("and now?").text == "Hello"

    def test_an_answer_that_never_begins_ends(self):
        with FaultServer(SILENCE) as server:
            agent = Agent.connect(f"http://127.0.0.1:{server.port}/v1", "tiny")
            (error,) = self.cancelled(agent, until=object)
            assert isinstance(error, Cancelled)
            assert len(agent.conversation) == 1  # as if it had not been asked

    def test_a_wait_for_the_next_attempt_ends(self):
        later = refused("503 Service Unavailable", "busy", "Retry-After: 50")
        with FaultServer(later, HELLO) as server:
            agent = Agent.connect(f"http://127.0.0.1:{server.port}/v1", "tiny")
            (error,) = self.cancelled(agent, until=Notice)
            assert isinstance(error, Cancelled)
            assert agent.answer("again").text == "Hello"

    def test_a_tool_that_looks_whether_it_is_cancelled_ends(self, server):
        started = threading.Event()

        @src.tool(risk="low")
        def weather(city: str, ctx: ToolContext) -> str:
            """The weather in a city."""
            started.set()
            return "cancelled" if ctx.cancelled.wait(PATIENCE_S) else "rain"

        with Agent.connect(server, tools=[weather]) as agent:
            (error,) = self.cancelled(agent, ready=lambda: started)
            assert isinstance(error, Cancelled)
            assert [result.value for result in agent.conversation[-1].results] == ["cancelled"]

    @pytest.mark.parametrize("risk", ["low", "high"])
    def test_a_tool_that_looks_at_nothing_is_left_to_finish_and_its_result_is_dropped(self, server, risk):
        started, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

        @src.tool(risk=risk)
        def weather(city: str) -> str:
            """The weather in a city."""
            started.set()
            may_end.wait(PATIENCE_S)
            has_ended.set()
            return "rain"

        with Agent.connect(server, tools=[weather], approve=lambda request: True) as agent:
            (error,) = self.cancelled(agent, ready=lambda: started)
            assert isinstance(error, Cancelled)
            assert not has_ended.is_set()
            may_end.set()
            assert has_ended.wait(PATIENCE_S)
            assert "did not finish" in agent.conversation[-1].results[0].value

    def test_where_nothing_runs_nothing_happens(self):
        with ScriptedServer([{"content": "Hi"}, {"finish": "stop"}]) as scripted:
            agent = Agent.connect(scripted.url)
            agent.cancel()
            assert agent.answer("hello").text == "Hi"


class TestATimeLimitOfTheWholeAnswer:
    def wait(self):
        @src.tool(risk="low")
        def weather(city: str, ctx: ToolContext) -> str:
            """The weather in a city."""
            return "late" if ctx.cancelled.wait(PATIENCE_S) else "never"

        return weather

    def test_it_ends_the_answer_and_its_calls_and_raises(self, server):
        with Agent.connect(server, tools=[self.wait()], timeout=0.01) as agent:
            with pytest.raises(LimitReached, match="longer than is allowed.\nAllow more .timeout.") as caught:
                agent.answer("go")
            assert caught.value.result.stop_reason == "timeout"

    def test_it_can_be_a_result(self, server):
        with Agent.connect(server, tools=[self.wait()], timeout=0.01) as agent:
            assert agent.answer("go", raise_on_limit=False).stop_reason == "timeout"
            run = agent.ask("go")
            list(run)
            assert run.result.stop_reason == "timeout"

    def test_it_holds_on_asyncio(self, server):
        async def ask():
            async with src.AsyncServer(server) as opened:
                return await opened.agent([self.wait()], timeout=0.01).answer("go", raise_on_limit=False)

        assert asyncio.run(ask()).stop_reason == "timeout"

    def test_an_answer_in_time_is_whole(self, server):
        with Agent.connect(server, tools=[weather], timeout=PATIENCE_S) as agent:
            assert agent.answer("go").stop_reason == "end_turn"

    @pytest.mark.parametrize("value", [0, -1, "10"])
    def test_another_value_is_refused(self, server, value):
        with pytest.raises(ConfigError, match="timeout: expected seconds"):
            Agent.connect(server, timeout=value)


class TestConnecting:
    def test_every_option_of_an_agent_is_one_of_connect(self):
        of_agent, of_connect = (inspect.signature(each).parameters for each in (src.Server.agent, Agent.connect))
        options = [each for name, each in of_agent.items() if name != "self"]
        given = [of_connect[each.name] for each in options]
        assert [(each.default, each.annotation) for each in given] == [
            (each.default, each.annotation.replace("ApproveT", "Approve")) for each in options
        ]

    def test_the_choice_of_a_tool_is_sent(self):
        with ScriptedServer([{"content": "Hi"}, {"finish": "stop"}]) as scripted:
            Agent.connect(scripted.url, tools=[weather], tool_choice="required").answer("Hi", raise_on_limit=False)
        assert scripted.requests[-1]["tool_choice"] == "required"

    def test_the_only_model_is_taken(self, server):
        assert Agent.connect(server).model == MODEL

    def test_of_several_one_must_be_named(self):
        with ScriptedServer(models=("a", "b")) as scripted:
            with pytest.raises(ConfigError, match="a, b"):
                Agent.connect(scripted.url)
            assert Agent.connect(scripted.url, "b").model == "b"

    def test_where_it_fails_its_connection_is_closed(self):
        models = json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode()
        closed = threading.Event()

        def serve(listener):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as incoming:
                while incoming.readline().strip():
                    pass
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(models), models))
                if incoming.read(1) == b"":
                    closed.set()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=serve, args=(listener,), daemon=True).start()
            with pytest.raises(ConfigError, match="several models") as error:
                Agent.connect(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
            assert closed.wait(PATIENCE_S)
        assert error.value  # it is still alive, and with it all that its frames hold

    def test_no_server(self):
        with pytest.raises(NeverReached):
            Agent.connect("http://127.0.0.1:9/v1")

    @check_rows(
        "wrong, said",
        [
            ({"base_url": "my gpu"}, "expected an address such as gpu:8000 or http://localhost:8000/v1"),
            ({"workspace": "/nowhere"}, 'there is no folder "/nowhere"'),
            ({"add_dirs": "/tmp"}, "add_dirs: expected a list of folders"),
            ({"add_dirs": ["/nowhere"]}, 'add_dirs: there is no folder "/nowhere"'),
            ({"add_dirs": ["/etc"]}, "/etc is part of the system"),
            ({"max_tool_turns": 0}, "expected at least 1, got 0"),
            ({"tools": weather}, "tools is a list of functions"),
            ({"tools": ["weather"]}, "a tool is a function, and 'weather' is not one"),
        ],
    )
    def test_an_invalid_argument_is_reported(self, wrong, said):
        with pytest.raises((ConfigError, TypeError), match=said):
            Agent.connect(**{"base_url": "http://127.0.0.1:9/v1", "model": "tiny"} | wrong)

    def test_a_risk_that_is_none(self):
        with pytest.raises(ValueError, match="low or high"):
            src.tool(risk="medium")(weather)

    def test_no_such_provider(self):
        with pytest.raises(ConfigError, match="vlm"):
            Agent.connect("http://127.0.0.1:9/v1", provider="vlm")

    def test_what_the_server_refuses_is_raised(self):
        with ScriptedServer((400, {"error": {"message": "no luck"}})) as scripted, pytest.raises(ServerError):
            Agent.connect(scripted.url).answer("Hi")


class TestTheNames:
    @check_rows("name", src._PLACES)
    def test_each_is_there_and_explained(self, name):
        assert getattr(src, name)
        assert f"`{name}`" in PAGE

    def test_they_are_listed(self):
        assert set(src.__all__) <= set(dir(src))

    def test_another_is_none(self):
        with pytest.raises(AttributeError, match="Agnet"):
            _ = src.Agnet

    def test_importing_the_package_loads_nothing(self):
        code = "import sys; before = set(sys.modules); import src; print(sorted(set(sys.modules) - before))"
        loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert loaded.stdout == "['src']\n"

    def test_the_package_says_that_it_is_typed(self):
        assert (ROOT / "src" / "py.typed").is_file()


def test_agents_in_threads_share_connections_and_ask_for_the_models_once():
    asked = []

    def respond(request):
        asked.append(request.path)
        if request.method == "GET":
            listed = {"data": [{"id": "tiny", "max_model_len": 4096}]}
            return LoopbackReply(200, JSON, [json.dumps(listed).encode()])
        return LoopbackReply(200, STREAM, [stream_event({"content": "Hi", "finish": "stop"}), b"data: [DONE]\n\n"])

    def work(url, answers):
        with Agent.connect(url) as agent:
            answers.append(agent.answer("go").text)

    with serve(respond) as address:
        answers = []
        threads = [threading.Thread(target=work, args=(f"{address}/v1", answers)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == ["Hi"] * 16
    assert sum(path.endswith("/models") for path in asked) == 1


class TestSubagents:
    @staticmethod
    def answer(conversation):
        """Hands out one task; the subagent looks at the weather once, and reports what it was told."""
        last = conversation.messages[-1]
        if last["role"] == "tool":
            return DemoTurn(f"I was told: {last['content']}")
        if "You are a subagent" in str(conversation.messages[0]["content"]):
            return DemoTurn("", calls=(("weather", {"city": "Oslo"}),))
        return DemoTurn("", calls=(("task", {"prompt": "How is it in Oslo?"}),))

    def test_a_task_is_answered_with_the_tools_of_the_agent_and_its_tokens_count(self):
        with serve(DemoServer(self.answer, lambda _: None)) as address, src.Server(f"{address}/v1") as server:
            agent = server.agent([src.tool(risk="low")(weather), src.task])
            result = agent.answer("Umbrella?")
        assert result.text == "I was told: I was told: Oslo: rain"
        assert [finished.call.name for finished in result.calls] == ["task"]
        assert result.usage.input_tokens > 2 * result.calls[0].result.usage.input_tokens > 0
        assert agent.usage == result.usage

    def test_on_asyncio_coroutine_functions_run_in_the_loop_of_the_program(self):
        loops = []

        @src.tool(risk="low")
        async def weather(city: str) -> str:
            """The weather in a city."""
            loops.append(asyncio.get_running_loop())
            return f"{city}: rain"

        async def ask(url):
            async with src.AsyncServer(url) as server:
                result = await server.agent([weather, src.task]).answer("Umbrella?")
            return result, asyncio.get_running_loop()

        with serve(DemoServer(self.answer, lambda _: None)) as address:
            result, loop = asyncio.run(ask(f"{address}/v1"))
        assert result.text == "I was told: I was told: Oslo: rain"
        assert loops == [loop]
