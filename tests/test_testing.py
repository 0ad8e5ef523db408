"""The scripted model for tests of users' programs, as docs/library.md shows it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from src import AsyncServer, BotError, Server, tool
from src.testing import ScriptedServer, call


@tool(risk="low")
def weather(city: str) -> str:
    """The weather."""
    return f"{city}: rain"


@pytest.mark.parametrize("has_parser", [True, False])
def test_an_agent_makes_the_calls_and_gives_the_answers_of_the_script(has_parser):
    turns = call("weather", city="Oslo"), "It rains."
    with ScriptedServer(*turns, has_parser=has_parser) as scripted, Server(scripted.url) as server:
        result = server.agent([weather]).answer("How is Oslo?")
    assert result.text == "It rains."
    assert [each.result.value for each in result.calls] == ["Oslo: rain"]
    assert "Oslo: rain" in scripted.requests[-1]["messages"][-1]["content"]
    assert scripted.turns == []


def test_it_works_on_asyncio_too():
    async def ask(url):
        async with AsyncServer(url) as server:
            return await server.agent([weather]).answer("How is Oslo?")

    with ScriptedServer(["Let me look.", call("weather", city="Oslo")], "It rains.") as scripted:
        assert str(asyncio.run(ask(scripted.url))) == "It rains."


def test_a_turn_may_follow_from_what_was_sent():
    def repeat(messages):
        return f"You said: {messages[-1]['content']}"

    with ScriptedServer(repeat) as scripted, Server(scripted.url) as server:
        assert str(server.agent().answer("Hello")) == "You said: Hello"


def test_an_answer_may_have_a_form():
    @dataclass
    class City:
        name: str

    with ScriptedServer('{"name": "Oslo"}') as scripted, Server(scripted.url) as server:
        assert server.agent().answer("Which?", schema=City).value == City("Oslo")


def test_any_model_can_be_named_that_the_script_serves():
    with ScriptedServer("Hi.", models=("a", "b")) as scripted, Server(scripted.url) as server:
        assert server.list_models() == ["a", "b"]
        assert str(server.agent(model="b").answer("Hello")) == "Hi."
        assert scripted.requests[0]["model"] == "b"


def test_a_request_after_the_last_turn_is_refused_and_says_so():
    said = pytest.raises(BotError, match="The script of this test is over, and request 1 came")
    with ScriptedServer() as scripted, Server(scripted.url) as server, said:
        server.agent().answer("Hello")
