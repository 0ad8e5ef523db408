"""What the gateway counts."""

from __future__ import annotations

import asyncio

from src.serve.chat_request import ChatBody
from src.serve.exchange import GuardedExchange
from src.serve.keep_alive import LiveStream
from src.serve.pages import metrics
from src.serve.pages.metrics import Metrics
from src.serve.report import LandedCall


def track(counts, *calls, model="m", status=200):
    """Count a request in which these calls landed. Returns the gauge of requests at work, before its end and after it."""

    async def run():
        exchange = GuardedExchange(None, None, ChatBody({"model": model}), {}, 1, LiveStream(None, bytes, 0))
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


def test_the_file_of_the_last_calls_stays_small_and_is_read_on_from_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_CALLS_BYTES", 150)
    counts = Metrics(tmp_path)
    assert counts.read_calls(0) == (0, [])
    track(counts, "one", "two")
    position, calls = counts.read_calls(0)
    assert [call["name"] for call in calls] == ["one", "two"]
    assert counts.read_calls(position) == (position, [])
    track(counts, "three")  # the file is begun anew
    _, calls = counts.read_calls(position)
    assert [call["name"] for call in calls] == ["three"]
    assert [call["name"] for call in counts.read_calls(0)[1]] == ["three"]


def test_a_model_that_has_answered_nothing_is_not_counted_by_its_name(tmp_path):
    counts = Metrics(tmp_path)
    for model, status in (("a", 404), ("a", 200), ("a", 503), ("b", 404), ("c", 0)):
        track(counts, model=model, status=status)
    labels = [(row["model"], row["status"]) for row in counts.summarize()["vllm_bot_requests"]]
    assert sorted(labels) == [("a", "200"), ("a", "503"), ("unknown", "0"), ("unknown", "404")]
