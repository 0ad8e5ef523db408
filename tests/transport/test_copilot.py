"""The Copilot CLI's sessions behind a model, played by a program that speaks its protocol (copilot_double.py).

tests/live/test_copilot.py does the same with the real CLI.
"""

from __future__ import annotations

import json
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from src.app.model import Model
from src.errors import (
    Cancelled,
    ClientError,
    ConfigError,
    ContextTooLong,
    ServerError,
    StreamCut,
    Timeout,
    Unauthorized,
)
from src.providers.copilot import CopilotCodec
from src.transport import Timeouts
from src.transport.copilot import CopilotClient
from src.types.events import Completed, TextDelta
from src.types.messages import (
    Message,
    Response,
    SystemMessage,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.doubles import make_core
from tests.waiting import PATIENCE_S, wait_until

ADD = ToolDefinition("add", "Add", {"type": "object", "properties": {"a": {"type": "number"}}})
CALLS = [("c1", "add", {"a": 1}), ("c2", "add", {"a": 2})]
URL = "http://127.0.0.1:9/v1"


class Double(NamedTuple):
    """The CLI's stand-in with its script, and the folder for temporary files."""

    script: Path
    folder: Path

    def write(self, *turns: dict[str, Any], **more: Any) -> None:
        self.script.write_text(json.dumps({"turns": turns, **more}))

    @property
    def received(self) -> list[dict[str, Any]]:
        log = self.script.with_suffix(".log")
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def list_params(self, method: str) -> list[dict[str, Any]]:
        return [each["params"] for each in self.received if each.get("method") == method]

    @property
    def leftovers(self) -> list[Path]:
        return list(self.folder.glob("vllm-bot-copilot-*"))


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    program = tmp_path / "copilot"
    source = Path(__file__).with_name("copilot_double.py").read_text().partition("\n")[2]
    program.write_text(f"#!{sys.executable} -IS\n{source}")  # -IS: it starts in a third of the time
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    made = Double(tmp_path / "script.json", tmp_path / "temporary")
    made.folder.mkdir()
    monkeypatch.setenv("COPILOT_CLI_PATH", str(program))
    monkeypatch.setenv("COPILOT_DOUBLE", str(made.script))
    monkeypatch.setattr(tempfile, "tempdir", str(made.folder))
    yield made


def make_model(*, is_service: bool = False, **client: Any) -> Model:
    made = CopilotClient(URL, is_service=is_service, **client)
    return Model(made, make_core(URL, "tiny", codec=CopilotCodec(lambda: "made"), is_vllm=False))


def ask(model: Model, *messages: Message) -> Response:
    last = list(model.respond(messages, [ADD]))[-1]
    assert isinstance(last, Completed)
    return last.response


def give(response: Response, *texts: str, denied: str = "") -> ToolResults:
    """A result for each call; the one whose id is `denied` was denied."""
    results = (
        ToolResult(call.id, call.name, "error" if call.id == denied else "text", text, is_denied=call.id == denied)
        for call, text in zip(response.calls, texts, strict=True)
    )
    return ToolResults(tuple(results))


def test_results_go_on_with_the_session_and_so_does_the_next_question(double: Double) -> None:
    double.write({"text": ["Let me ", "see."], "calls": CALLS}, {"text": ["3"]}, {"text": ["4"]})
    said: list[Message] = [SystemMessage("Be brief."), UserMessage("1 + 2?")]
    with make_model() as model:
        called = ask(model, *said)
        assert (called.text, called.stop_reason) == ("Let me see.", "tool_use")
        assert called.calls == (ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "add", {"a": 2}))
        said += [called, give(called, "one", "two")]
        answered = ask(model, *said)
        assert (answered.text, answered.stop_reason) == ("3", "end_turn")
        assert (answered.usage.input_tokens, answered.usage.cached_tokens) == (10, 4)
        assert ask(model, *said, answered, UserMessage("And 2 + 2?")).text == "4"
    (created,) = double.list_params("session.create")
    assert created["systemMessage"] == {"mode": "replace", "content": "Be brief."}
    assert [tool["name"] for tool in created["tools"]] == ["add"]
    assert created["provider"]["baseUrl"] == URL
    assert [each["prompt"] for each in double.list_params("session.send")] == ["1 + 2?", "And 2 + 2?"]
    given = double.list_params("session.tools.handlePendingToolCall")
    assert [each["result"]["textResultForLlm"] for each in given] == ["one", "two"]


def test_a_denied_call_is_rejected_with_its_reason_and_never_asked_for(double: Double) -> None:
    double.write({"calls": CALLS}, {"text": ["Well."]})
    with make_model() as model:
        called = ask(model, UserMessage("1 + 2?"))
        ask(model, UserMessage("1 + 2?"), called, give(called, "one", "The user said no.", denied="c2"))
    decisions = double.list_params("session.permissions.handlePendingPermissionRequest")
    assert [each["result"] for each in decisions] == [
        {"kind": "approve-once"},
        {"kind": "reject", "feedback": "The user said no."},
    ]
    (given,) = double.list_params("session.tools.handlePendingToolCall")
    assert given["requestId"] == "run c1"


