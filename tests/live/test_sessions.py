"""Sessions against a server: continued after a kill and in a script, and summarized before they fill the context."""

from __future__ import annotations

import json
import signal

import pytest

BOTH = pytest.mark.parametrize("server", ["hermes", "no parser"], indirect=True)
PROMPT = "\n\x07?> "  # with the bell after a long turn


@BOTH
def test_what_was_said_before_a_kill_is_there_again_and_no_call_runs_twice(chat, program, server):
    session = chat(server)
    session.expect(PROMPT)
    session.sendline("Quote notes.txt, please.")
    session.expect("It says: ")
    session.expect(PROMPT)
    session.sendline("Count to four hundred.")
    session.expect(r"149\s+150\s")  # less than 256 characters of the end may be lost
    session.kill(signal.SIGKILL)
    session.wait()

    answer = program.ask(server, "Say hello.", "--resume", "--output", "json", debug="2")
    assert answer.code == 0
    end = json.loads(answer.stdout)
    assert (end["calls"], end["answer"]) == (0, "Hello there.")
    sent = next(line for line in answer.stderr.splitlines() if "POST" in line and "Say hello." in line)
    assert "Quote notes.txt, please." in sent
    assert "The heron stands in the reeds." in sent
    assert "10 11 12" in sent
    assert "Quote notes.txt" in program.run(server, "sessions", "show").stdout


@BOTH
def test_an_older_part_is_summed_up_and_comes_back(chat, server, workspace):
    (workspace / "long.txt").write_text("The heron stands in the reeds.\n" * 40)
    session = chat(server)
    session.expect(PROMPT)
    for question, answer in (("Quote long.txt, please.", "It says: "), ("Say hello.", "Hello there.")):
        session.sendline(question)
        session.expect(answer)
        session.expect(PROMPT)
    session.sendline("/compact")
    session.expect("Summarized in .* of your messages")
    session.expect(PROMPT)
    session.sendline("Say hello.")
    session.expect("Hello there.")
    session.expect(PROMPT)
    session.sendline("/undo")
    session.expect("Undone: Say hello.")
    session.expect(PROMPT)
    session.sendline("/undo")
    session.expect("Undone: the summary. The older part of the conversation is back.")
    session.expect(PROMPT)
