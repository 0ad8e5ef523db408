"""Every fault of the table through the whole program: message, exit code, kept text, requests made, bound on time."""

import json
import time

import pytest

from src.cli.main import main

from .scripts import HELLO_PARTS, stream, text
from .server import FaultServer
from .table import KEY, ROWS, fine

BOUND = 60.0  # seconds, whatever the server does, and however busy the machine
CHANCE = 0.75  # the least part of a wait that chance leaves


@pytest.fixture
def ask(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "b.txt").write_text("bravo")
    (tmp_path / "big.txt").write_text("many words\n" * 3000)

    def run(url, settings):
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"vllm": settings, "workspace": {"dir": str(tmp_path)}}))
        waits = []
        code = main(["-u", url, "-m", "tiny", "-c", str(config), "-p", "go"], waits.append)
        printed = capsys.readouterr()
        return code, printed.out, printed.err, waits

    return run


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number} {row.name}")
def test_fault(row, ask):
    with FaultServer(*row.scripts, aside=row.aside) as server:
        url = (row.url or "http://127.0.0.1:{port}/v1").format(port=server.port)
        start = time.monotonic()
        code, out, err, waits = ask(url, row.settings)
        took = time.monotonic() - start
    assert "Traceback" not in err
    assert "Unexpected" not in err
    assert KEY not in err
    assert [each for each in row.said if each not in err] == [], err
    assert (code, out) == (row.code, row.out), err
    assert not (row.silent and err), err
    assert len(server.requests) == row.requests
    assert waits == [pytest.approx(wait * (1 + CHANCE) / 2, rel=1 - CHANCE) for wait in row.waits]
    assert took < BOUND


def test_one_line_of_20_mb_is_read(ask):
    long = "".join(f"{number} and so on, and on; " for number in range(800_000))[:20_000_000].strip()
    test_fault(fine(44, "one line of 20 MB", stream(text(long), *HELLO_PARTS[3:]), out=f"{long}\n"), ask)


@pytest.mark.parametrize("row", [row for row in ROWS if row.traced], ids=lambda row: row.name)
def test_what_is_passed_over_can_be_traced(row, ask, monkeypatch):
    monkeypatch.setenv("DEBUG", "1")
    with FaultServer(*row.scripts) as server:
        *_, err, _ = ask(f"http://127.0.0.1:{server.port}/v1", row.settings)
    assert [each for each in row.traced if each not in err] == [], err
