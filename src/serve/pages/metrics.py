"""What the gateway counts, for /metrics and for the page. With several workers the counts are of all of them.

prometheus_client keeps the counts of each worker in a file of the folder PROMETHEUS_MULTIPROC_DIR.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from ...negotiation.server import OK
from ..exchange import GuardedExchange
from ..request_log import MAX_MODEL_CHARS
from .history import History

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
SHARES = (0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
_SAMPLES = ("total", "sum", "count", "running")  # the ends of their names
UNKNOWN = "unknown"  # in place of a model that has answered nothing yet
UPSTREAM_GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
MAX_LABELS = 200  # models, and keys, that are counted by their names
MANY = "other"  # all further ones
disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series, and tell when a worker began


class WrittenCounts(MultiProcessCollector):
    """The counts of all workers. A worker that is killed while it begins leaves a file without content, not read."""

    def collect(self) -> Iterable[Metric]:
        files: list[str] = []
        for path in Path(self._path).glob("*.db"):
            with suppress(FileNotFoundError):  # its worker has ended meanwhile
                if path.stat().st_size:
                    files.append(str(path))
        return self.merge(files)  # type: ignore[no-any-return, no-untyped-call]


class Metrics:
    """`folder`: see FOLDER_VARIABLE, which must be set before prometheus_client is loaded."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self._answered: set[str] = set()  # models
        self._registry = own = CollectorRegistry()
        api, call = ("model", "api"), ("model", "how", "origin")
        self._requests = Counter("vllm_bot_requests", "Guarded requests", (*api, "path", "status"), registry=own)
        self._calls = Counter("vllm_bot_calls", "Tool calls, by how they came, or lost", call, registry=own)
        self._tokens = Counter("vllm_bot_tokens", "As the server counted", ("model", "kind"), registry=own)
        self._extra = Counter("vllm_bot_extra_requests", "Besides the client's own", ("model",), registry=own)
        self._rescues = Counter("vllm_bot_rescues", "Turns asked again, by why", ("model", "why"), registry=own)
        self._guards = Counter("vllm_bot_guards", "Changes to answers, by guard", ("model", "guard"), registry=own)
        self._repetitions = Counter(
            "vllm_bot_repetitions", "Answers in which a model repeated itself without end", ("model",), registry=own
        )
        self._relayed = Counter("vllm_bot_relayed", "Requests passed on as they came", ("status",), registry=own)
        self._first = Histogram(
            "vllm_bot_first_byte_seconds", "Until the first byte", api, buckets=SECONDS, registry=own
        )
        self._total = Histogram("vllm_bot_seconds", "Time to the last byte", api, buckets=SECONDS, registry=own)
        self._kept = Histogram(
            "vllm_bot_kept_share",
            "Of the last prompt and answer that a prompt began with",
            ("model",),
            buckets=SHARES,
            registry=own,
        )
        self._broken = Counter(
            "vllm_bot_prefix_breaks", "Prompts that began otherwise, by cause", ("model", "reason"), registry=own
        )
        self._restored = Counter(
            "vllm_bot_restored", "Answers of clients that something was put back into", ("model",), registry=own
        )
        self._names: set[str] = set()  # of keys
        by_key = ("key", "status"), ("key", "how"), ("key", "kind")
        self._key_requests = Counter("vllm_bot_key_requests", "Requests by key", by_key[0], registry=own)
        self._key_calls = Counter("vllm_bot_key_calls", "Tool calls by key and how they came", by_key[1], registry=own)
        self._key_tokens = Counter("vllm_bot_key_tokens", "As the server counted, by key", by_key[2], registry=own)
        self._upstream = Counter("vllm_bot_upstream_requests", "Requests by server", ("upstream",), registry=own)
        self._restarts = Counter("vllm_bot_worker_restarts", "Workers started in place of one that ended", registry=own)
        self._running = Gauge("vllm_bot_running", "Guarded requests at work", registry=own, multiprocess_mode="livesum")

    def count_relay(self, status: int) -> None:
        self._relayed.labels(status).inc()

    def count_restart(self) -> None:
        self._restarts.inc()

    def count_request(self, entry: Mapping[str, Any], *, has_keys: bool) -> None:
        """Count what is told of each request, guarded or not. `entry`: as in the request log."""
        if entry["server"]:
            self._upstream.labels(entry["server"]).inc()
        if entry["status"] == OK and entry["model"]:
            self.history.add(entry, self._bound(self._answered, entry["model"]))
        if not has_keys:
            return
        name = self._bound(self._names, entry["key"] or UNKNOWN)
        self._key_requests.labels(name, entry["status"]).inc()
        for call in entry.get("calls", ()):
            self._key_calls.labels(name, call["how"]).inc()
        for kind, count in entry.get("tokens", {}).items():
            self._key_tokens.labels(name, kind).inc(count)

    @staticmethod
    def _bound(known: set[str], name: str) -> str:
        """The name as a label: each that is used once is kept as long as the gateway runs."""
        if name not in known and len(known) >= MAX_LABELS:
            return MANY
        known.add(name)
        return name

    @contextmanager
    def track(self, exchange: GuardedExchange, api: str) -> Iterator[None]:
        """Count a guarded request until the end of the block."""
        self._running.inc()
        try:
            yield
        finally:
            self._running.dec()
            self._count(exchange, api)

    def _count(self, exchange: GuardedExchange, api: str) -> None:
        report, model = exchange.report, self._name_model(exchange)
        self._requests.labels(model, api, report.path, exchange.status).inc()
        self._first.labels(model, api).observe(exchange.first_byte_at - exchange.began)
        self._total.labels(model, api).observe(exchange.read_clock() - exchange.began)
        self._extra.labels(model).inc(report.extra_requests)
        self._restored.labels(model).inc(report.restored)
        self._repetitions.labels(model).inc(report.repeated)
        if kept := report.kept:
            self._kept.labels(model).observe(kept.share)
        if kept and kept.cause:
            self._broken.labels(model, kept.cause).inc()
        for why in report.rescues:
            self._rescues.labels(model, why).inc()
        for guard, count in report.guards.items():
            self._guards.labels(model, guard).inc(count)
        for kind, tokens in report.tokens.items():
            self._tokens.labels(model, kind).inc(tokens)
        for call in report.calls:
            self._calls.labels(model, call.how, call.origin).inc()

    def _name_model(self, exchange: GuardedExchange) -> str:
        """One that was answered before, or is now: clients may send any names."""
        model = exchange.chat.model[:MAX_MODEL_CHARS] or UNKNOWN
        if exchange.status == OK:
            return self._bound(self._answered, model)
        if model in self._answered:
            return model
        return UNKNOWN

    def render(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._collect())

    def summarize(self) -> dict[str, list[dict[str, Any]]]:
        """What is counted by name, each as rows of labels, value, and `sample`: total, sum, count, or running."""
        summary: dict[str, list[dict[str, Any]]] = {}
        for family in self._collect().collect():
            samples = [(each, each.name.rpartition("_")[2]) for each in family.samples]
            rows = [{**each.labels, "sample": kind, "value": each.value} for each, kind in samples if kind in _SAMPLES]
            summary[family.name] = rows
        return summary

    def _collect(self) -> CollectorRegistry:
        if FOLDER_VARIABLE not in os.environ:
            return self._registry
        registry = CollectorRegistry()
        WrittenCounts(registry)  # type: ignore[no-untyped-call]
        return registry


def select_gauges(body: bytes, upstream: str) -> Iterator[str]:
    """The lines of a server's own metrics that tell its load, with the server as a label."""
    for line in body.decode(errors="replace").splitlines():
        name, brace, rest = line.partition("{")
        if name in UPSTREAM_GAUGES and brace:
            yield f'{name}{{upstream="{upstream}",{rest}'
