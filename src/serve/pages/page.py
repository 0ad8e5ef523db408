"""The gateway's own pages: / with what it does now, /metrics for Prometheus, and the events that feed the first."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from aiohttp import web

from ...errors import BotError
from ..upstreams import Upstreams
from .metrics import Metrics, select_gauges

EVENTS_PATH = "/vllm-bot/events"
INTERVAL_S = 1.0
METRICS_TIMEOUT_S = 3.0
PAGE = Path(__file__).with_name("page.html")


class Pages:
    """What can be looked at."""

    def __init__(self, metrics: Metrics, upstreams: Upstreams) -> None:
        self._metrics = metrics
        self._upstreams = upstreams

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/", self.show)
        app.router.add_get("/metrics", self.show_metrics)
        app.router.add_get(EVENTS_PATH, self.stream_events)

    async def show(self, _: web.Request) -> web.Response:
        return web.Response(text=PAGE.read_text(encoding="utf-8"), content_type="text/html")

    async def show_metrics(self, _: web.Request) -> web.Response:
        """The gateway's, and the load of each server."""
        texts = await asyncio.gather(*(self._read_load(each) for each in range(len(self._upstreams.replicas))))
        body = self._metrics.render() + "".join(texts).encode()
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _read_load(self, index: int) -> str:
        replica = self._upstreams.replicas[index]
        try:
            reply = await replica.client.open("GET", "/metrics", within=METRICS_TIMEOUT_S)
            body = await reply.read_all()
            await reply.release()
        except BotError:
            return ""
        return "".join(f"{line}\n" for line in select_gauges(body, replica.root))

    async def stream_events(self, request: web.Request) -> web.StreamResponse:
        """Every second the counts, and what came since to the last hour and to the last calls."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        history, number, since = self._metrics.history, 0, 0
        while True:
            number, calls = history.read_calls(number)
            minutes, minute = history.read_minutes(since), history.minute
            since = minute - 1  # which a slow request may still have come to
            servers = [{"address": each.root, "healthy": each.is_healthy} for each in self._upstreams.replicas]
            event = {
                "counts": self._metrics.summarize(),
                "calls": calls,
                "minutes": minutes,
                "minute": minute,
                "servers": servers,
            }
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
            await asyncio.sleep(INTERVAL_S)
