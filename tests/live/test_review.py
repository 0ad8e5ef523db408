"""Two real servers review the calls of a third, which is scripted here.

A reviewer's answer is scripted inside the question, which it is shown as the user's task; what it says is held to a
verdict's form by the server's own structured outputs. VLLM_BOT_REVIEWERS names two addresses that are up already,
with a comma between; else the rig's are started.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.doubles import ScriptedServer

from .rig import Server

REVIEWERS = os.environ.get("VLLM_BOT_REVIEWERS", "")


@pytest.fixture
def reviewers(request: pytest.FixtureRequest) -> list[dict]:
    if REVIEWERS:
        return [{"base_url": url, "model": "tiny"} for url in REVIEWERS.split(",")]
    if not os.environ.get("VLLM_BOT_RIG"):
        pytest.skip("there are no servers: see VLLM_BOT_RIG in docs/development.md")
    rig = request.getfixturevalue("rig")
    return [{"base_url": rig.server(kind).base_url, "model": "tiny"} for kind in ("hermes", "strict, hermes")]


def asked(program, reviewers: list[dict], verdict: object, **review: str):
    """The program, asked for a change that the reviewers answer with `verdict`."""
    said = verdict if isinstance(verdict, str) else json.dumps(verdict)
    question = f"Save hello.txt. @@SCRIPT@@{json.dumps([said])}@@END@@"
    arguments = json.dumps({"path": "hello.txt", "content": "hello\n"})
    call = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "write", "arguments": arguments}}]}
    turns = [call, {"finish": "tool_calls"}], [{"content": "Done."}, {"finish": "stop"}]
    with ScriptedServer(*turns) as server:
        answer = program.ask(Server("scripted", server.url), question, review={"models": reviewers, **review})
        (result,) = [each for each in server.requests[-1]["messages"] if each["role"] == "tool"]
    return answer, result["content"]


def test_what_both_approve_is_done_and_nobody_is_asked(program, reviewers, workspace):
    verdict = {"verdict": "APPROVE", "reason": "It serves the task."}
    answer, _ = asked(program, reviewers, verdict)
    assert (workspace / "hello.txt").read_text() == "hello\n"
    assert answer.stderr.count("APPROVE: It serves the task.") == 2


def test_what_both_reject_is_not_done_and_the_model_hears_why(program, reviewers, workspace):
    _, result = asked(program, reviewers, {"verdict": "REJECT", "reason": "It is not wanted."})
    assert not (workspace / "hello.txt").exists()
    assert "Not run: reviewers rejected it." in result
    assert result.count("REJECT: It is not wanted.") == 2


def test_a_reviewer_that_is_not_there_leaves_it_to_a_person_and_there_is_none(program, reviewers, workspace):
    gone = {"base_url": "http://127.0.0.1:9/v1", "model": "tiny"}
    _, result = asked(program, [reviewers[0], gone], {"verdict": "APPROVE", "reason": "It serves the task."})
    assert not (workspace / "hello.txt").exists()
    assert "nobody is there to be asked" in result
    assert "no vote" in result


def test_whatever_a_model_says_the_server_holds_it_to_a_verdict(program, reviewers):
    answer, result = asked(program, reviewers, "I do not know, but it looks fine to me.")
    said = answer.stderr + result  # the model hears what was said where it came to no decision, or to a rejection
    assert said.count("APPROVE") + said.count("REJECT") >= 2
    assert "cannot be read" not in said
