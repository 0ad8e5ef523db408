"""What a tool gets besides its arguments: the run, its cancellation, dependencies, async code."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from src.errors import ToolError
from src.tools import DependencyKey, Registry, ToolContext
from src.tools.sdk.dependencies import Scope
from src.types.messages import ToolCall
from tests.waiting import PATIENCE_S

CTX = ToolContext(Path("/"))
TYPED = """
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import TextIO
from typing_extensions import assert_type  # mypy brings it
from vllm_bot.tools import DependencyKey, ToolContext

def plain(ctx: ToolContext) -> sqlite3.Connection: return sqlite3.connect(":memory:")
async def awaited() -> sqlite3.Connection: return sqlite3.connect(":memory:")
def generator() -> Generator[sqlite3.Connection, None, None]: yield sqlite3.connect(":memory:")
def iterator() -> Iterator[sqlite3.Connection]: yield sqlite3.connect(":memory:")
async def async_generator() -> AsyncGenerator[sqlite3.Connection, None]: yield sqlite3.connect(":memory:")
async def async_iterator() -> AsyncIterator[sqlite3.Connection]: yield sqlite3.connect(":memory:")
def open_file() -> TextIO: return open("notes.txt")

FILE = DependencyKey[TextIO]("file", open_file)  # a file is an iterator of its lines, so its key says what it is

async def use(ctx: ToolContext) -> None:
    assert_type(ctx.get(DependencyKey("1", plain)), sqlite3.Connection)
    assert_type(await ctx.resolve(DependencyKey("2", awaited)), sqlite3.Connection)
    assert_type(ctx.get(DependencyKey("3", generator, cached="run")), sqlite3.Connection)
    assert_type(ctx.get(DependencyKey("4", iterator)), sqlite3.Connection)
    assert_type(ctx.get(DependencyKey("5", async_generator)), sqlite3.Connection)
    assert_type(await ctx.resolve(DependencyKey("6", async_iterator)), sqlite3.Connection)
    assert_type(ctx.get(FILE), TextIO)

