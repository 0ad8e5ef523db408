import json
import stat
from pathlib import Path

import pytest

from src.cli.main import main
from src.cli.tracing.debug import Debug
from src.cli.tracing.jsonl import TraceFile
from src.errors import ConfigError, StreamCut
from src.types.events import CallFinished, CallStarted, Completed, LimitHit, ReasoningDelta, TextDelta, TurnStarted
from src.types.messages import MalformedCall, Response, ToolCall, ToolResult, Usage
from tests.doubles import ScriptedServer

KEY = "sekret-key-0123456789"
CALL = ToolCall("c1", "read", {"path": "a"}, "hermes", ("trailing comma",))


@pytest.fixture
def traced(tmp_path):
    file = tmp_path / "trace.jsonl"
    trace = TraceFile(str(file), [KEY], lambda: 12.3456)

    def run(*events, error=None):
        trace.begin({"model": "tiny"})
        for event in events:
            trace.take(event)
        trace.end(error)
        return [json.loads(line) for line in file.read_text().splitlines()]

    run.file = file
    return run


def test_each_line_says_when_and_what(traced):
    lines = traced(TurnStarted(1))
    assert [line["type"] for line in lines] == ["start", "turn", "end"]
    assert {line["time"] for line in lines} == {12.346}
    assert (lines[0]["model"], lines[1]["number"], lines[2]["error"]) == ("tiny", 1, None)


def test_pieces_are_one_line_so_that_a_secret_cut_in_two_is_known(traced):
    lines = traced(ReasoningDelta("Hm"), ReasoningDelta("."), TextDelta("It is sekret-"), TextDelta("key-0123456789."))
    assert [(line["type"], line["text"]) for line in lines[1:-1]] == [
        ("thought", "Hm."),
        ("text", "It is [redacted]."),
    ]


def test_secrets_are_redacted_wherever_they_stand(traced):
    call = ToolCall("c1", "read", {KEY: [KEY]})
    traced(CallStarted(call), CallFinished(call, ToolResult("c1", "read", "data", {"a": [f"x {KEY}"]})))
    assert KEY not in traced.file.read_text()
    assert "[redacted]" in traced.file.read_text()


def test_a_turn_tells_the_providers_own_stop_reason(traced):
    (line,) = traced(Completed(Response((), "other", provider_stop_reason="SAFETY")))[1:-1]
    assert (line["stop_reason"], line["provider_stop_reason"]) == ("other", "SAFETY")


def test_a_turn_tells_what_became_of_its_calls(traced):
    malformed = MalformedCall("c2", "read", "{", "It has no end.", "text")
    response = Response((CALL, malformed), "tool_use", Usage(7, 3), "tiny")
    (line,) = traced(Completed(response))[1:-1]
    assert (line["stop_reason"], line["input_tokens"], line["output_tokens"]) == ("tool_use", 7, 3)
    assert line["calls"] == [{"name": "read", "origin": "hermes", "repaired": ["trailing comma"], "guessed": False}]
    assert line["malformed"][0]["reason"] == "It has no end."


def test_how_it_ended(traced):
    lines = traced(LimitHit("agent.max_tool_turns"), error=StreamCut("It broke off.", "Ask again."))
    assert lines[1]["limit"] == "agent.max_tool_turns"
    assert lines[2]["error"] == "It broke off.\nAsk again."


def test_only_its_owner_may_read_it_and_it_is_appended_to(traced):
    traced()
    assert len(traced()) == 4
    assert stat.S_IMODE(traced.file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_opened_is_bad_usage(tmp_path):
    with pytest.raises(ConfigError, match="--trace: .*: Is a directory"):
        TraceFile(str(tmp_path), [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_ends_the_trace_and_nothing_else(capsys):
    trace = TraceFile("/dev/full", [])
    trace.begin({})
    trace.take(TurnStarted(1))
    trace.end(None)
    assert capsys.readouterr().err.count("The trace ends here") == 1


class Watcher:
    def __init__(self):
        self.seen = []

    def begin(self, about):
        self.seen.append(about)

    def take(self, event):
        self.seen.append(event)

    def end(self, error):
        self.seen.append(error)


class TestObserving:
    def test_an_observer_sees_the_beginning_each_event_and_the_end(self):
        debug = Debug(0)
        debug.observers = [watcher := Watcher()]
        with debug.observe({"model": "tiny"}) as observe:
            observe(TurnStarted(1))
        assert watcher.seen == [{"model": "tiny"}, TurnStarted(1), None]

    @pytest.mark.parametrize("error", [StreamCut("Cut."), KeyboardInterrupt()])
    def test_an_observer_is_told_what_ended_the_answer(self, error):
        debug = Debug(0)
        debug.observers = [watcher := Watcher()]
        with pytest.raises(type(error)), debug.observe({}):
            raise error
        assert watcher.seen == [{}, error]


def test_through_the_whole_program(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("hello\n")
    read = [{"content": 'TOOL_CALL: {"name": "read", "args": {"path": "notes.txt"}}'}, {"finish": "stop"}]
    with ScriptedServer(read, [{"content": "Hello"}, {"finish": "stop"}]) as server:
        where = ["-u", server.url, "-w", str(tmp_path), "-c", str(tmp_path / "config.json")]
        assert main([*where, "-p", "go", "--trace", str(tmp_path / "trace.jsonl")]) == 0
    types = [json.loads(line)["type"] for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert types == ["start", "turn", "completed", "call", "result", "turn", "text", "completed", "end"]
    assert capsys.readouterr().out == "Hello\n"
