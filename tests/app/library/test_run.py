"""Leaving a run early: the server's answer ends, and the next question is answered."""

import asyncio
import contextlib
import threading

import pytest

from src import AsyncServer, BotError, Cancelled, Server, TextDelta, ToolContext, tool
from tests.app.library.servers import serve_one_call
from tests.faults.scripts import HALF, HELLO
from tests.faults.server import STALL, FaultServer
from tests.waiting import PATIENCE_S, wait_until


@contextlib.contextmanager
def serve_half():
    """The address of a server that stalls in the middle of its first answer."""
    with FaultServer([HALF, STALL], HELLO) as server:
        yield f"http://127.0.0.1:{server.port}/v1"


def read_half(run):
    for event in run:
        if isinstance(event, TextDelta):
            return


async def read_all(run, on_text=lambda: None):
    async for event in run:
        if isinstance(event, TextDelta):
            on_text()


async def start_reading(run):
    """A task that reads the run, and has read of its text."""
    begun = asyncio.Event()
    task = asyncio.create_task(read_all(run, begun.set))
    await begun.wait()
    return task


TYPED = """
from dataclasses import dataclass
from typing_extensions import assert_type  # mypy brings it
from vllm_bot import Agent, AsyncAgent, AsyncRun, Run

@dataclass
class Weather:
    city: str

async def use(agent: Agent, other: AsyncAgent) -> None:
    assert_type(agent.ask("x", schema=Weather).result.value, Weather)
    with agent.resume({}, schema=Weather) as run:
        assert_type(run.result.value, Weather)
    assert_type((await other.ask("x", schema=Weather).finish()).value, Weather)
    runs: list[Run] = [agent.ask("x")]
    others: list[AsyncRun] = [other.ask("x")]
    for each in agent.answer("x").calls:
        print(each.call.arguments, runs, others)
"""


@pytest.mark.thorough
def test_a_run_has_the_type_of_its_schema(list_type_errors):
    assert list_type_errors(TYPED) == []


class TestInThreads:
    @pytest.fixture
    def agent(self):
        with serve_half() as url, Server(url) as server:
            yield server.agent(model="tiny", system="")

    @pytest.fixture(autouse=True)
    def without_a_list_of_models(self, monkeypatch):
        monkeypatch.setattr("src.app.library.connection.BaseServer.resolve_model", take_the_name)

    def check(self, agent):
        """What was said stays, and the agent goes on."""
        assert agent.conversation[-1].text.startswith("Half")
        assert agent.answer("and now?").text == "Hello"

    def test_a_break_ends_it_though_the_run_is_held(self, agent):
        run = agent.ask("go")
        read_half(run)
        self.check(agent)
        with pytest.raises(BotError, match="left before its end"):
            _ = run.result

    def test_close_ends_it(self, agent):
        run = agent.ask("go")
        while not isinstance(next(run), TextDelta):
            pass
        run.close()
        self.check(agent)

    def test_an_exception_ends_it(self, agent):
        with pytest.raises(KeyError):
            for event in agent.ask("go"):
                if isinstance(event, TextDelta):
                    raise KeyError
        self.check(agent)

    def test_the_end_of_a_with_block_ends_it(self, agent):
        with agent.ask("go") as run:
            while not isinstance(next(run), TextDelta):
                pass
        self.check(agent)

    def test_a_close_in_another_thread_ends_it(self, agent):
        begun, raised = threading.Event(), []

        def read():
            try:
                for event in run:
                    if isinstance(event, TextDelta):
                        begun.set()
            except BotError as error:
                raised.append(error)

        run = agent.ask("go")
        thread = threading.Thread(target=read)
        thread.start()
        assert begun.wait(PATIENCE_S)
        run.close()
        thread.join(PATIENCE_S)
        assert [type(error) for error in raised] == [Cancelled]
        self.check(agent)

    def test_one_that_another_thread_closes_between_two_events_ends_with_an_error(self, agent):
        run = agent.ask("go")
        with pytest.raises(Cancelled):
            for event in run:
                if isinstance(event, TextDelta):
                    closer = threading.Thread(target=run.close)
                    closer.start()
                    closer.join(PATIENCE_S)
        self.check(agent)

    def test_one_that_was_closed_before_it_began_has_no_result(self, agent):
        run = agent.ask("never")
        run.close()
        assert list(run) == []
        with pytest.raises(BotError, match="left before its end"):
            _ = run.result

    def test_one_is_not_read_in_two_threads(self, agent):
        begun = threading.Event()

        def read():
            with contextlib.suppress(Cancelled):
                for event in run:
                    if isinstance(event, TextDelta) and event.text.endswith("answer"):  # the last before it stalls
                        begun.set()

        run = agent.ask("go")
        thread = threading.Thread(target=read)
        thread.start()
        assert begun.wait(PATIENCE_S)
        wait_until(run._reading.locked, "it does not read on")
        for read_too in (lambda: list(run), lambda: next(run), run.finish):
            with pytest.raises(BotError, match="in another thread or task already"):
                read_too()
        assert not run._exchange.cancelled.is_set()
        run.close()
        thread.join(PATIENCE_S)

    def test_one_that_another_thread_reads_between_two_events_ends_with_an_error_of_ours(self, agent):
        def read_too():
            with contextlib.suppress(Cancelled):
                next(run)

        run, thread = agent.ask("go"), threading.Thread(target=read_too)
        with pytest.raises(BotError, match="in another thread or task already"):
            for event in run:
                if isinstance(event, TextDelta) and event.text.endswith("answer"):  # the last before it stalls
                    thread.start()
                    wait_until(run._reading.locked, "it is not read")
        thread.join(PATIENCE_S)

    def test_a_run_that_is_not_begun_holds_nothing_up(self, agent):
        agent.ask("never")
        read_half(agent.ask("go"))
        self.check(agent)