def test_a_changed_conversation_begins_a_new_session_that_is_told_it(double: Double) -> None:
    double.write({"calls": CALLS}, {"text": ["3"]}, {"text": ["Hm."]}, {"text": ["Ah."]})
    question = UserMessage("1 + 2?")
    with make_model() as model:
        called = ask(model, question)
        results = give(called, "one", "two")
        answered = ask(model, question, called, results)
        ask(model, question, called, give(called, "one", "three"), answered, UserMessage("Sure?"))
        ask(model, question, called, results, UserMessage("Sure?"))
    first, second, third = double.list_params("session.create")
    assert len({each["sessionId"] for each in (first, second, third)}) == 3
    aborted = [each["sessionId"] for each in double.list_params("session.abort")]
    assert aborted == [first["sessionId"], second["sessionId"]]
    told = double.list_params("session.send")[1]["prompt"]
    for part in ("User: 1 + 2?", 'You: Calls add: {"a":1}', "Result of add (c2): three", "You: 3", "User: Sure?"):
        assert part in told


def test_other_tools_or_another_system_prompt_begin_a_new_session(double: Double) -> None:
    double.write({"text": ["a"]}, {"text": ["b"]})
    with make_model() as model:
        first = ask(model, SystemMessage("Be brief."), UserMessage("x"))
        ask(model, SystemMessage("Be long."), UserMessage("x"), first, UserMessage("y"))
    assert len(double.list_params("session.create")) == 2


def test_nothing_is_left_behind_and_the_program_may_not_want_to_end(double: Double, monkeypatch) -> None:
    monkeypatch.setattr("src.transport.json_rpc.END_GRACE_S", 0.1)
    double.write({"text": ["a"]}, stays=True)
    with make_model() as model:
        ask(model, UserMessage("x"))
        (folder,) = double.leftovers
        process = model._client._cli._process._process
    assert process.returncode == -9
    assert not folder.exists()


def test_a_model_that_is_dropped_ends_its_process(double: Double, monkeypatch) -> None:
    monkeypatch.setattr("src.transport.json_rpc.END_GRACE_S", PATIENCE_S)
    double.write({"text": ["a"]})
    model = make_model()
    ask(model, UserMessage("x"))
    process = model._client._cli._process._process
    del model
    assert process.poll() == 0
    assert double.leftovers == []


def test_a_turn_that_is_left_stops_the_session(double: Double) -> None:
    double.write({"text": ["Let me "], "hangs": True}, {"text": ["b"]})
    with make_model() as model:
        turn = model.respond([UserMessage("x")])
        assert next(turn) == TextDelta("Let me ")
        turn.close()
        assert ask(model, UserMessage("y")).text == "b"
    (stopped,) = double.list_params("session.abort")
    assert stopped["sessionId"] == double.list_params("session.create")[0]["sessionId"]


def test_a_cancel_from_another_thread_ends_a_wait_at_once(double: Double) -> None:
    double.write({"hangs": True})
    cancelled = threading.Event()
    with make_model() as model:
        model._client.bind_cancellation(cancelled)
        model._client.bind_silence(lambda: double.list_params("session.send") and cancelled.set())
        with pytest.raises(Cancelled):
            ask(model, UserMessage("x"))
        wait_until(lambda: double.list_params("session.abort"), "the session is not stopped")


def test_a_session_that_says_nothing_runs_into_the_time_limit(double: Double) -> None:
    double.write({"hangs": True})
    with (
        make_model(clocks=Timeouts(first_token=1.0)) as model,
        pytest.raises(Timeout, match="vllm.first_token_timeout"),
    ):
        ask(model, UserMessage("x"))


def test_a_refusal_of_the_models_server_is_one_for_us_with_its_status(double: Double) -> None:
    refused = {"statusCode": 401, "errorMessage": json.dumps("no such key")}
    double.write({"events": [{"kind": "model.call_failure", **refused}], "hangs": True})
    with make_model() as model, pytest.raises(Unauthorized, match=r"HTTP 401\): no such key"):
        ask(model, UserMessage("x"))


def test_a_server_that_does_not_take_tools_is_asked_on_the_text_path(double: Double) -> None:
    words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    refusal = {"kind": "model.call_failure", "statusCode": 400, "errorMessage": words}
    double.write({"events": [refusal], "hangs": True}, {"text": ['TOOL_CALL: {"name": "add", "args": {"a": 1}}']})
    with make_model() as model:
        (call,) = ask(model, UserMessage("x")).calls
    assert (call.name, call.arguments) == ("add", {"a": 1})
    assert double.list_params("session.create")[-1]["tools"] == []


def test_a_failure_without_a_status_breaks_the_turn_once_text_was_shown(double: Double) -> None:
    failure = {"kind": "model.call_failure", "errorMessage": "connection closed"}
    text = {"kind": "assistant.message_delta", "deltaContent": "Let me "}
    double.write({"events": [text, failure], "hangs": True})
    with make_model() as model:
        turn = model.respond([UserMessage("x")])
        assert next(turn) == TextDelta("Let me ")
        with pytest.raises(StreamCut, match="connection closed"):
            list(turn)


