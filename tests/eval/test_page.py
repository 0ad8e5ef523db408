"""report.html is one file without a script; each run that was not clean opens to what was sent and read.

The test in headless Chromium is skipped without playwright and a chromium on PATH.
"""

from __future__ import annotations

import re
import shutil

import pytest

from src.eval.advice import EvalAdvice
from src.eval.outcomes import HttpExchange
from src.eval.page import write_page

from .runs import CASES, PATHS, make_search, right, wrong

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SENT = HttpExchange("chat/completions", '{"messages": ["<b>hello</b>"]}', 200, 'data: {"delta": "raw & more"}')


@pytest.fixture
def page(tmp_path):
    def run(arm, case, seed):
        if arm.name == "template":
            return wrong(arm, case, seed, why="expected look()", exchanges=(SENT,), read=({"type": "response"},))
        return right(arm, case, seed)

    search = make_search(run)
    search.find_best(PATHS)
    advice = EvalAdvice("Set vllm.stream = false", {"vllm.stream": False}, why=("It is so.",))
    return write_page(tmp_path, search, advice, CASES, {"model": "tiny <1>"})


def test_it_needs_no_network_and_runs_no_script(page):
    text = page.read_text()
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"?(https?:)?//", text)


def test_what_was_said_is_text_and_no_markup(page):
    text = page.read_text()
    assert "&lt;b&gt;hello&lt;/b&gt;" in text
    assert "raw &amp; more" in text
    assert "tiny &lt;1&gt;" in text


def test_each_square_that_is_not_clean_leads_to_a_run(page):
    text = page.read_text()
    targets = re.findall(r'<a href="#([^"]+)"', text)
    assert len(targets) == 8
    assert set(targets) <= set(re.findall(r'<details id="([^"]+)"', text))


def test_in_a_browser_each_run_opens_in_light_and_dark(page):
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if not CHROMIUM:
        pytest.skip("needs chromium on PATH")
    problems = []
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(color_scheme=scheme)
            tab.on("pageerror", lambda error: problems.append(str(error)))
            tab.on("console", lambda message: problems.append(message.text))
            tab.goto(page.as_uri())
            runs = tab.locator("body > details")
            assert runs.count() == 8
            for at in range(runs.count()):
                runs.nth(at).locator("summary").first.click()
                for inner in runs.nth(at).locator("details").all():
                    inner.locator("summary").click()
                    assert inner.locator("pre").is_visible()
            tab.screenshot(path=page.with_name(f"{scheme}.png"))
        browser.close()
    assert problems == []
