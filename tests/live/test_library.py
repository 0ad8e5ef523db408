"""The library on four kinds of servers: a small tool loop lands on all; leaving a run ends the server's answer."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from dataclasses import dataclass
from typing import Literal

import pytest

from src import (
    AsyncServer,
    CallFinished,
    Cancelled,
    Completed,
    Named,
    Server,
    TextDelta,
    ToolResults,
    UserMessage,
    tool,
)
from tests.waiting import wait_until

from .rig import ENDLESS
from .rig import Server as RigServer

pytestmark = pytest.mark.live
ON_FOUR = pytest.mark.parametrize("server", ["hermes", "no parser", "strict", "wrong parser"], indirect=True)
ENDLESS_TOKENS = 8_000  # of an answer to ENDLESS


# What the model says to these, rules.json has. A call that stands in the question would be an echo of it.
QUESTION = "Do I need an umbrella?"


@tool(risk="low")
def weather(city: Literal["Oslo", "Bergen"]) -> str:
    """The weather in a city, now."""
    return f"{city}: rain"


@tool(name="weather", risk="low")
async def weather_async(city: Literal["Oslo", "Bergen"]) -> str:
    """The weather in a city, now."""
    await asyncio.sleep(0)
    return f"{city}: rain"


@tool(risk="low")
def look(outside: bool) -> str:
    """Look at the sky."""
    return f"looked, outside: {outside}"


@dataclass
class Umbrella:
    needed: bool
    size: Literal["small", "large"]


class TestASmallToolLoopLands:
    @ON_FOUR
    def test_streamed(self, server: RigServer) -> None:
        with Server(server.base_url, api_key=server.api_key) as shared:
            events = list(shared.agent([weather]).ask(QUESTION))
        (finished,) = [event for event in events if isinstance(event, CallFinished)]
        assert finished.result.text == "Oslo: rain"
        assert "Oslo: rain" in "".join(event.text for event in events if isinstance(event, TextDelta))

    @ON_FOUR
    def test_on_asyncio_for_many_at_once(self, server: RigServer) -> None:
        async def ask():
            async with AsyncServer(server.base_url, api_key=server.api_key) as shared:
                return await asyncio.gather(*(shared.agent([weather_async]).answer(QUESTION) for _ in range(4)))

        for result in asyncio.run(ask()):
            assert [each.result.text for each in result.calls] == ["Oslo: rain"]
            assert "Oslo: rain" in result.text

    @ON_FOUR
    def test_with_a_forced_tool(self, server: RigServer) -> None:
        with Server(server.base_url, api_key=server.api_key) as shared:
            agent = shared.agent([weather, look], tool_choice=Named("look"))
            result = agent.answer("Look outside.", raise_on_limit=False)
        assert result.calls[0].result.text.startswith("looked, outside:")

    @ON_FOUR
    def test_with_a_forced_tool_in_a_loop_of_ones_own(self, server: RigServer) -> None:
        messages = [UserMessage("Look outside.")]
        with Server(server.base_url, api_key=server.api_key) as shared, shared.model() as model:
            steps = model.respond(messages, [weather.definition, look.definition], Named("look"))
            (response,) = [event.response for event in steps if isinstance(event, Completed)]
        results = ToolResults(tuple(map(look.run, response.requested_calls)))
        assert [result.kind for result in results.results] == ["text"]

    @ON_FOUR
    def test_with_a_schema(self, server: RigServer) -> None:
        with Server(server.base_url, api_key=server.api_key) as shared:
            result = shared.agent([weather], max_tokens=400).answer("Which umbrella do I need?", schema=Umbrella)
        assert isinstance(result.value, Umbrella)
        assert [each.result.text for each in result.calls] == ["Oslo: rain"]


class TestLeavingARun:
    """The server stops writing: it has not written all tokens when it answers nobody."""

    def read_metric(self, server: RigServer, name: str) -> float:
        with urllib.request.urlopen(server.base_url.removesuffix("/v1") + "/metrics") as answer:
            return float(re.search(rf"^vllm:{name}\{{.*\}} (\S+)", answer.read().decode(), re.M)[1])

    def count_written(self, server: RigServer) -> float:
        """The tokens that the server has written for all clients, once it answers none."""
        wait_until(lambda: not self.read_metric(server, "num_requests_running"), "the server's answer ends")
        return self.read_metric(server, "generation_tokens_total")

    def test_in_threads(self, server: RigServer) -> None:
        before = self.count_written(server)
        with Server(server.base_url) as shared:
            agent = shared.agent(max_tokens=ENDLESS_TOKENS)
            run = agent.ask(ENDLESS)  # it is held on to
            for event in run:
                if isinstance(event, TextDelta):
                    break
            assert self.count_written(server) - before < ENDLESS_TOKENS
            assert agent.answer("Go on from there.").text == "Yes."

    @pytest.mark.parametrize("how", ["break", "task", "cancel"])
    def test_on_asyncio(self, server: RigServer, how: str) -> None:
        async def leave():
            async with AsyncServer(server.base_url) as shared:
                agent, begun = shared.agent(max_tokens=ENDLESS_TOKENS), asyncio.Event()
                run = agent.ask(ENDLESS)

                async def read():
                    async for event in run:
                        if isinstance(event, TextDelta):
                            begun.set()
                            if how == "break":
                                break

                task = asyncio.create_task(read())
                await begun.wait()
                if how != "break":
                    task.cancel() if how == "task" else run.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if how == "cancel":
                    assert isinstance(task.exception(), Cancelled)
                written = await asyncio.to_thread(self.count_written, server)
                return written, (await agent.answer("Go on from there.")).text

        before = self.count_written(server)
        written, text = asyncio.run(leave())
        assert written - before < ENDLESS_TOKENS
        assert text == "Yes."


def test_nine_questions_of_2000_words_do_not_end_for_want_of_room(server: RigServer) -> None:
    words = " ".join(f"word{number % 97}" for number in range(2000))
    with Server(server.base_url) as shared:
        agent = shared.agent(max_tokens=60)
        texts = [agent.answer(f"{words} Answer {number} of 9.").text for number in range(9)]
    assert texts == [f"Answer {number}." for number in range(9)]
