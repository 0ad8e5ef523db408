"""Natural mistakes: each raises an error of ours that names what was given, or what to write instead.

None ends in an error of Python's own, such as "object of type 'int' has no len()".
"""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from src import (
    Agent,
    AsyncServer,
    BotError,
    Conversation,
    Media,
    Model,
    Named,
    Server,
    Timeouts,
    UserMessage,
    tool,
)
from tests.doubles import ScriptedServer
from tests.each import check_rows

HELLO = [{"content": "Hi"}, {"finish": "stop"}]


@tool(risk="low")
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: rain"


class Mistake(NamedTuple):
    """What a program does with a server, or its address, and what the error says."""

    what: str
    make: Callable[[Any], object]
    said: str


def append(agent, message):
    agent.conversation.append(message)
    return agent


ON_A_SERVER = [
    Mistake("a misspelt option", lambda s: s.agent(temprature=0), "no option 'temprature': did you mean temperature"),
    Mistake("an option of another library", lambda s: s.agent(stream=True), "no option 'stream'"),
    Mistake("one tool instead of a list", lambda s: s.agent(weather), "tools is a list of functions"),
    Mistake("the name of a tool", lambda s: s.agent(["weather"]), "a tool is a function, and 'weather' is not one"),
    Mistake("the result of a tool", lambda s: s.agent([weather("Oslo")]), "a tool is a function, and 'Oslo: rain'"),
    Mistake("the same tool twice", lambda s: s.agent([weather, weather]), "there is a tool weather already"),
    Mistake("a number for the model", lambda s: s.agent(model=7), "model: expected a name, got 7"),
    Mistake("no text as the system prompt", lambda s: s.agent(system=None), "system: expected a text, got None"),
    Mistake("yes for approve", lambda s: s.agent(approve=True), "approve: expected a function"),
    Mistake("a tool by its name", lambda s: s.agent([weather], tool_choice="weather"), 'Write Named("weather")'),
    Mistake("an unknown tool", lambda s: s.agent([weather], tool_choice=Named("whether")), "no tool whether"),
    Mistake("a call without tools", lambda s: s.agent(tool_choice="required"), "this agent has no tools"),
    Mistake("a choice as OpenAI has it", lambda s: s.agent([weather], tool_choice={"type": "function"}), "tool_choice"),
    Mistake("messages of OpenAI", lambda s: s.agent(conversation=[{"role": "user"}]), "A conversation holds messages"),
    Mistake("a text as the conversation", lambda s: s.agent(conversation="hello"), "conversation: expected a Conv"),
    Mistake("a list of overrides", lambda s: s.agent(overrides=[1]), "overrides: expected a mapping"),
    Mistake("no turns", lambda s: s.agent(max_tool_turns=0), "max_tool_turns: expected at least 1, got 0"),
    Mistake("turns as text", lambda s: s.agent(max_tool_turns="3"), "max_tool_turns: expected an integer"),
    Mistake("temperature as text", lambda s: s.agent(temperature="hot"), 'temperature: expected a number, got "hot"'),
    Mistake("a temperature below zero", lambda s: s.agent(temperature=-1), "temperature: expected at least 0"),
    Mistake("a share above one", lambda s: s.agent(top_p=2), "top_p: expected at most 1, got 2"),
    Mistake("half a token", lambda s: s.agent(max_tokens=0.5), "max_tokens: expected an integer, got 0.5"),
    Mistake("a number that stops", lambda s: s.agent(stop=3), "stop: expected a list of strings, got 3"),
    Mistake("a list as the body", lambda s: s.agent(extra_body=[1]), "extra_body: expected an object"),
    Mistake("a field of ours in the body", lambda s: s.agent(extra_body={"n": 2}), "extra_body: n is filled in by the"),
    Mistake("a word for compact", lambda s: s.agent(compact="yes"), "compact: expected True or False"),
    Mistake("a folder that is not there", lambda s: s.agent(workspace="/nowhere"), 'there is no folder "/nowhere"'),
    Mistake("a number as the question", lambda s: s.agent().answer(7), "A question is a text"),
    Mistake("no question", lambda s: s.agent().answer(None), "A question is a text"),
    Mistake("an empty question", lambda s: s.agent().answer(""), "The question is empty"),
    Mistake("a blank question in a list", lambda s: s.agent().answer([" "]), "The question is empty"),
    Mistake("a message as the question", lambda s: s.agent().answer({"role": "user"}), "A question is a text"),
    Mistake("bytes in a question", lambda s: s.agent().answer(["?", b"png"]), "A question is a text, or a list"),
    Mistake("media of no kind", lambda s: s.agent().answer(["?", Media(b"", "text/plain")]), "only images and sounds"),
    Mistake("a schema of nothing", lambda s: s.agent().answer("?", schema=object()), "has no JSON Schema"),
    Mistake("an example as a schema", lambda s: s.agent().answer("?", schema={"city": "Oslo"}), "no JSON Schema"),
    Mistake("the result before the end", lambda s: s.agent().ask("?").result, "has no result yet"),
    Mistake("a choice for one question", lambda s: s.agent().ask("?", tool_choice="yes"), "tool_choice: expected"),
    Mistake("a text among the messages", lambda s: append(s.agent(), "Hi").answer("?"), "holds messages, and not str"),
    Mistake("a dict among the messages", lambda s: append(s.agent(), {"role": "user"}).answer("?"), "and not dict"),
    Mistake("a text for a model", lambda s: s.model().respond("Hi"), "holds messages, and not str: 'H'"),
    Mistake("messages of OpenAI for a model", lambda s: s.model().respond([{"role": "user"}]), "and not dict"),
    Mistake("one message for a model", lambda s: s.model().respond(UserMessage("Hi")), "Expected a list of messages"),
    Mistake("a tool for a model", lambda s: s.model().respond([], [weather]), "Write `weather.definition`"),
    Mistake("a misspelt option of a model", lambda s: s.model(temprature=0), "did you mean temperature"),
]
ELSEWHERE = [
    Mistake("an address with a blank", lambda url: Server("my gpu"), "expected an address such as gpu:8000"),
    Mistake("a port as the address", lambda url: Server(8000), "base_url: expected a string, got 8000"),
    Mistake("no such provider", lambda url: Server(url, provider="vlm"), "provider: expected one of vllm, openai"),
    Mistake("a number as the key", lambda url: Server(url, api_key=7), "api_key: expected a string"),
    Mistake("a key of two words", lambda url: Server(url, api_key="a b"), "`api_key` is one word of printable"),
    Mistake("a password in the address", lambda url: Server("http://me:pw@gpu/v1"), "pass `api_key` instead"),
    Mistake("a port that is none", lambda url: Server("http://gpu:99999/v1"), "base_url: expected an address"),
    Mistake("an address of a model", lambda url: Model.connect(None), "base_url: expected a string"),
    Mistake("a key of a model", lambda url: Model.connect(url, "a", api_key=7), "api_key: expected a string"),
    Mistake(
        "the heat of a model", lambda url: Model.connect(url, "a", temperature=-1), "temperature: expected at least"
    ),
    Mistake("one limit of time", lambda url: Server(url, timeouts=60), "timeouts: expected Timeouts"),
    Mistake("no time", lambda url: Server(url, timeouts=Timeouts(total=0)), "timeouts: expected seconds, more than 0"),
    Mistake(
        "headers as text", lambda url: Server(url, headers="X-Team: blue"), "headers: expected an object of strings"
    ),
    Mistake("a header of two lines", lambda url: Server(url, headers={"X-Team": "a\nb"}), "headers: X-Team holds"),
    Mistake("a header with a blank", lambda url: Server(url, headers={"X Team": "blue"}), "cannot be the name of an"),
    Mistake(
        "a CA file that is not there", lambda url: Server(url, verify="/no.pem"), 'verify: there is no file "/no.pem"'
    ),
    Mistake(
        "a certificate that is not there", lambda url: Server(url, cert="/no.pem"), 'cert: there is no file "/no.pem"'
    ),
    Mistake("a number as the certificate", lambda url: Server(url, cert=5), "cert: there is no file"),
    Mistake("retries below zero", lambda url: Server(url, retries=-1), "retries: expected at least 0, got -1"),
    Mistake("a wrong argument of connect", lambda url: Agent.connect(url, "tiny", system=7), "system: expected"),
    Mistake("a misspelt argument of connect", lambda url: Agent.connect(url, tool_choise="none"), "did you mean tool_"),
    Mistake(
        "a misspelt option of a server", lambda url: Server(url, timeout=3), "A Server has no option 'timeout': did"
    ),
    Mistake("a stored text that is none", lambda url: Conversation.from_json("{}"), "no stored conversation"),
    Mistake("a stored text that is cut", lambda url: Conversation.from_json('{"type":'), "no stored conversation"),
    Mistake("a list that was stored", lambda url: Conversation.from_dict([]), "no stored conversation"),
    Mistake("a message that is none", lambda url: Conversation(["hello"]), "A conversation holds messages"),
    Mistake("a tool without a docstring", lambda url: tool(lambda: 1), "name"),
]


