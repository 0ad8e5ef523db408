"""`from src import Model, AsyncModel`: a turn at a time, in somebody else's loop."""

import asyncio
import threading

import pytest

import src
from src import (
    AsyncModel,
    AsyncServer,
    Completed,
    MalformedCall,
    Model,
    Server,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolResults,
    tool,
)
from src.errors import BotError, ConfigError, NeverReached
from src.testing import ScriptedServer as TurnServer
from src.types.messages import Named, ToolDefinition, UserMessage
from tests.doubles import ScriptedServer
from tests.each import check_rows
from tests.waiting import PATIENCE_S

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolDefinition("weather", "The weather in a city.", CITY)
CALL = [
    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
    {"finish": "tool_calls"},
]
HELLO = [{"content": "Take one."}, {"finish": "stop"}]


def test_the_results_of_its_calls_are_given_back():
    messages = [UserMessage("Do I need an umbrella in Oslo?")]
    with ScriptedServer(CALL, HELLO) as server, Server(server.url) as shared, shared.model() as model:
        for _ in range(2):
            (response,) = [each.response for each in model.respond(messages, [WEATHER]) if isinstance(each, Completed)]
            results = [ToolResult(call.id, call.name, "text", "rain, 7 degrees") for call in response.calls]
            messages += [response, ToolResults(tuple(results))]
    assert response.text == "Take one."
    *_, result = server.requests[1]["messages"]
    assert (result["role"], result["content"]) == ("tool", "rain, 7 degrees")


def test_a_model_of_an_async_server_answers_as_it_streams():
    async def respond(url):
        async with AsyncServer(url) as shared, await shared.model(temperature=0) as model:
            return [event async for event in model.respond([UserMessage("go")])]

    with ScriptedServer(HELLO) as server:
        events = asyncio.run(respond(server.url))
    assert TextDelta("Take one.") in events
    assert server.requests[0]["temperature"] == 0


class TestClosingAModelOnAsyncio:
    def test_what_else_uses_its_server_goes_on(self):
        def hold(_):
            has_begun.set()
            is_closed.wait(PATIENCE_S)
            return "Take one."

        async def respond(url):
            async with AsyncServer(url) as shared:
                answer = asyncio.create_task(shared.agent().answer("go"))
                await asyncio.to_thread(has_begun.wait, PATIENCE_S)
                async with await shared.model():
                    pass
                is_closed.set()
                return (await answer).text

        has_begun, is_closed = threading.Event(), threading.Event()
        with TurnServer(hold) as server:
            assert asyncio.run(respond(server.url)) == "Take one."


def test_a_closed_model_answers_no_more():
    with ScriptedServer(HELLO) as server:
        with Model.connect(server.url) as model:
            pass
        with pytest.raises(BotError, match="model is closed"):
            list(model.respond([UserMessage("go")]))
        assert server.requests == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_closed_model_answers_no_more_on_asyncio(is_shared):
    async def respond(url):
        async with AsyncServer(url) as shared:
            async with await (shared.model() if is_shared else AsyncModel.connect(url)) as model:
                pass
            return [event async for event in model.respond([UserMessage("go")])]

    with ScriptedServer(HELLO) as server:
        with pytest.raises(BotError, match="model is closed"):
            asyncio.run(respond(server.url))
        assert server.requests == []


def test_a_tool_runs_a_call_in_a_loop_of_ones_own():
    @tool(risk="low")
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"{city}: rain"

    call = ToolCall("1", "weather", {"city": "Oslo"})
    assert weather.run(call) == ToolResult("1", "weather", "text", "Oslo: rain")
    assert weather.run(ToolCall("1", "weather", {})).kind == "error"
    assert "There is no tool whether" in weather.run(ToolCall("1", "whether", {})).text
    assert "Usage: weather(city: string)" in weather.run(MalformedCall("1", "weather", "", "It is cut off.")).text


@check_rows(
    "choice, sent",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (Named("weather"), {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_the_choice_of_tools_is_sent_by_both(choice, sent):
    async def respond(url):
        async with await AsyncModel.connect(url, "tiny") as model:
            return [event async for event in model.respond([UserMessage("go")], [WEATHER], choice)]

    with ScriptedServer(HELLO, HELLO) as server:
        with Model.connect(server.url, "tiny") as model:
            events = list(model.respond([UserMessage("go")], [WEATHER], choice))
        assert asyncio.run(respond(server.url)) == events
    assert [request["tool_choice"] for request in server.requests] == [sent, sent]
    assert isinstance(events[-1], Completed)


def test_without_a_name_it_is_the_only_model_of_the_server():
    async def connect(url):
        async with await AsyncModel.connect(url) as model:
            return model.name

    with ScriptedServer(models=("small",)) as server:
        with Model.connect(server.url) as model:
            assert model.name == "small"
        assert asyncio.run(connect(server.url)) == "small"


def test_of_several_models_one_must_be_named():
    async def connect(url):
        await AsyncModel.connect(url)

    with ScriptedServer(models=("a", "b")) as server:
        with pytest.raises(ConfigError, match="several models: a, b"):
            Model.connect(server.url)
        with pytest.raises(ConfigError, match="several models: a, b"):
            asyncio.run(connect(server.url))


def test_arguments_that_cannot_be_are_refused_before_anything_is_sent():
    with pytest.raises(ConfigError, match="base_url"):
        Model.connect("my gpu")
    with pytest.raises(ConfigError, match="provider: expected one of"):
        Model.connect(provider="nobody")


def test_a_server_that_is_not_there_is_an_error():
    with ScriptedServer() as gone:
        pass
    with pytest.raises(NeverReached):
        Model.connect(gone.url)


def test_both_are_public():
    assert {"Model", "AsyncModel"} <= set(src.__all__)


def test_the_copilot_cli_is_no_server_for_asyncio():
    pytest.importorskip("aiohttp")
    with pytest.raises(ConfigError, match="in threads only"):
        AsyncServer("http://gpu:8000/v1", provider="copilot")
    with pytest.raises(ConfigError, match="temperature: the API of copilot has no such setting"):
        Server("http://gpu:8000/v1", provider="copilot").agent(model="a", temperature=0.5)
