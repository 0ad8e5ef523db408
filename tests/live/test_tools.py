"""Every built-in tool, called by a model on a server with native calls and on one without: what it did, and what came back."""

from __future__ import annotations

import json
import re

import pytest

BOTH = pytest.mark.parametrize("server", ["hermes", "no parser"], indirect=True)


def script(server, *turns: tuple[str, dict] | str) -> str:
    """A message that makes the rig's model make these calls, one a turn, or say these words."""
    said = []
    for turn in turns:
        if isinstance(turn, str):
            said.append(turn)
        elif server.kind == "hermes":
            said.append(f"<tool_call>\n{json.dumps({'name': turn[0], 'arguments': turn[1]})}\n</tool_call>")
        else:
            said.append(f"TOOL_CALL: {json.dumps({'name': turn[0], 'args': turn[1]})}")
    return f"@@SCRIPT@@{json.dumps(said)}@@END@@"


@pytest.fixture
def ask(program, workspace):
    """The answer to a script whose last turn says what the last result was."""
    (workspace / ".gitignore").write_text("*.log\n")
    (workspace / "build.log").write_text("heron\n")

    def ask(server, *calls: tuple[str, dict]):
        answer = program.ask(server, script(server, *calls, "I saw: {{results}}"), "--yes")
        assert answer.code == 0, answer.stderr
        return answer

    return ask


@BOTH
def test_read(ask, server):
    answer = ask(server, ("read", {"path": "notes.txt", "offset": 1, "limit": 5}))
    assert "1\tThe heron stands in the reeds." in answer.stdout
    assert re.search(r"\[sha256 [0-9a-f]{64}\]", answer.stdout)


@BOTH
def test_write(ask, server, workspace):
    answer = ask(server, ("write", {"path": "sub/new.txt", "content": "one\n"}))
    assert "Created sub/new.txt: 4 characters" in answer.stdout
    assert (workspace / "sub" / "new.txt").read_text() == "one\n"


@BOTH
def test_edit(ask, server, workspace):
    edit = {
        "path": "list.txt",
        "oldText": "  rope, lamp, bread",
        "newText": "rope",
        "match_mode": "auto",
        "dry_run": False,
    }
    answer = ask(server, ("edit", edit))
    assert "Changed list.txt: 1 replacement, mode line_trimmed, at line 1" in answer.stdout
    assert "-rope, lamp, bread\n+rope\n" in answer.stdout
    assert (workspace / "list.txt").read_text() == "rope\n"


@BOTH
def test_glob(ask, server):
    answer = ask(server, ("glob", {"pattern": "*.{txt,log}"}))
    assert "list.txt\nnotes.txt" in answer.stdout
    assert "build.log" not in answer.stdout.partition("I saw")[2]


@BOTH
def test_grep(ask, server):
    answer = ask(server, ("grep", {"pattern": "her.n", "ignore_case": True, "after": 1}))
    assert "notes.txt:1:The heron stands in the reeds." in answer.stdout
    assert "build.log" not in answer.stdout


@BOTH
def test_exec(ask, server):
    answer = ask(server, ("exec", {"command": "echo heron | tr a-z A-Z"}))
    assert "HERON\n[exit code 0]" in answer.stdout


@BOTH
def test_todo_write_and_todo_read(ask, server):
    todos = [{"content": "look", "status": "completed"}, {"content": "act", "status": "in_progress"}]
    answer = ask(server, ("todo_write", {"todos": todos}), ("todo_read", {}))
    assert "[x] look\n[~] act" in answer.stdout.rpartition("I saw")[2]


@BOTH
def test_done(program, server):
    answer = program.ask(server, script(server, ("done", {"summary": "All herons are counted."}), "Never said."))
    assert answer.code == 0
    assert "All herons are counted." in answer.stdout
    assert "Never said." not in answer.stdout + answer.stderr


@BOTH
def test_an_output_that_was_cut_is_read_on_in_and_searched_from_the_cache(ask, program, server, tmp_path):
    ask(server, ("exec", {"command": "seq 1 20000"}))
    (stored,) = [each for each in tmp_path.rglob("outputs/o*") if each.stat().st_size > 100_000]
    answer = ask(
        server,
        ("tool_output_cache", {"ref_id": stored.name, "offset": 19_999, "limit": 2}),
        ("tool_output_cache_grep", {"ref_id": stored.name, "pattern": "1234", "max_matches": 2}),
    )
    assert "1234:1234\n11234:11234" in answer.stdout
    calls = re.findall(r"tool_output_cache\(.*", answer.stderr)
    assert calls and "error" not in calls[0]
