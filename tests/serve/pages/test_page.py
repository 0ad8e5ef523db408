"""The page at /, in headless Chromium. Skipped without playwright and a chromium on PATH."""

from __future__ import annotations

import shutil

import pytest

from tests.serve.test_gateway import BODY, CALL, MALFORMED, ask, drive, say

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium on PATH")


def test_calls_are_shown_as_they_land(tmp_path):
    usage = {"prompt_tokens": 123, "completion_tokens": 20, "total_tokens": 143}
    answers = iter([CALL, MALFORMED, CALL])

    async def use(client, _):
        async with playwright.async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1100, "height": 1000})
            problems = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            await page.goto(str(client.make_url("/")), wait_until="domcontentloaded")
            wait = playwright.expect
            await wait(page.locator("#state")).to_have_text("0 requests at work.")
            await wait(page.locator("#calls")).to_contain_text("none yet")

            await ask(client, BODY)
            await wait(page.locator("#calls tr")).to_have_count(2)  # the head, and one without a reload
            await wait(page.locator("#calls tr").nth(1)).to_have_text("readtexthermesmchat/completions")
            await ask(client, BODY)  # a call that cannot be read, and the one that is asked for
            await wait(page.locator("#calls tr")).to_have_count(3)
            await wait(page.locator("#calls tr").nth(1)).to_contain_text("repaired")
            await wait(page.locator("#requests tr").nth(1)).to_have_text("mchat/completionsnative2002")
            await wait(page.locator("#sums")).to_contain_text("246prompt tokens")
            await wait(page.locator("#models tr").nth(1)).to_contain_text(" s")
            await page.screenshot(path=tmp_path / "page.png", full_page=True)
            await browser.close()
            assert problems == []

    drive(tmp_path, lambda _: {**say(next(answers)), "usage": usage}, use)
