"""Spans as OpenTelemetry's own in-memory exporter gets them."""

import json
import os
import socket
import subprocess
import sys

import pytest

from src.cli.main import main
from src.cli.oneshot.run import wants_spans
from src.errors import StreamCut
from src.types.events import CallDenied, CallFinished, CallStarted, Completed, TurnStarted
from src.types.messages import Response, Text, ToolCall, ToolResult, Usage
from tests.doubles import ScriptedServer
from tests.each import check_rows
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

CALL = ToolCall("c1", "read", {"path": "secret.txt"})
ABOUT = {"server": "http://gpu:8000/v1", "provider": "vllm", "model": "tiny", "workspace": "/w", "session": "s1"}
ASKED = Completed(Response((CALL,), "tool_use", Usage(7, 3), "tiny-v2", id="chatcmpl-1"))
REQUEST = {"stream": True, "temperature": 0.5, "max_tokens": None, "api_key": "secret", "stop": "END"}
ANSWERED = Completed(Response((Text("Hello"),), "end_turn"))


def finished(kind="text", *, is_denied=False):
    return CallFinished(CALL, ToolResult("c1", "read", kind, "hello", is_denied=is_denied))


@pytest.fixture
def spans():
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from src.app.spans import Spans

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def run(*events, error=None):
        watcher = Spans(provider.get_tracer("test"), REQUEST, "1.0")
        watcher.begin(ABOUT)
        for event in events:
            watcher.take(event)
        watcher.end(error)
        return {span.name: span for span in exporter.get_finished_spans()}

    yield run
    provider.shutdown()


def test_a_sampler_that_takes_none_breaks_no_turn():
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    from src.app.spans import Spans

    watcher = Spans(TracerProvider(sampler=ALWAYS_OFF).get_tracer("test"), {})
    watcher.begin(ABOUT)
    for event in (TurnStarted(1), ASKED, CallDenied(CALL, "no"), finished("error"), TurnStarted(2), ANSWERED):
        watcher.take(event)
    watcher.end(None)


EVENTS = (TurnStarted(1), ASKED, CallStarted(CALL), finished(), TurnStarted(2), ANSWERED)


def test_one_for_the_question_and_in_it_one_for_each_turn_and_call(spans):
    found = spans(*EVENTS)
    root = found["invoke_agent vllm-bot"]
    assert root.parent is None
    assert {name for name, span in found.items() if span.parent} == {"chat tiny", "execute_tool read"}
    assert {span.parent.span_id for span in found.values() if span.parent} == {root.context.span_id}


def test_a_turn_has_the_providers_own_stop_reason(spans):
    chat = spans(TurnStarted(1), Completed(Response((), "other", provider_stop_reason="content_filter")))["chat tiny"]
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("content_filter",)


def test_a_turn_has_the_attributes_of_the_conventions(spans):
    chat = dict(spans(TurnStarted(1), ASKED)["chat tiny"].attributes)
    assert chat == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "tiny-v2",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "server.address": "gpu",
        "server.port": 8000,
    }


def test_the_question_has_its_conversation(spans):
    agent = spans(*EVENTS)["invoke_agent vllm-bot"].attributes
    assert (agent["gen_ai.agent.name"], agent["gen_ai.conversation.id"]) == ("vllm-bot", "s1")


def test_a_call_has_its_name_and_id_and_nothing_of_what_it_was_made_with(spans):
    tool = dict(spans(*EVENTS)["execute_tool read"].attributes)
    assert tool == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
    }


@pytest.mark.parametrize(("before", "kind"), [(CallStarted(CALL), "tool_error"), (CallDenied(CALL, "no"), "denied")])
def test_a_call_that_failed_says_how(spans, before, kind):
    after = finished("error", is_denied=isinstance(before, CallDenied))
    tool = spans(TurnStarted(1), ASKED, before, after)["execute_tool read"]
    assert (tool.attributes["error.type"], tool.status.is_ok) == (kind, False)


def test_an_error_ends_what_is_open_and_is_named(spans):
    found = spans(TurnStarted(1), error=StreamCut("It broke off."))
    assert {span.attributes["error.type"] for span in found.values()} == {"StreamCut"}
    assert found["chat tiny"].status.description == "It broke off."