def is_ours(error: BaseException) -> bool:
    """Whether the error was raised on purpose, in our own code."""
    entry = error.__traceback__
    while entry.tb_next:
        entry = entry.tb_next
    return "/src/" in entry.tb_frame.f_code.co_filename


def check(make, given, said):
    with pytest.raises((BotError, TypeError)) as caught:
        make(given)
    assert said in str(caught.value)
    assert is_ours(caught.value)


@check_rows("mistake", ON_A_SERVER)
def test_a_mistake_on_a_server_is_named(mistake):
    with ScriptedServer(HELLO, models=("tiny",)) as scripted, Server(scripted.url) as server:
        check(mistake.make, server, mistake.said)


@check_rows("mistake", ELSEWHERE)
def test_a_mistake_elsewhere_is_named(mistake):
    check(mistake.make, "http://127.0.0.1:9/v1", mistake.said)


ASYNC = [each for each in ON_A_SERVER if "answer" not in each.make.__code__.co_names and "model" not in each.what]


@check_rows("mistake", ASYNC)
def test_a_mistake_elsewhere_is_named_on_asyncio(mistake):
    async def make():
        async with AsyncServer("http://127.0.0.1:9/v1") as server:
            check(mistake.make, server, mistake.said)

    asyncio.run(make())


class TestLoopsOfTheWrongKind:
    """`for` over an asynchronous run, `async for` over another, a `with` without its `async`."""

    def test_for_over_an_asynchronous_run(self):
        async def ask():
            async with AsyncServer("http://127.0.0.1:9/v1") as server:
                for _ in server.agent().ask("Hi"):
                    pass

        with pytest.raises(TypeError, match="Use `async for`"):
            asyncio.run(ask())

    def test_async_for_over_a_run(self):
        async def ask():
            with Server("http://127.0.0.1:9/v1") as server:
                async for _ in server.agent().ask("Hi"):
                    pass

        with pytest.raises(TypeError, match="Use `for`, or an agent of AsyncServer"):
            asyncio.run(ask())

    def test_with_around_an_asynchronous_server(self):
        async def ask():
            with AsyncServer("http://127.0.0.1:9/v1"):
                pass

        with pytest.raises(TypeError, match="Use `async with`"):
            asyncio.run(ask())

    def test_an_await_of_an_answer_in_threads_names_the_result(self):
        async def ask(url):
            with Server(url) as server:
                await server.agent().answer("Hi")

        with ScriptedServer(HELLO) as scripted, pytest.raises(TypeError, match="Result can't be used in 'await'"):
            asyncio.run(ask(scripted.url))

    def test_a_question_beside_another_on_asyncio(self):
        async def ask(url):
            async with AsyncServer(url) as server:
                agent = server.agent()
                await asyncio.gather(agent.answer("one"), agent.answer("two"))

        with ScriptedServer(HELLO, HELLO) as scripted, pytest.raises(BotError, match="answering another question"):
            asyncio.run(ask(scripted.url))


def test_a_run_that_was_left_has_no_result_and_says_so():
    with ScriptedServer(HELLO) as scripted, Server(scripted.url) as server:
        run = server.agent().ask("Hi")
        for _ in run:
            break
        with pytest.raises(BotError, match="left before its end"):
            _ = run.result


def test_a_dataclass_instance_is_no_schema():
    @dataclasses.dataclass
    class Weather:
        city: str

    with ScriptedServer(HELLO) as scripted, Server(scripted.url) as server:
        check(lambda given: server.agent().answer("?", schema=Weather("Oslo")), None, "has no JSON Schema")
