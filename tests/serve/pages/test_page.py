"""The page at /, in headless Chromium. Skipped without playwright and a chromium on PATH."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer

from src.app.state_files import ServerMemory
from src.serve.chat_request import ChatBody
from src.serve.exchange import GuardedExchange
from src.serve.gateway import Gateway
from src.serve.keep_alive import LiveStream
from src.serve.pages.history import History
from src.serve.pages.metrics import Metrics
from src.serve.report import LandedCall
from src.serve.request_log import RequestRecord
from src.serve.turn_options import TurnOptions
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from src.types.messages import Usage
from tests.serve.test_gateway import BODY, CALL, MALFORMED, ask, drive, say

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium on PATH")
TIME = re.compile(r"\d\d:\d\d:\d\d")
HOW = {"native": 60, "text": 25, "recovered": 8, "repaired": 5, "lost": 2}  # and how often of a hundred


@asynccontextmanager
async def open_page(address, **options):
    """The page in a browser, and the list of what went wrong in it."""
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1100, "height": 1000}, **options)
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        await page.goto(str(address), wait_until="domcontentloaded")
        yield page, problems
        await browser.close()


def test_calls_are_shown_as_they_land(tmp_path):
    usage = {"prompt_tokens": 123, "completion_tokens": 20, "total_tokens": 143}
    answers = iter([CALL, MALFORMED, CALL])

    async def use(client, _):
        async with open_page(client.make_url("/")) as (page, problems):
            wait = playwright.expect
            await wait(page.locator("#state")).to_have_text("0 requests at work.")
            await wait(page.locator("#calls")).to_contain_text("none yet")
            await wait(page.locator("#charts")).to_have_text("none yet")

            await ask(client, BODY)
            rows = page.locator("#calls details")
            await wait(rows).to_have_count(1)  # without a reload
            await wait(rows.first.locator("summary span")).to_have_text([TIME, "read", "text", "hermes", "m", "–"])
            await rows.first.locator("summary").click()
            await wait(rows.first.locator("dl")).to_contain_text("APIchat/completionspathnative")

            await ask(client, BODY)  # a call that cannot be read, and the one that is asked for
            await wait(rows).to_have_count(2)
            await wait(rows.first.locator("summary")).to_contain_text("repaired")
            assert await rows.nth(1).get_attribute("open") is not None, "what is open stays open"
            await wait(page.locator("#requests tr").nth(1)).to_have_text("mchat/completionsnative2002")
            await wait(page.locator("#sums")).to_contain_text("246prompt tokens")
            await wait(page.locator("#models tr")).to_have_count(2)  # the head, and one for a model
            await wait(page.locator("#charts figcaption")).to_have_text("m: 1 text, 1 repaired")
            assert problems == []

    drive(tmp_path, lambda _: {**say(next(answers)), "usage": usage}, use)


def fill(metrics, folder, calls):
    """An hour of requests with so many calls, of two models."""
    chance, now = random.Random(1), time.time()
    clock = [now]
    metrics.history = History(folder, lambda: clock[0])
    for moment in sorted(now - 3400 * chance.random() for _ in range(calls)):
        model = chance.choices(["Qwen/Qwen3-32B", "moonshotai/Kimi-K2"], [3, 1])[0]
        exchange = GuardedExchange(
            None, None, ChatBody({"model": model}), {}, TurnOptions(), LiveStream(None, bytes, 0)
        )
        exchange.status, exchange.report.path = 200, "native"
        exchange.first_byte_at += chance.lognormvariate(-1, 0.5)
        prompt = chance.randint(2000, 40000)
        exchange.report.usage = Usage(prompt, 80, int(prompt * chance.betavariate(8, 1)))
        how = chance.choices(list(HOW), list(HOW.values()))[0]
        exchange.report.calls = [LandedCall(chance.choice(["read", "edit", "exec"]), how, "hermes")]
        with metrics.track(exchange, "messages"):
            record = RequestRecord("7c0e2f9d", "messages", chance.choice(["team a", "ci"]), model, True, status=200)
        record.exchange = exchange
        clock[0] = moment
        metrics.count_request({**record.to_entry(), "seconds": 2.4, "server": "http://gpu:8000"}, has_keys=True)
    clock[0] = now


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_thousand_calls_of_an_hour_are_drawn_without_an_error(tmp_path, scheme):
    async def run():
        metrics = Metrics(tmp_path)
        fill(metrics, tmp_path, 5000)
        upstreams = Upstreams([Replica(AsyncClient("http://127.0.0.1:9/v1"), ServerMemory(tmp_path))])
        async with (
            TestClient(TestServer(Gateway(upstreams, metrics).make_app())) as client,
            open_page(client.make_url("/"), color_scheme=scheme) as (page, problems),
        ):
            wait = playwright.expect
            await wait(page.locator("#charts figure")).to_have_count(2)
            await wait(page.locator("#calls details")).to_have_count(50)
            captions = " ".join(await page.locator("#charts figcaption").all_inner_texts())
            counts = [int(word.replace(",", "")) for word in captions.split() if word.replace(",", "").isdecimal()]
            assert sum(counts) == 5000
            assert await page.locator("#charts svg:first-of-type g").count() > 100  # columns
            await page.locator("#calls details summary").first.click()
            await page.screenshot(path=tmp_path / f"page-{scheme}.png", full_page=True)
            assert problems == []

    asyncio.run(run())
