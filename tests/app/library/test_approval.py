"""Only a clear yes lets a call run: natural mistakes with `approve`, and what is an answer."""

import asyncio
import functools
import gc
import inspect

import pytest

from src import Answer, AsyncServer, CallDenied, CallFinished, CallStarted, Server, tool
from tests.app.library.servers import serve_one_call

RAN: list[str] = []


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    RAN.append(city)
    return f"{city}: rain"


async def refuse(request):
    return False


class Refusing:
    async def __call__(self, request):
        return False


def forget(request):
    """Asks, and forgets to return."""


class Reply:
    allowed = True


WRONG = {  # what comes of each is no answer: the call must not run
    "a text": lambda request: "no",
    "a text that means yes": lambda request: "yes",
    "a tuple": lambda request: (False, "no"),
    "an object": lambda request: {"approved": False},
    "the class Answer": lambda request: Answer,
    "nothing": forget,
    "a number": lambda request: 1,
    "the request": lambda request: request,
    "an Answer with a text": lambda request: Answer("no"),
    "an Answer with the request": lambda request: Answer(request),
    "a value like an Answer": lambda request: Reply(),
    "a function": lambda request: refuse,
    "a list": lambda request: [True],
}
NOT_ASKED = {  # what cannot be asked is refused when the agent is made
    "a coroutine function": refuse,
    "a part of one": functools.partial(refuse),
    "an object that is one": Refusing(),
    "yes": True,
    "a text": "yes",
    "the class Answer": Answer,
    "an Answer": Answer(True),
}


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


@pytest.fixture
def url():
    with serve_one_call("weather", {"city": "Oslo"}) as url:
        yield url


@pytest.mark.parametrize("name", WRONG)
class TestWhatIsNoAnswerRefusesAndRaises:
    def test_in_threads(self, url, name):
        with Server(url) as server:
            agent = server.agent([weather], approve=WRONG[name])
            with pytest.raises(TypeError, match="approve returned .*Return True, False or an Answer"):
                agent.answer("Rain?")
        assert RAN == []
        (results,) = agent.conversation[-1:]
        assert results.results[0].is_denied

    def test_on_asyncio(self, url, name):
        async def ask():
            async with AsyncServer(url) as server:
                agent = server.agent([weather], approve=WRONG[name])
                with pytest.raises(TypeError, match="approve returned .*Return True, False or an Answer"):
                    await agent.answer("Rain?")
                assert agent.conversation[-1].results[0].is_denied

        if inspect.iscoroutinefunction(WRONG[name](None)):
            pytest.skip("a function that is returned is no answer in either")
        asyncio.run(ask())
        assert RAN == []


@pytest.mark.parametrize("name", NOT_ASKED)
def test_what_cannot_be_asked_is_refused_when_a_sync_agent_is_made(url, name):
    with Server(url) as server, pytest.raises(TypeError, match="approve: "):
        server.agent([weather], approve=NOT_ASKED[name])


def test_a_sync_function_that_returns_a_coroutine_refuses(url, recwarn):
    with (
        Server(url) as server,
        pytest.raises(TypeError, match="an awaitable .coroutine., which only an agent of Async"),
    ):
        server.agent([weather], approve=lambda request: refuse(request)).answer("Rain?")
    assert RAN == []
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.parametrize("approve", [refuse, functools.partial(refuse), Refusing(), lambda request: refuse(request)])
def test_an_async_agent_awaits_a_coroutine_function_and_its_refusal_holds(url, approve):
    async def ask():
        async with AsyncServer(url) as server:
            return await server.agent([weather], approve=approve).answer("Rain?")

    result = asyncio.run(ask())
    assert RAN == []
    assert "not approved" in result.text


def test_an_async_agent_awaits_a_yes(url):
    async def approve(request):
        await asyncio.sleep(0)
        return True

    async def ask():
        async with AsyncServer(url) as server:
            return await server.agent([weather], approve=approve).answer("Rain?")

    assert "Oslo: rain" in asyncio.run(ask()).text
    assert RAN == ["Oslo"]


@pytest.mark.parametrize(("answer", "runs"), [(True, 1), (False, 0), (Answer(True), 1), (Answer(False, "Not now."), 0)])
def test_these_are_answers(url, answer, runs):
    with Server(url) as server:
        events = list(server.agent([weather], approve=lambda request: answer).ask("Rain?"))
    assert len(RAN) == runs
    kinds = [type(event) for event in events]
    assert (CallStarted in kinds, CallDenied in kinds) == (bool(runs), not runs)


def test_the_arguments_that_an_answer_changes_are_those_that_run(url):
    with Server(url) as server:
        agent = server.agent([weather], approve=lambda request: Answer(True, arguments={"city": "Bergen"}))
        (finished,) = [event for event in agent.ask("Rain?") if isinstance(event, CallFinished)]
    assert RAN == ["Bergen"]
    assert "Bergen: rain" in finished.result.text


def test_an_approve_function_that_fails_runs_nothing_and_its_error_is_raised(url):
    def approve(request):
        raise KeyError("place")

    with Server(url) as server, pytest.raises(KeyError):
        server.agent([weather], approve=approve).answer("Rain?")
    assert RAN == []


def test_an_approve_function_that_fails_on_asyncio_raises_its_error_and_asyncio_logs_none(url):
    async def approve(request):
        raise KeyError("place")

    async def ask():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        async with AsyncServer(url) as server:
            with pytest.raises(KeyError):
                await server.agent([weather], approve=approve).answer("Rain?")
        gc.collect()

    logged = []
    asyncio.run(ask())
    assert RAN == logged == []


def test_a_tool_without_a_risk_asks_and_without_approve_does_not_run(url):
    with Server(url) as server:
        result = server.agent([weather]).answer("Rain?")
    assert RAN == []
    assert "--yes" not in str(result.calls)
    assert "nobody is there to be asked" in result.calls[0].result.text