def test_a_program_that_ends_in_a_turn_is_started_again_for_the_next_attempt(double: Double) -> None:
    double.write({"exits": 3})
    with make_model() as model:
        model._client.sleep = lambda _: double.write({"text": ["b"]})
        assert ask(model, UserMessage("x")).text == "b"


def test_a_program_that_keeps_ending_is_an_error_that_quotes_it(double: Double) -> None:
    double.write({"exits": 3})
    with make_model() as model:
        model._client.sleep = lambda _: None
        with pytest.raises(StreamCut, match="The Copilot CLI ended with status 3: out of luck"):
            ask(model, UserMessage("x"))
    assert double.leftovers == []


def test_the_error_of_a_session_is_an_error_of_ours(double: Double) -> None:
    double.write({"events": [{"kind": "session.error", "message": "No GitHub OAuth token"}], "hangs": True})
    with make_model(is_service=True) as model, pytest.raises(ServerError, match="No GitHub OAuth token") as failed:
        ask(model, UserMessage("x"))
    assert "copilot login" in failed.value.hint


def test_a_request_that_the_program_refuses_ends_the_turn(double: Double) -> None:
    double.write({"refuses": "Session is busy"})
    with make_model() as model, pytest.raises(ServerError, match="The Copilot CLI: Session is busy"):
        ask(model, UserMessage("x"))


def test_a_prompt_that_is_too_long_for_the_program_is_one_for_us(double: Double) -> None:
    told = "Request exceeds the model's prompt budget after reserving output (375030 tokens; limit 128000)."
    double.write({"events": [{"kind": "session.error", "message": told}], "hangs": True})
    with make_model(is_service=True) as model, pytest.raises(ContextTooLong, match="prompt budget"):
        ask(model, UserMessage("x"))


def test_an_empty_answer_is_an_answer_and_other_agents_of_the_cli_are_not_heard(double: Double) -> None:
    other = {"kind": "assistant.message_delta", "agent": "explorer", "deltaContent": "not this"}
    double.write({"events": [other], "is_empty": True})
    with make_model() as model:
        answer = ask(model, UserMessage("x"))
    assert (answer.text, answer.stop_reason) == ("", "end_turn")


def test_an_answer_dense_in_tokens_is_not_counted_by_another_turn(double: Double) -> None:
    dense = "5feceb66ffc86f38d952786c6d696c79"
    double.write({"text": [dense], "tokens": len(dense)})
    with make_model() as model:
        assert ask(model, UserMessage("Its hash?")).text == dense
    assert len(double.list_params("session.send")) == 1


def test_the_requests_of_the_program_are_refused(double: Double) -> None:
    double.write({"text": ["a"]})
    with make_model() as model:
        ask(model, UserMessage("x"))
    assert [each["error"]["code"] for each in double.received if each.get("id") == "ask"] == [-32601]


def test_githubs_service_lists_its_models_and_gets_no_address(double: Double) -> None:
    double.write({"text": ["a"]}, models=["gpt-5", "claude"])
    with make_model(is_service=True, api_key="token") as model:
        assert model.core.server and list(_list_models(model)) == ["gpt-5", "claude"]
        assert model.context_length is None
        ask(model, UserMessage("x"))
    (created,) = double.list_params("session.create")
    assert created["gitHubToken"] == "token" and "provider" not in created
    assert double.list_params("sessions.delete") == [{"sessionId": created["sessionId"]}]


def test_a_service_without_a_sign_in_says_how_to(double: Double) -> None:
    double.write()
    with make_model(is_service=True) as model, pytest.raises(ServerError, match="Not authenticated") as failed:
        _list_models(model)
    assert "copilot login" in failed.value.hint


def _list_models(model: Model) -> list[str]:
    from src.transport.driver import run

    return run(model.core.server.list_models(), model._client)


def test_another_version_of_the_protocol_is_refused(double: Double) -> None:
    double.write(version=4)
    with make_model() as model, pytest.raises(ConfigError, match=r"1.0.0 speaks version 4 .* this program 3"):
        ask(model, UserMessage("x"))
    assert double.leftovers == []


def test_a_program_that_is_missing_or_none_is_named(double: Double, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COPILOT_CLI_PATH", "no-such-program")
    with make_model() as model, pytest.raises(ConfigError, match="no program no-such-program") as failed:
        ask(model, UserMessage("x"))
    assert "npm install -g @github/copilot" in failed.value.hint
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("COPILOT_CLI_PATH", str(broken))
    with make_model() as model, pytest.raises(ClientError, match="cannot be started"):
        ask(model, UserMessage("x"))
    monkeypatch.setenv("COPILOT_CLI_PATH", shutil.which("false") or "false")
    with make_model() as model, pytest.raises(ClientError, match="ended with status 1"):
        ask(model, UserMessage("x"))
    assert double.leftovers == []