def test_the_attributes_are_those_of_the_conventions(spans):
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for value in vars(attributes).values() if isinstance(value, str)}
    used = {name for span in spans(*EVENTS).values() for name in span.attributes if name.startswith("gen_ai.")}
    assert used - known - {"gen_ai.agent.version", "gen_ai.request.stream"} == set()


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_is_not_streamed_says_so(tmp_path, stream, capfd):
    pytest.importorskip("opentelemetry.sdk")
    (tmp_path / "config.json").write_text(json.dumps({"vllm": {"stream": stream}}))
    with ScriptedServer([{"content": "Hello"}, {"finish": "stop"}]) as server:
        printed = run_program(tmp_path, server.url, {"OTEL_TRACES_EXPORTER": "console"})
    assert f'"gen_ai.request.stream": {json.dumps(stream)}' in printed.stderr


def run_program(folder, url, environ):
    command = [sys.executable, str(ROOT / "cli.py"), "-u", url, "-c", str(folder / "config.json"), "-p", "go"]
    environ = {**os.environ, "XDG_STATE_HOME": str(folder), **environ}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environ, check=True)


def test_a_collector_that_does_not_answer_delays_nothing_for_long_and_says_nothing(tmp_path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    (tmp_path / "config.json").write_text("{}")
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        ScriptedServer([{"content": "Hi"}, {"finish": "stop"}]) as server,
    ):
        collector = f"http://127.0.0.1:{silent.getsockname()[1]}"
        printed = run_program(tmp_path, server.url, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector})
    assert (printed.stdout, printed.stderr) == ("Hi\n", "")


class TestTheLibrary:
    """A program that has set a tracer provider gets the spans of its agents."""

    PROGRAM = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from src import Server
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with Server(sys.argv[1]) as server, trace.get_tracer("mine").start_as_current_span("request"):
    agent = server.agent(temperature=0.5, top_p=0.9)
    if "leave" in sys.argv:
        for event in agent.ask("go"):
            break
    else:
        agent.answer("go")
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""

    def spans(self, *words):
        pytest.importorskip("opentelemetry.sdk")
        with ScriptedServer([{"content": "Hello"}, {"finish": "stop"}]) as server:
            command = [sys.executable, "-c", self.PROGRAM, server.url, *words]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return {span["name"]: span for span in json.loads(done.stdout)}

    def test_they_stand_in_the_span_of_the_program(self):
        found = self.spans()
        assert list(found) == ["chat tiny", "invoke_agent vllm-bot", "request"]
        assert found["invoke_agent vllm-bot"]["parent_id"] == found["request"]["context"]["span_id"]
        attributes = found["chat tiny"]["attributes"]
        assert (attributes["gen_ai.request.temperature"], attributes["gen_ai.request.top_p"]) == (0.5, 0.9)

    def test_a_run_that_is_left_ends_them(self):
        assert self.spans("leave")["invoke_agent vllm-bot"]["attributes"]["error.type"] == "GeneratorExit"

    def test_a_program_without_opentelemetry_does_not_load_it(self):
        code = "import sys; from src import Server; Server('http://127.0.0.1:9/v1').agent(); assert not [name for name in sys.modules if 'opentel' in name]"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


class TestWhetherTheyAreWanted:
    @check_rows(
        "environ, wanted",
        [
            ({}, False),
            ({"OTEL_SERVICE_NAME": "x"}, False),
            ({"OTEL_TRACES_EXPORTER": "console"}, True),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
            ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ],
    )
    def test_the_environment_says_so(self, environ, wanted):
        assert wants_spans(environ) == wanted

    def test_without_the_sdk_one_line_says_what_to_install(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
        monkeypatch.delitem(sys.modules, "src.app.spans", raising=False)
        (tmp_path / "config.json").write_text("{}")
        with ScriptedServer([{"content": "Hello"}, {"finish": "stop"}]) as server:
            assert main(["-u", server.url, "-c", str(tmp_path / "config.json"), "-p", "go"]) == 0
        printed = capsys.readouterr()
        assert printed.out == "Hello\n"
        assert "pip install 'vllm-bot[otel]'" in printed.err

    def test_the_console_exporter_prints_them(self, capsys):
        pytest.importorskip("opentelemetry.sdk")
        from src.app.spans import Spans, make_tracer

        watcher = Spans(make_tracer({"OTEL_TRACES_EXPORTER": "console"}, "1.0"), {})
        watcher.begin(ABOUT)
        watcher.end(None)
        assert "invoke_agent vllm-bot" in capsys.readouterr().err
