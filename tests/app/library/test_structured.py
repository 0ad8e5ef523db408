"""Answers in the form of a schema."""

import asyncio
import dataclasses
from typing import Literal, NamedTuple, TypedDict

import pydantic
import pytest

from src import AsyncServer, BotError, LimitReached, Server, tool
from tests.doubles import ScriptedServer
from tests.each import check_rows


@dataclasses.dataclass
class Weather:
    city: str
    rains: bool = False


@dataclasses.dataclass
class Place:
    city: str


@dataclasses.dataclass
class Refusal:
    why: str


class WeatherDict(TypedDict):
    city: str
    rains: bool


class WeatherTuple(NamedTuple):
    city: str
    sky: Literal["grey", "blue"]


class WeatherModel(pydantic.BaseModel):
    city: str
    rains: bool


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
GOOD = '{"city": "Oslo", "rains": true}'


def say(*texts):
    return [[{"content": text}, {"finish": "stop"}] for text in texts]


def ask(schema, *answers, tools=()):
    with ScriptedServer(*answers) as scripted, Server(scripted.url) as server:
        return server.agent(tools).answer("How is it?", schema=schema), scripted.requests


@check_rows(
    "schema, text, value",
    [
        (Weather, GOOD, Weather("Oslo", True)),
        (Weather, '{"city": "Oslo"}', Weather("Oslo")),
        (WeatherDict, GOOD, {"city": "Oslo", "rains": True}),
        (WeatherTuple, '["Oslo", "grey"]', WeatherTuple("Oslo", "grey")),
        (WeatherModel, GOOD, WeatherModel(city="Oslo", rains=True)),
        (SCHEMA, '{"city": "Oslo"}', {"city": "Oslo"}),
        (list[Weather], f"[{GOOD}]", [Weather("Oslo", True)]),
        (Weather, f"```json\n{GOOD}\n```", Weather("Oslo", True)),
        (Weather | Refusal, '{"why": "no data"}', Refusal("no data")),
        (WeatherModel | Refusal, '{"why": "no data"}', Refusal("no data")),
        (WeatherModel | Refusal, GOOD, WeatherModel(city="Oslo", rains=True)),
        (Place | Weather, GOOD, Weather("Oslo", True)),
        (Place | Weather, '{"city": "Oslo"}', Place("Oslo")),
        (WeatherDict | Place, '{"city": "Oslo"}', Place("Oslo")),
        (Weather | None, "null", None),
    ],
)
def test_the_value_has_the_form_that_was_asked_for(schema, text, value):
    result, requests = ask(schema, *say(text))
    assert result.value == value
    assert result.text == text
    (request,) = requests
    assert request["response_format"]["type"] == "json_schema"
    assert "JSON Schema" in request["messages"][-1]["content"]


@check_rows("wrong", ["It rains.", '{"city": 7}', '{"rains": true}', "[]"])
def test_a_wrong_answer_is_told_what_is_wrong_once(wrong):
    result, requests = ask(Weather, *say(wrong, GOOD))
    assert result.value == Weather("Oslo", True)
    assert "does not have the form" in requests[1]["messages"][-1]["content"]


@check_rows("schema", [Weather, WeatherModel, SCHEMA, Weather | Refusal])
def test_after_two_wrong_answers_it_raises(schema):
    with pytest.raises(BotError, match="not JSON|not fit"):
        ask(schema, *say("no", "no"))


def test_with_tools_the_calls_come_first_and_the_form_is_asked_of_the_answer():
    @tool(risk="low")
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"{city}: rain"

    arguments = {"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    call = [{"tool_calls": [arguments]}, {"finish": "tool_calls"}]
    result, requests = ask(Weather, call, *say("It rains.", GOOD), tools=[weather])
    assert result.value == Weather("Oslo", True)
    assert len(result.calls) == 1
    assert ["response_format" in request for request in requests] == [False, False, True]
    assert requests[2]["tool_choice"] == "none"


def test_an_answer_that_was_cut_raises_and_is_not_read():
    with pytest.raises(LimitReached) as caught:
        ask(Weather, [{"content": '{"city": "Os'}, {"finish": "length"}])
    assert caught.value.result.stop_reason == "max_tokens"
    assert caught.value.result.value is None


def test_an_answer_that_the_server_stopped_raises_with_its_word():
    with pytest.raises(LimitReached, match="The server stopped the answer: content_filter.") as caught:
        ask(None, [{"content": "Once"}, {"finish": "content_filter"}])
    assert caught.value.result.provider_stop_reason == "content_filter"


def test_the_error_tells_how_the_last_answer_was_cut_and_not_an_earlier_one():
    @tool(risk="low")
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"{city}: rain"

    arguments = {"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    stopped = [{"tool_calls": [arguments]}, {"finish": "content_filter"}]
    with pytest.raises(LimitReached, match="cut off at its limit of tokens"):
        ask(None, stopped, [{"content": "It rains in"}, {"finish": "length"}], tools=[weather])


def test_on_a_server_that_refuses_the_field_the_answer_is_checked_alone():
    refused = (400, {"error": {"message": "response_format is not supported"}})
    result, requests = ask(Weather, refused, *say(GOOD))
    assert result.value == Weather("Oslo", True)
    assert "response_format" not in requests[1]


def test_on_asyncio():
    async def answer(url):
        async with AsyncServer(url) as server:
            return await server.agent().answer("How is it?", schema=Weather)

    with ScriptedServer(*say(GOOD)) as scripted:
        assert asyncio.run(answer(scripted.url)).value == Weather("Oslo", True)