class TestOnAsyncio:
    @pytest.fixture(autouse=True)
    def without_a_list_of_models(self, monkeypatch):
        monkeypatch.setattr("src.app.library.connection.BaseServer.resolve_model", take_the_name)

    def leave(self, leave):
        async def run():
            with serve_half() as url:
                async with AsyncServer(url) as server:
                    agent = server.agent(model="tiny", system="")
                    await leave(agent)
                    assert agent.conversation[-1].text.startswith("Half")
                    assert (await agent.answer("and now?")).text == "Hello"

        asyncio.run(run())

    def test_a_break_ends_it_and_the_next_question_may_come_at_once(self):
        async def leave(agent):
            held = agent.ask("go")
            async for event in held:
                if isinstance(event, TextDelta):
                    break
            assert (await agent.answer("and now?")).text == "Hello"
            with pytest.raises(BotError, match="left before its end"):
                _ = held.result

        async def run():
            with serve_half() as url:
                async with AsyncServer(url) as server:
                    await leave(server.agent(model="tiny", system=""))

        asyncio.run(run())

    def test_a_cancelled_task_ends_it(self):
        async def leave(agent):
            task = await start_reading(agent.ask("go"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        self.leave(leave)

    def test_one_is_not_read_in_two_tasks(self):
        async def leave(agent):
            run = agent.ask("go")
            task = await start_reading(run)
            for read_too in (lambda: read_all(run), lambda: anext(run), run.finish):
                with pytest.raises(BotError, match="in another thread or task already"):
                    await read_too()
            run.cancel()
            with pytest.raises(Cancelled):
                await task

        self.leave(leave)

    @pytest.mark.parametrize("by", ["run", "agent", "close"])
    def test_another_task_ends_it(self, by):
        async def leave(agent):
            run = agent.ask("go")
            task = await start_reading(run)
            await run.close() if by == "close" else (run if by == "run" else agent).cancel()
            with pytest.raises(Cancelled):
                await task

        self.leave(leave)


def take_the_name(server, core):
    yield from ()
    return core.name


class TestToolsOfARunThatIsLeft:
    """A coroutine is cancelled; a function in a thread may end, and its result is kept."""

    def test_a_coroutine_is_cancelled(self):
        ended, begun = [], asyncio.Event()

        @tool(risk="low")
        async def weather(city: str) -> str:
            """The weather in a city."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(city)
            return "never"

        async def run(url):
            async with AsyncServer(url) as server:
                agent = server.agent([weather])
                task = asyncio.create_task(agent.answer("Rain?"))
                while not begun.is_set():
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return agent.conversation[-1].results[0].text

        with serve_one_call("weather", {"city": "Oslo"}) as url:
            assert "did not finish" in asyncio.run(run(url))
        assert ended == ["Oslo"]

    def test_a_function_in_a_thread_is_told_and_its_result_is_kept(self):
        asked = []

        @tool(risk="low")
        def weather(city: str, ctx: ToolContext) -> str:
            """The weather in a city."""
            loop, agent = asked
            loop.call_soon_threadsafe(agent.cancel)
            return "told to end" if ctx.cancelled.wait(PATIENCE_S) else "rain"

        async def run(url):
            async with AsyncServer(url) as server:
                agent = server.agent([weather])
                asked.extend((asyncio.get_running_loop(), agent))
                async for _ in agent.ask("Rain?"):
                    pass
                return agent.conversation[-1].results[0].text

        async def run_to_the_end(url):
            with pytest.raises(Cancelled):
                await run(url)

        with serve_one_call("weather", {"city": "Oslo"}) as url:
            asyncio.run(run_to_the_end(url))
