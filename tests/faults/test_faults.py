"""Every fault of the table through the whole program: message, exit code, kept text, requests made.

A row is asked with one of the two drivers, in turns; `--hypothesis-profile many` asks each with both.
"""

import json

import pytest

from src.cli.main import main
from tests.thorough import is_thorough, sample, take_turns
from tests.waiting import try_clocks

from .scripts import HELLO_PARTS, stream, text
from .server import FaultServer
from .table import KEY, ROWS, fine, served

LONG_BYTES = 20_000_000 if is_thorough() else 500_000  # an event may have 64 MB
# aiohttp drops what came in one piece with it.
LOST_BY_AIOHTTP = {"bad chunk header"}
CHANCE = 0.75  # the least part of a wait that chance leaves
DRIVERS = ("threads", "asyncio")
CASES = take_turns(sample(ROWS, 2), DRIVERS)  # the others in test_gateway.py


@pytest.fixture(params=DRIVERS)
def driver(request, monkeypatch):
    """Both drivers of the model's turns."""
    if request.param == "threads":
        yield request.param
        return
    pytest.importorskip("aiohttp")
    from tests.bridge import bridging

    with bridging(monkeypatch):
        yield request.param


@pytest.fixture
def ask(tmp_path, capsys, driver):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "b.txt").write_text("bravo")
    (tmp_path / "big.txt").write_text("many words\n" * 3000)

    def run(url, settings):
        config = tmp_path / "config.json"
        config.write_text(
            json.dumps({"vllm": settings, "workspace": {"dir": str(tmp_path)}, "security": {"sandbox": "off"}})
        )
        waits = []
        code = main(["-u", url, "-m", "tiny", "-c", str(config), "-p", "go"], waits.append)
        printed = capsys.readouterr()
        return code, printed.out, printed.err, waits

    return run


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("row", "driver"), CASES, ids=[f"{row.number} {row.name}, {name}" for row, name in CASES], indirect=["driver"]
)
def test_fault(row, ask, driver):
    if row.has_clock:
        try_clocks(lambda factor: check_fault(row.slow_clocks(factor), ask, driver))
    else:
        check_fault(row, ask, driver)


def check_fault(row, ask, driver):
    with FaultServer(*row.scripts, aside=row.aside) as server:
        url = (row.url or "http://127.0.0.1:{port}/v1").format(port=server.port)
        code, out, err, waits = ask(url, row.settings)
    assert "Traceback" not in err
    assert "Unexpected" not in err
    assert KEY not in err
    assert [each for each in row.said if each not in err] == [], err
    if driver == "asyncio" and row.name in LOST_BY_AIOHTTP:  # and so it is asked again
        assert (code, out) == (row.code, ""), err
        return
    assert (code, out) == (row.code, row.out), err
    assert not (row.silent and err), err
    assert len(server.requests) == row.requests
    assert waits == [pytest.approx(wait * (1 + CHANCE) / 2, rel=1 - CHANCE) for wait in row.waits]


@pytest.mark.thorough
def test_one_line_of_20_mb_is_read(ask, driver):
    """With few examples, one of 500 kB."""
    words = (f"{number} and so on, and on; " for number in range(LONG_BYTES // 25))
    long = "".join(words)[:LONG_BYTES].strip()
    notice = ("more than 2,000,000 characters",) if is_thorough() else ()  # of which so much is saved at once
    script, models = stream(text(long), *HELLO_PARTS[3:]), {"/v1/models": served("tiny", length=4_000_000)}
    check_fault(fine(44, "one long line", script, out=f"{long}\n", said=notice, aside=models), ask, driver)


@pytest.mark.parametrize("row", [row for row in ROWS if row.traced], ids=lambda row: row.name)
def test_what_is_passed_over_can_be_traced(row, ask, monkeypatch):
    monkeypatch.setenv("DEBUG", "1")
    with FaultServer(*row.scripts) as server:
        *_, err, _ = ask(f"http://127.0.0.1:{server.port}/v1", row.settings)
    assert [each for each in row.traced if each not in err] == [], err
