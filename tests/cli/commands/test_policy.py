"""`vllm-bot policy` reads one call per line, writes one decision per line, and runs nothing."""

from __future__ import annotations

import io
import json

import pytest

from src.cli.main import main
from src.security.permissions.modes import MODES


@pytest.fixture
def decide(tmp_path, capsys, monkeypatch):
    """Without a sandbox, so that the decisions are the same on every machine."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    config = tmp_path / "config.json"

    def decide(*lines, options=(), security=None):
        config.write_text(json.dumps({"security": {"sandbox": "off", **(security or {})}}))
        typed = b"".join(line + b"\n" for line in map(as_bytes, lines))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed), "ascii"))
        code = main(["policy", "-c", str(config), "-w", str(workspace), *options])
        shown = capsys.readouterr()
        decide.errors = shown.err
        return code, [json.loads(line) for line in shown.out.splitlines()]

    return decide


def as_bytes(line):
    text = line if isinstance(line, (str, bytes)) else json.dumps(line)
    return text if isinstance(text, bytes) else text.encode()


def running(command):
    return {"tool": "exec", "arguments": {"command": command}}


def test_a_decision_has_its_reason_and_its_rule(decide):
    code, (decision,) = decide(running("ls | wc -l"), security={"allowed_commands": ["ls | wc -l"], "mode": "edits"})
    assert code == 0
    assert decision == {
        "decision": "allow",
        "reason": "a rule allows it",
        "rule": "security.allowed_commands: ls | wc -l",
        "access": "write",
        "mode": "edits",
    }


def test_on_a_terminal_it_says_what_it_waits_for(tmp_path, capsys, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal(io.BytesIO()))
    assert main(["policy", "-w", str(tmp_path)]) == 0
    assert "waits for calls, such as" in capsys.readouterr().err


def test_decisions_come_in_the_order_of_the_calls(decide):
    calls = (running("ls"), {"tool": "read", "arguments": {"path": "a"}}, running("git push origin"))
    rules = [{"tool": "exec", "command": "git push", "action": "deny"}]
    _, decisions = decide(*calls, security={"rules": rules})
    assert [each["decision"] for each in decisions] == ["ask", "allow", "deny"]


def test_nothing_runs(decide, tmp_path):
    decide(running("touch pwned"), options=("--profile", "full"))
    assert list((tmp_path / "ws").iterdir()) == []


def test_the_profile_of_the_command_line_comes_before_that_of_the_file(decide):
    call = {"tool": "write", "arguments": {"path": "a", "content": ""}}
    for options in (("--profile", "read-only"), ("--mode", "plan"), ("--mode", "plan", "--profile", "full")):
        for security in ({"profile": "full"}, {"mode": "full"}):
            _, (decision,) = decide(call, options=options, security=security)
            assert (decision["decision"], decision["rule"]) == ("deny", "security.mode: plan")


def test_a_profile_of_the_settings_is_a_mode(decide):
    modes = [decide(running("ls"), security={"profile": each})[1][0]["mode"] for each in ("read-only", "workspace")]
    assert modes == ["plan", "edits"]


def test_an_echo_can_be_tried_too(decide):
    _, (decision,) = decide({**running("ls"), "echo": True}, options=("--profile", "full"))
    assert decision["decision"] == "ask"


@pytest.mark.parametrize("mode", MODES)
def test_a_plan_asks_in_mode_plan_alone_as_in_the_chat(decide, mode):
    rules = [{"tool": "submit_plan", "action": "allow"}]
    for security in ({"mode": mode}, {"mode": mode, "rules": rules}):
        _, (decision,) = decide({"tool": "submit_plan", "arguments": {"plan": "x"}}, security=security)
        assert decision["decision"] == ("ask" if mode == "plan" else "deny")
        assert decision["rule"] == f"security.mode: {mode}"


def test_a_rule_for_a_tool_that_there_is_not_is_told(decide):
    code, (decision,) = decide(running("ls"), security={"rules": [{"tool": "exce", "action": "deny"}]})
    assert (code, decision["decision"]) == (0, "ask")
    assert "! " in decide.errors
    assert "exce" in decide.errors


@pytest.mark.parametrize(
    "line",
    [
        '{"tool": "exec", "arguments": {"command": "ls"}, "echo": "true"}',
        '{"tool": "exec", "arguments": {"command": "ls"}, "guessed": 1}',
        '{"tool": "exec", "arguments": {"command": "ls"}, "echo": null}',
        "nope",
        "[]",
        "5",
        '"exec"',
        '{"tool": 5}',
        '{"arguments": {}}',
        '{"tool": "exec", "arguments": []}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_not_a_call_is_denied_and_the_others_are_decided(line, decide):
    code, decisions = decide(running("ls"), line, running("ls"))
    assert code == 2
    assert [each["decision"] for each in decisions] == ["ask", "deny", "ask"]
    assert decisions[1]["reason"].startswith("line 2 is not ")


@pytest.mark.parametrize("call", [{"tool": "nix"}, {"tool": ""}, running("ls")])
def test_a_tool_that_there_is_not_is_denied(call, decide):
    _, (decision,) = decide(call, security={"exec_enabled": False})
    assert (decision["decision"], decision["rule"]) == ("deny", "tools")


@pytest.mark.parametrize("arguments", [{}, {"command": None}, {"command": 5}, {"command": ["ls"]}])
def test_a_call_with_wrong_arguments_is_denied_with_what_is_wrong(arguments, decide):
    code, (decision,) = decide({"tool": "exec", "arguments": arguments}, options=("--profile", "full"))
    assert (code, decision["decision"], decision["rule"]) == (0, "deny", "arguments")
    assert decision["reason"].startswith("it cannot run: ")
    assert "command" in decision["reason"]


def test_a_command_that_is_not_valid_unicode_asks(decide):
    _, (decision,) = decide(running("\ud800"), security={"allowed_commands": ["ls"]})
    assert decision["decision"] == "ask"


def test_a_rule_holds_for_a_tool_under_its_other_name(decide):
    calls = [{"tool": name, "arguments": {"todos": []}} for name in ("todo_write", "write_todos")]
    _, decisions = decide(*calls, security={"mode": "full", "rules": [{"tool": "todo_write", "action": "deny"}]})
    assert decisions[1] == decisions[0]
    assert decisions[0]["decision"] == "deny"


def test_a_key_that_is_repeated_with_another_value_is_refused(decide):
    line = '{"tool": "exec", "arguments": {"command": "rm a", "command": "ls"}}'
    code, (decision,) = decide(line, security={"allowed_commands": ["ls"]})
    assert (code, decision["decision"]) == (2, "deny")
    assert "stands twice" in decision["reason"]


def test_bytes_that_are_no_text_are_no_reason_to_stop(decide):
    lines = (
        b"\xff\xfe",
        b'{"tool": "exec", "arguments": {"command": "ls \xff"}}',
        "\ufeff" + json.dumps(running("ls")),
    )
    _, decisions = decide(
        *lines, b'{"tool": "exec", "arguments": {"command": "ls"}}\r', security={"allowed_commands": ["ls"]}
    )
    assert [each["decision"] for each in decisions] == ["deny", "ask", "allow", "allow"]


def test_what_no_file_tool_can_reach_is_denied(decide):
    calls = [
        {"tool": tool, "arguments": {"path": path, **others}}
        for tool, others in (("read", {}), ("write", {"content": ""}))
        for path in ("../a", "~/a", "/dev/zero")
    ]
    _, decisions = decide(*calls, {"tool": "glob", "arguments": {"pattern": "../*"}}, options=("--profile", "full"))
    assert {(each["decision"], each["rule"]) for each in decisions} == {("deny", "workspace")}


def test_an_empty_line_is_none(decide):
    assert decide("", "  ") == (0, [])


def test_an_invalid_rule_is_bad_configuration(decide):
    code, decisions = decide(running("ls"), security={"rules": [{"tool": "exec"}]})
    assert (code, decisions) == (2, [])
