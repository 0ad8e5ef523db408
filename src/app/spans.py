"""OpenTelemetry spans with the GenAI semantic conventions.

One `invoke_agent` a question; in it a `chat` for each turn of the model and an `execute_tool` for each call.
No span holds messages or arguments: the conventions leave those to an opt-in. The command line makes a tracer as the
environment says. The library uses that of the program around it, if it has loaded OpenTelemetry.
Names: semantic conventions 1.41, gen-ai-spans and gen-ai-agent-spans (status: development).
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from functools import partial
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind, Status, StatusCode, get_tracer, set_span_in_context

from ..errors import BotError
from ..types.events import CallDenied, CallFinished, CallStarted, Completed, Event, TurnStarted

AGENT = "vllm-bot"
PROVIDERS = {"gemini": "gcp.gemini", "vertex": "gcp.vertex_ai"}  # where the conventions' name is not ours
FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
REQUEST_SETTINGS = (
    "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "max_tokens",
)  # fmt: skip
EXIT_TIMEOUT_S = 1.0  # for the last spans to be sent


def make_tracer(environ: Mapping[str, str], version: str) -> Any:
    """A tracer that exports as the environment says. Raises ImportError where what it takes is not installed."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": AGENT}
    resource = Resource.create({**named, "service.version": version})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    if environ.get("OTEL_TRACES_EXPORTER") == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(partial(_shut_down, provider))
    return provider.get_tracer(AGENT, version)


def _shut_down(provider: Any) -> None:
    """Send the last spans. A collector that does not answer delays the exit by EXIT_TIMEOUT_S at most."""
    thread = Thread(target=provider.shutdown, daemon=True)
    thread.start()
    thread.join(EXIT_TIMEOUT_S)


def make_library_spans(request: Mapping[str, Any]) -> Spans:
    """Spans for the tracer provider of the program around the library; it records nothing if there is none."""
    return Spans(get_tracer(AGENT), request)


class Spans:
    """An Observer, see src/cli/tracing/jsonl.py.

    `tracer` is OpenTelemetry's. `request` has `stream`, `stop` and the settings of each request by the names of
    REQUEST_SETTINGS; those that are None are left to the server.
    """

    def __init__(self, tracer: Any, request: Mapping[str, Any], version: str = "") -> None:
        self._tracer = tracer
        self._version = version
        self._request = _list_request_attributes(request)
        self._about: Mapping[str, str] = {}
        self._agent: Any = None
        self._chat: Any = None
        self._tools: dict[str, Any] = {}

    def begin(self, about: Mapping[str, str]) -> None:
        self._about = about
        self._agent = self._tracer.start_span(f"invoke_agent {AGENT}", kind=SpanKind.INTERNAL)
        attributes = {"gen_ai.agent.version": self._version, "gen_ai.conversation.id": about.get("session")}
        self._agent.set_attributes(
            self._list_attributes("invoke_agent")
            | {"gen_ai.agent.name": AGENT}
            | {name: value for name, value in attributes.items() if value}
        )

    def take(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._begin_chat()
        elif isinstance(event, Completed):
            self._end_chat(event)
        elif isinstance(event, (CallStarted, CallDenied)):
            self._tools[event.call.id] = self._begin_tool(event.call.id, event.call.name)
        elif isinstance(event, CallFinished):
            result = event.result
            span = self._tools.pop(event.call.id, None) or self._begin_tool(event.call.id, result.name)
            if result.kind == "error":
                span.set_attribute("error.type", "denied" if result.is_denied else "tool_error")
                span.set_status(StatusCode.ERROR)
            span.end()

    def end(self, error: BaseException | None) -> None:
        for span in (*self._tools.values(), self._chat, self._agent):
            if span is not None:
                if error is not None:
                    _fail(span, error)
                span.end()
        self._tools, self._chat, self._agent = {}, None, None

    def _begin_chat(self) -> None:
        model = self._about.get("model", "")
        if self._chat is not None:  # a turn that was asked for once more
            self._chat.end()
        self._chat = self._start_child(f"chat {model}", SpanKind.CLIENT)
        server = urlsplit(self._about.get("server", ""))
        self._chat.set_attributes(
            self._list_attributes("chat") | {"server.address": server.hostname or "", **self._request}
        )
        if server.port:
            self._chat.set_attribute("server.port", server.port)

    def _end_chat(self, event: Completed) -> None:
        response, span = event.response, self._chat
        if span is None:
            return
        reason = response.provider_stop_reason or FINISH.get(response.stop_reason, response.stop_reason)
        span.set_attribute("gen_ai.response.finish_reasons", [reason])
        if response.id:
            span.set_attribute("gen_ai.response.id", response.id)
        if response.model:
            span.set_attribute("gen_ai.response.model", response.model)
        if response.usage:
            span.set_attribute("gen_ai.usage.input_tokens", response.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", response.usage.output_tokens)
        span.end()
        self._chat = None

    def _begin_tool(self, call_id: str, name: str) -> Any:
        span = self._start_child(f"execute_tool {name}", SpanKind.INTERNAL)
        span.set_attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.type": "function",
            }
        )
        return span

    def _start_child(self, name: str, kind: Any) -> Any:
        return self._tracer.start_span(name, set_span_in_context(self._agent), kind=kind)

    def _list_attributes(self, operation: str) -> dict[str, Any]:
        provider = self._about.get("provider", "")
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDERS.get(provider, provider),
            "gen_ai.request.model": self._about.get("model", ""),
        }


def _list_request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    stop = request.get("stop")
    if isinstance(stop, str):
        stop = [stop]
    fields = {"stream": bool(request.get("stream")), **{name: request.get(name) for name in REQUEST_SETTINGS}}
    if stop:
        fields["stop_sequences"] = list(stop)
    return {f"gen_ai.request.{name}": value for name, value in fields.items() if value is not None}


def _fail(span: Any, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__name__)
    message = error.message if isinstance(error, BotError) else ""
    span.set_status(Status(StatusCode.ERROR, message))
