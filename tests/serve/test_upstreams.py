"""The servers behind the gateway, and what is known of them."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from src.app.state_files import ServerMemory
from src.negotiation.facts import ServedModel, ServerInfo
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient

ADDRESS = "http://gpu:8000/v1"
MODEL = ServedModel(ADDRESS, "m", "0.32.0")


def test_what_one_worker_learns_the_others_recall(tmp_path):
    one, other, elsewhere = (
        Replica(AsyncClient(address), ServerMemory(tmp_path)) for address in (ADDRESS, ADDRESS, "http://b:1/v1")
    )
    learned = one.facts.paths.update(MODEL, lambda path: replace(path, system_first=True, disabled_fields=("seed",)))
    one.save(MODEL)
    other.facts.paths.update(MODEL, lambda path: replace(path, mode="template"))
    for each in (other, elsewhere):
        each.recall()
    assert other.facts.paths.get(MODEL) == replace(learned, mode="template")
    assert not elsewhere.facts.paths.get(MODEL).is_learned


def test_a_server_that_fails_its_health_check_comes_last_until_it_passes_one(tmp_path):
    statuses = {"a": 200, "b": 200}

    def make_server(name):
        async def tell(_):
            return web.Response(status=statuses[name])

        app = web.Application()
        app.router.add_get("/health", tell)
        return TestServer(app)

    async def run():
        async with make_server("a") as one, make_server("b") as two:
            replicas = [Replica(AsyncClient(str(each.make_url("/v1"))), ServerMemory(tmp_path)) for each in (one, two)]
            upstreams = Upstreams(replicas)
            contents = map(str, range(64))  # few could all rank the same server first, as its port is random
            chats = [{"messages": [{"role": "user", "content": each}]} for each in contents]

            async def list_first():
                for each in replicas:
                    await each.check_health()
                return [replicas.index(upstreams.rank(chat)[0]) for chat in chats]

            usual = await list_first()
            assert set(usual) == {0, 1}
            statuses["a"] = 500
            assert await list_first() == [1] * len(chats)
            statuses["a"] = 200
            assert await list_first() == usual
            replicas[1].facts.infos.update(replicas[1].address, lambda _: ServerInfo(version="0.32.0"))
            await two.close()
            assert await list_first() == [0] * len(chats)
            assert (
                replicas[1].facts.infos.get(replicas[1].address) == ServerInfo()
            )  # it may come back as another version
            await upstreams.close()

    asyncio.run(run())


def test_a_server_with_more_than_its_share_comes_later(tmp_path):
    replicas = [Replica(AsyncClient(f"http://{name}:1/v1"), ServerMemory(tmp_path)) for name in "abcd"]
    upstreams, chat = Upstreams(replicas), {"messages": [{"role": "user", "content": "x"}]}
    usual = upstreams.rank(chat)
    for each in replicas:
        each.running = 3
    assert upstreams.rank(chat) == usual, "all have the same"
    usual[0].running = 12
    assert upstreams.rank(chat) == [*usual[1:], usual[0]]
    usual[1].is_healthy = False
    assert upstreams.rank(chat) == [*usual[2:], usual[0], usual[1]], "one that fails is the last all the same"


def test_a_slow_server_gets_less(tmp_path):
    """Both take what they are given; in a step of time one answers four times as many requests as the other."""
    slow, fast = (Replica(AsyncClient(f"http://{name}:1/v1"), ServerMemory(tmp_path)) for name in "ab")
    upstreams, given = Upstreams([slow, fast]), {slow: 0, fast: 0}
    for number in range(2000):
        first = upstreams.rank({"messages": [{"role": "user", "content": str(number)}]})[0]
        first.running += 1
        given[first] += 1
        if number % 5 == 0:
            slow.running = max(0, slow.running - 1)
            fast.running = max(0, fast.running - 4)
    assert given[slow] < 0.4 * given[fast]


def test_who_asks_whether_a_server_is_ready_asks_once_a_second(tmp_path):
    asked = []

    async def tell(_):
        asked.append(1)
        return web.Response()

    async def run():
        app = web.Application()
        app.router.add_get("/health", tell)
        async with TestServer(app) as server:
            upstreams = Upstreams([Replica(AsyncClient(str(server.make_url("/v1"))), ServerMemory(tmp_path))])
            assert await asyncio.gather(*(upstreams.check_ready() for _ in range(20))) == [True] * 20
            await upstreams.close()

    asyncio.run(run())
    assert len(asked) == 1
