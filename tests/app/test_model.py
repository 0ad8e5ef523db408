"""`from src import Model, AsyncModel`: a turn at a time, in somebody else's loop."""

import asyncio
import re

import pytest

import src
from src import AsyncModel, Completed, Model
from src.errors import ConfigError, NeverReached
from src.types.messages import Named, ToolDefinition, UserMessage
from tests.doubles import ScriptedServer
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: ([a-z ]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolDefinition("weather", "The weather in a city.", CITY)
CALL = [
    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
    {"finish": "tool_calls"},
]
HELLO = [{"content": "Take one."}, {"finish": "stop"}]


def run_example(name, url):
    exec(EXAMPLES[name].replace("http://localhost:8000/v1", url).replace("vllm_bot", "src"), {"__name__": "example"})


def test_the_example_of_the_page_runs_calls_and_gives_their_results_back(capsys):
    with ScriptedServer(CALL, HELLO) as server:
        run_example("model", server.url)
    assert capsys.readouterr().out == "Take one.\n"
    *_, result = server.requests[1]["messages"]
    assert (result["role"], result["content"]) == ("tool", "rain, 7 degrees")


def test_the_asynchronous_example_prints_the_answer_as_it_streams(capsys):
    with ScriptedServer(HELLO) as server:
        run_example("async model", server.url)
    assert capsys.readouterr().out == "Take one."


@pytest.mark.parametrize(
    ("choice", "sent"),
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
        Model.connect("localhost:8000")
    with pytest.raises(ConfigError, match="no provider"):
        Model.connect(provider="nobody")


def test_a_server_that_is_not_there_is_an_error():
    with ScriptedServer() as gone:
        pass
    with pytest.raises(NeverReached):
        Model.connect(gone.url)


def test_both_are_public():
    assert {"Model", "AsyncModel"} <= set(src.__all__)
