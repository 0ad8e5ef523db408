"""The user's programs: what each gets, and what its exit code and its output mean."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from src.errors import ConfigError
from src.security.permissions.hook_programs import HookPrograms, parse_hooks
from src.security.permissions.hooks import HookVerdict
from src.types.messages import ToolCall, ToolResult
from tests.each import check_rows
from tests.waiting import PATIENCE_S, wait_until

CALL = ToolCall("c1", "exec", {"command": "make"})
RESULT = ToolResult("c1", "exec", "text", "made")


def make_hooks(folder: Path, *scripts: str, event: str = "before_call", **row: object) -> HookPrograms:
    """Each script is Python that has `about`, what it was given."""
    rows = []
    for number, script in enumerate(scripts):
        file = folder / f"hook{number}.py"
        file.write_text(f"import json, os, signal, sys\nabout = json.load(sys.stdin)\n{script}\n")
        rows.append({"command": [sys.executable, str(file)], **row})
    return HookPrograms(parse_hooks({event: rows}), folder, dict(os.environ), lambda: "s1")


def judge(hooks: HookPrograms) -> HookVerdict:
    return hooks.judge(CALL, "ask").result(PATIENCE_S)


def test_a_hook_gets_the_call_as_json_in_the_workspace(tmp_path):
    judge(make_hooks(tmp_path, "open('seen', 'w').write(json.dumps(about))"))
    assert json.loads((tmp_path / "seen").read_text()) == {
        "event": "before_call",
        "session": "s1",
        "workspace": str(tmp_path),
        "mode": "ask",
        "tool": "exec",
        "arguments": {"command": "make"},
    }


SAYS = {  # what a program does -> what that means
    "pass": HookVerdict(),
    "print('{}')": HookVerdict(),
    """print('{"decision": "deny", "reason": "no make"}')""": HookVerdict("deny", "hook hook0.py: no make"),
    """print('{"decision": "deny"}')""": HookVerdict("deny", "hook hook0.py: it gave no reason"),
    """print('{"decision": "ask", "reason": "sure?"}')""": HookVerdict("ask", "hook hook0.py: sure?"),
    "sys.exit('no') if 0 else (sys.stderr.write('no make'), sys.exit(2))": HookVerdict(
        "deny", "hook hook0.py: no make"
    ),
    "sys.exit(2)": HookVerdict("deny", "hook hook0.py: exit code 2"),
}


@pytest.mark.parametrize("script", SAYS)
def test_a_hook_denies_asks_or_says_nothing(script, tmp_path):
    assert judge(make_hooks(tmp_path, script)) == SAYS[script]


FAILS = {  # how a program fails -> what is said of it
    """print('{"decision": "allow"}')""": "its decision is 'allow', and there are deny and ask",
    "print('fine')": "it printed no JSON: 'fine'",
    """print('{"Decision": "deny"}')""": "it printed the key 'Decision', and there are decision, reason, note",
    """print('{"hookSpecificOutput": {"permissionDecision": "deny"}}')""": "it printed the key 'hookSpecificOutput'",
    "print('[1]')": "it printed JSON that is no object",
    """print('{"decision": "deny", "decision": "ask"}')""": "it printed no JSON",
    "sys.exit(1)": "exit code 1",
    "raise ValueError('broken')": "exit code 1: ValueError: broken",
    "os.kill(os.getpid(), 9)": "ended by signal 9",
}


@pytest.mark.parametrize("script", FAILS)
def test_a_hook_that_fails_has_the_call_ask(script, tmp_path):
    verdict = judge(make_hooks(tmp_path, script))
    assert verdict.action == "ask"
    assert verdict.reason.startswith(f"hook hook0.py failed: {FAILS[script]}")


def test_a_hook_that_takes_too_long_has_the_call_ask(tmp_path):
    verdict = judge(make_hooks(tmp_path, "signal.pause()", timeout=0.1))
    assert verdict == HookVerdict("ask", "hook hook0.py failed: it took longer than 0.1 seconds")


def test_what_a_hook_leaves_in_the_background_is_not_waited_for(tmp_path):
    script = "import subprocess; child = subprocess.Popen(['sleep', '1000']); open('pid', 'w').write(str(child.pid))"
    assert judge(make_hooks(tmp_path, script)) == HookVerdict()
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_large_input_and_output_pass(tmp_path):
    hooks = make_hooks(tmp_path, "print(json.dumps({'note': 'x' * 500_000}))", event="after_call")
    report = hooks.tell_result(CALL, ToolResult("c1", "exec", "text", "y" * 1_000_000), "ask").result(PATIENCE_S)
    assert report.failures == ('The hook hook0.py failed: it printed no JSON: \'{"note": "' + "x" * 70 + "'.",)


def test_a_hook_ends_with_what_it_started_when_nobody_waits_any_more(tmp_path):
    child = "import subprocess; child = subprocess.Popen(['sleep', '1000']); open('pid.new', 'w').write(str(child.pid))"
    hooks = make_hooks(tmp_path, f"{child}\nos.rename('pid.new', 'pid')\nsignal.pause()")
    told = hooks.judge(CALL, "ask")
    wait_until((tmp_path / "pid").exists, "the hook does not start")
    hooks.end()
    assert told.result(PATIENCE_S).reason == "hook hook0.py failed: ended by signal 9"
    wait_until(lambda: has_ended((tmp_path / "pid").read_text()), "what the hook started goes on")


def has_ended(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_first_hook_that_denies_decides_and_an_ask_outlives_silence(tmp_path):
    ask, deny, silent = """print('{"decision": "ask", "reason": "a"}')""", "sys.exit(2)", "pass"
    assert judge(make_hooks(tmp_path, ask, silent)).action == "ask"
    assert judge(make_hooks(tmp_path, ask, deny)).action == "deny"
    assert judge(make_hooks(tmp_path, deny, "open('seen', 'w')")).action == "deny"
    assert not (tmp_path / "seen").exists()


def test_a_note_after_a_call_is_for_the_model_and_a_failure_for_the_user(tmp_path):
    note, told, fails = (
        "print(json.dumps({'note': about['result']}))",
        "sys.stderr.write('lint'); sys.exit(2)",
        "sys.exit(3)",
    )
    hooks = make_hooks(tmp_path, note, told, fails, event="after_call")
    report = hooks.tell_result(CALL, RESULT, "ask").result(PATIENCE_S)
    assert report.notes == ("hook hook0.py: made", "hook hook1.py: lint")
    assert report.failures == ("The hook hook2.py failed: exit code 3.",)


@pytest.mark.parametrize(("tools", "hears"), [(["exec"], True), (["ex*"], True), (["write"], False)])
def test_a_hook_hears_of_the_tools_that_it_names(tools, hears, tmp_path):
    hooks = make_hooks(tmp_path, "pass", tools=tools)
    assert bool(hooks.find("before_call", "exec")) is hears
    assert not hooks.find("after_call", "exec")


@check_rows(
    "row, said",
    [
        ({}, "hooks.before_call[0]: command is a program, or a list of it and its arguments"),
        ({"command": []}, "command is a program"),
        ({"command": "true", "tool": "exec"}, "there is no key 'tool'; a hook has command, tools, timeout"),
        ({"command": "true", "tools": "exec"}, "tools is a list of names"),
        ({"command": "true", "timeout": 0}, "timeout is a number of seconds, at most 3600"),
        ({"command": "true", "timeout": True}, "timeout is a number of seconds"),
        ({"command": "no-such-program"}, "there is no program 'no-such-program'"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused(row, said):
    with pytest.raises(ConfigError) as error:
        parse_hooks({"before_call": [row]})
    assert said in error.value.message
