"""What the gateway counts."""

from __future__ import annotations

import asyncio

from src.serve.chat_request import ChatBody
from src.serve.exchange import GuardedExchange
from src.serve.keep_alive import LiveStream
from src.serve.pages.metrics import FOLDER_VARIABLE, Metrics
from src.serve.report import LandedCall
from src.serve.turn_options import TurnOptions


def track(counts, *calls, model="m", status=200):
    """Count a request in which these calls landed. Returns the gauge of requests at work, before its end and after it."""

    async def run():
        exchange = GuardedExchange(
            None, None, ChatBody({"model": model}), {}, TurnOptions(), LiveStream(None, bytes, 0)
        )
        exchange.status = status
        exchange.report.calls += [LandedCall(name, "native", "native") for name in calls]
        with counts.track(exchange, "messages"):
            before = read_running(counts)
        return before, read_running(counts)

    return asyncio.run(run())


def read_running(counts):
    return next(line for line in counts.render().decode().splitlines() if line.startswith("vllm_bot_running "))


def test_a_request_counts_as_at_work_until_its_end(tmp_path):
    assert track(Metrics(tmp_path)) == ("vllm_bot_running 1.0", "vllm_bot_running 0.0")


def test_a_model_that_has_answered_nothing_is_not_counted_by_its_name(tmp_path):
    counts = Metrics(tmp_path)
    for model, status in (("a", 404), ("a", 200), ("a", 503), ("b", 404), ("c", 0)):
        track(counts, model=model, status=status)
    labels = [(row["model"], row["status"]) for row in counts.summarize()["vllm_bot_requests"]]
    assert sorted(labels) == [("a", "200"), ("a", "503"), ("unknown", "0"), ("unknown", "404")]


def test_a_worker_that_was_killed_while_it_began_does_not_end_the_counts(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "counter_1.db").touch()
    assert Metrics(tmp_path).render() == b""
