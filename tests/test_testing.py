"""The scripted model for tests of users' programs, as docs/library.md shows it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
import requests

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


class TestATurnThatFails:
    @staticmethod
    def run(turn, error, match):
        raising = pytest.raises(error, match=match)
        with raising, ScriptedServer(turn, "second turn") as scripted, Server(scripted.url) as server:
            agent = server.agent()
            for _ in range(2):
                with pytest.raises(BotError, match="A turn of this script raised"):
                    agent.answer("Hello")
        assert scripted.turns == ["second turn"]
        return scripted

    def test_its_error_is_raised_at_the_end_of_the_block(self):
        def check(messages):
            assert "Oslo" in messages[-1]["content"], "no city"

        self.run(check, AssertionError, "no city")

    def test_nothing_is_sent_again(self):
        scripted = self.run(lambda _: 1 / 0, ZeroDivisionError, "division")
        assert len(scripted.requests) == 2  # one a question

    def test_the_failure_of_pytest_fail_is_raised_too(self):
        self.run(lambda _: pytest.fail("wrong"), pytest.fail.Exception, "wrong")

    def test_it_is_raised_in_place_of_what_came_of_it(self):
        raising = pytest.raises(ZeroDivisionError)
        with raising as raised, ScriptedServer(lambda _: 1 / 0) as scripted, Server(scripted.url) as server:
            server.agent().answer("Hello")
        assert isinstance(raised.value.__context__, BotError)

    def test_a_function_may_return_no_more_than_a_turn_may_be(self):
        self.run(lambda _: None, TypeError, "Expected a text, a call")


@pytest.mark.parametrize("turn", [None, b"x", (), [], {"a": 1}, 7, ["Hi.", None]])
def test_what_is_no_turn_is_refused(turn):
    with pytest.raises(TypeError, match=r"Expected a text, a call\(\.\.\.\), a list of them or a function"):
        ScriptedServer("Hi.", turn)


def ask_for(url, model, **more):
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **more}
    return requests.post(f"{url}/chat/completions", json=body, timeout=10)


def test_an_answer_names_the_model_that_was_asked():
    with ScriptedServer("Hi.", "Hi.", models=("a", "b")) as scripted:
        assert ask_for(scripted.url, "b").json()["model"] == "b"
        assert '"model": "b"' in ask_for(scripted.url, "b", stream=True).text


def test_a_model_that_is_not_served_is_refused_and_takes_no_turn():
    with ScriptedServer("Hi.") as scripted:
        answer = ask_for(scripted.url, "absent")
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, "The model `absent` does not exist.")
        assert scripted.turns == ["Hi."]


def test_what_is_no_request_for_a_turn_is_refused_as_vllm_does():
    with ScriptedServer("Hi.") as scripted:
        url = f"{scripted.url}/chat/completions"
        assert requests.get(url, timeout=10).status_code == 405
        assert requests.post(url, data=b"{", timeout=10).status_code == 400
        assert scripted.turns == ["Hi."]