ToolContext(overrides={plain: lambda: sqlite3.connect("test.db"), FILE: open_file, "1": plain}, workspace=__import__("pathlib").Path())
"""


def result_of(function, ctx=CTX):
    """Of a tool with that function, called without arguments."""
    registry = Registry()
    registry.tool(risk="low")(function)
    result = registry.run(ToolCall("1", function.__name__, {}), ctx)
    return result.kind, result.value


def counted(cached):
    made = []

    def create() -> int:
        made.append("made")
        return len(made)

    return DependencyKey("number", create, cached=cached)


class TestDependencies:
    def test_one_cached_for_a_call_is_created_once_a_call(self):
        key = counted("call")

        def use(ctx: ToolContext) -> list:
            """Use it twice."""
            return [ctx.get(key), ctx.get(key)]

        with CTX.for_run() as ctx:
            assert [result_of(use, ctx), result_of(use, ctx)] == [("data", [1, 1]), ("data", [2, 2])]

    def test_one_cached_for_a_run_is_created_once_a_run(self):
        key = counted("run")

        def use(ctx: ToolContext) -> int:
            """Use it."""
            return ctx.get(key)

        with CTX.for_run() as ctx:
            assert [result_of(use, ctx), result_of(use, ctx)] == [("data", 1), ("data", 1)]
        assert result_of(use) == ("data", 2)

    def test_parallel_calls_get_the_same_one(self):
        entered = threading.Barrier(4)
        key = DependencyKey("thing", object, cached="run")
        with CTX.for_run() as ctx:
            got = []

            def ask():
                entered.wait()
                with ctx.for_call() as call:
                    got.append(call.get(key))

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(got) == 4
        assert len(set(map(id, got))) == 1

    def test_a_factory_may_take_the_context_and_ask_for_others(self):
        inner = DependencyKey("inner", lambda: 20)
        outer = DependencyKey("outer", lambda ctx: ctx.get(inner) + 1)
        with CTX.for_call() as ctx:
            assert ctx.get(outer) == 21

    def test_a_class_is_a_factory_even_if_it_takes_options(self):
        class Client:
            def __init__(self, *, timeout=5):
                self.timeout = timeout

        with CTX.for_call() as ctx:
            assert ctx.get(DependencyKey("client", Client)).timeout == 5
            assert ctx.get(DependencyKey("table", dict)) == {}

    def test_an_async_factory_serves_async_and_other_tools(self):
        async def create() -> str:
            await asyncio.sleep(0)
            return "made"

        key = DependencyKey("it", create)

        async def with_await(ctx: ToolContext) -> str:
            """Use it."""
            return await ctx.resolve(key)

        def without(ctx: ToolContext) -> str:
            """Use it."""
            return ctx.get(key)

        assert result_of(with_await) == result_of(without) == ("text", "made")

    def test_async_code_cannot_wait_for_an_async_factory_and_the_error_says_how(self):
        async def create() -> str:
            return "made"

        key = DependencyKey("it", create)

        async def use(ctx: ToolContext) -> str:
            """Use it."""
            return ctx.get(key)

        kind, said = result_of(use)
        assert kind == "error"
        assert "await ctx.resolve" in said

    def test_async_code_resolves_what_is_not_async_too(self):
        key = DependencyKey("it", lambda: "plain")

        async def use(ctx: ToolContext) -> str:
            """Use it."""
            return await ctx.resolve(key) + ctx.get(key)

        assert result_of(use) == ("text", "plainplain")

    @pytest.mark.parametrize("named_by", ["factory", "key", "id"])
    def test_an_override_names_the_factory_the_key_or_the_id(self, named_by):
        def open_database() -> str:
            return "real"

        key = DependencyKey("database", open_database)
        replaced = {"factory": open_database, "key": key, "id": "database"}[named_by]
        with ToolContext(Path("/"), overrides={replaced: lambda: "double"}).for_call() as ctx:
            assert ctx.get(key) == "double"

    def test_an_override_of_one_context_is_not_that_of_another(self):
        key = DependencyKey("user", lambda: "nobody")
        contexts = [ToolContext(Path("/"), overrides={key: lambda name=name: name}) for name in ("Ann", "Ben")]
        names = []
        for each in contexts:
            with each.for_call() as ctx:
                names.append(ctx.get(key))
        assert names == ["Ann", "Ben"]

    def test_a_replacement_that_is_no_function_is_refused_with_what_to_write(self):
        with pytest.raises(TypeError, match="the replacement of database is a function that makes it: lambda: 5"):
            ToolContext(Path("/"), overrides={DependencyKey("database", object): 5})

    @pytest.mark.parametrize(
        ("create", "cached", "said"), [(5, "call", "expected a function"), (object, "ever", "cached is call or run")]
    )
    def test_a_key_that_cannot_be_used_is_refused(self, create, cached, said):
        with pytest.raises((TypeError, ValueError), match=said):
            DependencyKey("it", create, cached)

    def test_it_is_closed_when_the_run_is_cancelled(self):
        noted = []

        async def open_it():
            yield "it"
            noted.append("async closed")

        def open_other():
            yield "other"
            noted.append("closed")

        keys = [DependencyKey("it", open_it, cached="run"), DependencyKey("other", open_other)]

        async def use(ctx: ToolContext) -> str:
            """Use them until the run is cancelled."""
            assert [await ctx.resolve(key) for key in keys] == ["it", "other"]
            ctx.cancelled.set()
            await asyncio.sleep(3600)
            return ""

        with CTX.for_run() as ctx:
            assert result_of(use, ctx) == ("error", "Error executing tool: it was cancelled")
            assert noted == ["closed"]
        assert noted == ["closed", "async closed"]

    def test_it_is_closed_when_ctrl_c_ends_the_run(self):
        noted = []

        def open_it():
            yield "it"
            noted.append("closed")

        with pytest.raises(KeyboardInterrupt), CTX.for_run() as ctx:
            ctx.get(DependencyKey("it", open_it, cached="run"))
            raise KeyboardInterrupt
        assert noted == ["closed"]

    def test_what_is_created_after_the_end_of_the_run_is_closed_at_once(self):
        noted = []

        def open_it():
            with_run.close()
            yield "it"
            noted.append("closed")

        with_run = ExitStack()
        ctx = with_run.enter_context(CTX.for_run())
        with pytest.raises(ToolError, match="it was created after the end"):
            ctx.get(DependencyKey("it", open_it, cached="run"))
        assert noted == ["closed"]

    def test_what_async_code_creates_after_the_end_of_its_call_is_closed_at_once(self):
        noted = []

        async def answer():
            async def open_it():
                await with_call.aclose()
                yield "it"
                noted.append("closed")

            with_call = AsyncExitStack()
            async with CTX.for_async_run(threading.Event()) as run:
                ctx = await with_call.enter_async_context(run.for_async_call())
                with pytest.raises(ToolError, match="it was created after the end"):
                    await ctx.resolve(DependencyKey("it", open_it))

        asyncio.run(answer())
        assert noted == ["closed"]

    def test_what_a_thread_creates_by_async_code_after_the_end_of_its_call_is_closed_at_once(self):
        noted = []

        async def open_it():
            with_call.close()
            yield "it"
            noted.append("closed")

        with_call = ExitStack()
        with CTX.for_run() as run:
            ctx = with_call.enter_context(run.for_call())
            with pytest.raises(ToolError, match="it was created after the end"):
                ctx.get(DependencyKey("it", open_it))
        assert noted == ["closed"]

    def test_an_end_in_another_thread_meets_a_dependency_before_or_after_it_is_created(self):
        noted = []

        def open_it():
            yield "it"
            noted.append("closed")

        class EndsAfterFirstUse:
            """A lock behind whose first release another thread closes the scope."""

            def __init__(self, lock):
                self.lock, self.is_used = lock, False

            def __enter__(self):
                self.lock.acquire()

            def __exit__(self, *_):
                self.lock.release()
                if not self.is_used:
                    self.is_used = True
                    scope.close(lambda _: None)

        scope = Scope()
        scope.claim("it", "")
        scope._lock = EndsAfterFirstUse(threading.Lock())
        generator = open_it()
        scope.settle("it", generator, next(generator))
        assert noted == ["closed"]

    @pytest.mark.thorough
    def test_a_key_has_the_type_of_what_its_factory_yields(self, list_type_errors):
        assert list_type_errors(TYPED) == []

    def test_an_override_stands_in_by_id(self):
        key = DependencyKey("database", lambda: "real")
        with ToolContext(Path("/"), overrides={"database": lambda: "double"}).for_call() as ctx:
            assert ctx.get(key) == "double"

    def test_what_stands_behind_a_yield_runs_at_the_end_the_last_first(self):
        noted = []

        def first():
            yield "first"
            noted.append("end of first")

        async def second(ctx):
            yield ctx.get(DependencyKey("first", first, cached="run"))
            noted.append("end of second")

        key = DependencyKey("second", second, cached="run")
        with CTX.for_run() as run:
            with run.for_call() as ctx:
                assert ctx.get(key) == "first"
            assert noted == []
        assert noted == ["end of second", "end of first"]

    def test_a_call_whose_dependency_cannot_be_ended_is_an_error(self):
        def create():
            yield "file"
            raise OSError("disk full")

        key = DependencyKey("file", create)

        def use(ctx: ToolContext) -> str:
            """Use it."""
            return ctx.get(key)

        assert result_of(use) == ("error", "Error executing tool: OSError: disk full")

    def test_a_run_whose_dependency_cannot_be_ended_ends_all_the_same(self, caplog):
        def create():
            yield "file"
            raise OSError("disk full")

        with CTX.for_run() as ctx:
            ctx.get(DependencyKey("file", create, cached="run"))
        assert "disk full" in caplog.text

    def test_a_circle_is_an_error_that_shows_it(self):
        one = DependencyKey("one", lambda ctx: ctx.get(two))
        two = DependencyKey("two", lambda ctx: ctx.get(one))
        with CTX.for_call() as ctx, pytest.raises(ToolError, match="two -> one -> two"):
            ctx.get(one)

    def test_a_longer_circle_is_shown_whole(self):
        one = DependencyKey("one", lambda ctx: ctx.get(two))
        two = DependencyKey("two", lambda ctx: ctx.get(three))
        three = DependencyKey("three", lambda ctx: ctx.get(one))
        with CTX.for_call() as ctx, pytest.raises(ToolError, match="three -> one -> two -> three"):
            ctx.get(one)

    def test_what_needs_itself_is_a_circle(self):
        one = DependencyKey("one", lambda ctx: ctx.get(one))
        with CTX.for_call() as ctx, pytest.raises(ToolError, match="one -> one"):
            ctx.get(one)

    def test_what_lives_for_a_run_cannot_need_what_lives_for_a_call(self):
        short = DependencyKey("short", lambda: 1)
        long = DependencyKey("long", lambda ctx: ctx.get(short), cached="run")
        with CTX.for_call() as ctx, pytest.raises(ToolError, match="short is cached for a call, and long lives longer"):
            ctx.get(long)

    def test_a_factory_that_failed_is_tried_again(self):
        tries = []

        def create():
            tries.append(1)
            if len(tries) == 1:
                raise OSError("not yet")
            return "now"

        key = DependencyKey("it", create)
        with CTX.for_call() as ctx:
            with pytest.raises(OSError, match="not yet"):
                ctx.get(key)
            assert ctx.get(key) == "now"

    def test_an_async_factory_that_failed_is_tried_again(self):
        tries = []

        async def create():
            tries.append(1)
            if len(tries) == 1:
                raise OSError("not yet")
            return "now"

        key = DependencyKey("it", create)

        async def use(ctx: ToolContext) -> str:
            """Use it twice."""
            with pytest.raises(OSError, match="not yet"):
                await ctx.resolve(key)
            return await ctx.resolve(key)

        assert result_of(use) == ("text", "now")

    def test_async_code_that_asks_while_it_is_created_gets_the_same_one(self):
        async def create():
            await asyncio.sleep(0)
            return object()

        key = DependencyKey("it", create)

        async def use(ctx: ToolContext) -> bool:
            """Use it twice at once."""
            one, other = await asyncio.gather(ctx.resolve(key), ctx.resolve(key))
            return one is other

        assert result_of(use) == ("data", True)

    def test_async_code_cannot_get_what_is_still_created_and_is_told_how(self):
        began = asyncio.Event()

        async def create():
            began.set()
            await asyncio.sleep(0)

        key = DependencyKey("it", create)

        async def use(ctx: ToolContext) -> str:
            """Use it while it is created."""
            creating = asyncio.ensure_future(ctx.resolve(key))
            await began.wait()
            try:
                return ctx.get(key)
            finally:
                await creating

        kind, said = result_of(use)
        assert (kind, "await ctx.resolve" in said) == ("error", True)

    @pytest.mark.parametrize("is_async", [True, False])
    def test_what_stands_behind_a_second_yield_does_not_run(self, is_async):
        noted = []

        def create():
            yield "it"
            yield noted.append("second yield")
            noted.append("behind the second yield")

        async def create_async():
            for each in create():
                yield each

        key = DependencyKey("it", create_async if is_async else create)
        with CTX.for_call() as ctx:
            assert ctx.get(key) == "it"
        assert noted == ["second yield"]


class TestAsync:
    def test_an_async_tool_is_run_to_its_end(self):
        async def slow() -> str:
            """Take a while."""
            await asyncio.sleep(0.001)
            return "done"

        assert result_of(slow) == ("text", "done")

    def test_what_it_raises_is_the_error(self):
        async def failing() -> str:
            """Fail."""
            raise KeyError("k")

        assert result_of(failing) == ("error", "Error executing tool: KeyError: 'k'")

    def test_the_async_tools_of_a_run_share_a_loop(self):
        async def which() -> int:
            """Name the loop."""
            return id(asyncio.get_running_loop())

        with CTX.for_run() as ctx:
            assert result_of(which, ctx) == result_of(which, ctx)

    def test_cancelling_ends_it(self):
        ended = threading.Event()

        async def endless(ctx: ToolContext) -> str:
            """Never end."""
            ctx.cancelled.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
            return ""

        assert result_of(endless) == ("error", "Error executing tool: it was cancelled")
        assert ended.wait(PATIENCE_S)


def test_only_a_call_can_end_the_run():
    with pytest.raises(ToolError, match="this context is not that of a call"):
        CTX.end_run("All done.")


def test_a_tool_can_end_the_run():
    def finished(ctx: ToolContext) -> str:
        """End."""
        ctx.end_run("All done.")
        return "ended"

    with CTX.for_run() as ctx:
        assert ctx.wiring.running.summary is None
        assert result_of(finished, ctx) == ("text", "ended")
        assert ctx.wiring.running.summary == "All done."


def test_the_time_and_a_log_are_at_hand():
    assert CTX.clock.now() > 1e9
    assert CTX.clock.monotonic() <= CTX.clock.monotonic()
    assert CTX.logger.name == "vllm_bot.tools"
