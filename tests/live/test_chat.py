"""A session at a terminal, as a person has it: each step waits for what the program shows."""

from __future__ import annotations

import pexpect
import pytest

PROMPT = "\n\x07?> "  # with the bell after a long turn
ASKED = r"Run it\? \[y/N\] "
SERVERS = pytest.mark.parametrize("server", ["hermes", "no parser", "strict"], indirect=True)


@SERVERS
def test_a_whole_session(chat, server, workspace):
    session = chat(server)
    session.expect("vLLM Bot ")
    session.expect_exact(server.base_url)
    session.expect("model +tiny")
    session.expect(PROMPT)

    session.sendline("Quote notes.txt, please.")
    session.expect_exact('read(path="notes.txt") -> 1\tThe heron stands in the reeds.')
    session.expect("It says: ")
    session.expect(PROMPT)

    session.sendline("Save kept.txt.")
    session.expect("write wants to run")
    session.expect("path: kept.txt")
    session.expect(ASKED)
    session.sendline("y")
    session.expect("Answered: ")
    session.expect(PROMPT)
    assert (workspace / "kept.txt").read_text() == "saved\n"

    session.sendline("Run touch ran.txt.")
    session.expect("command: touch ran.txt")
    session.expect(ASKED)
    session.sendline("n")
    session.expect("the user said no")
    session.expect(PROMPT)
    assert not (workspace / "ran.txt").exists()

    session.sendline("Count to four hundred.")
    session.expect("10 11 12")
    session.sendintr()
    session.expect_exact("(stopped)")
    assert "400" not in session.before
    session.expect(PROMPT)

    session.sendline("Say hello.")
    session.expect("Hello there.")
    session.expect(PROMPT)

    session.sendline("/reset")
    session.expect("New conversation.")
    session.expect(PROMPT)
    session.sendline("Quote list.txt, please.")
    session.expect("rope, lamp, bread")
    session.expect(PROMPT)

    session.sendeof()
    session.expect(pexpect.EOF)
    session.wait()
    assert session.exitstatus == 0


@SERVERS
def test_an_interrupt_before_the_first_word_leaves_a_conversation_that_can_go_on(chat, server):
    session = chat(server, debug="1")
    session.expect(PROMPT)
    session.sendline("Count to four hundred.")
    session.expect_exact("[DEBUG] Iteration 1")
    session.sendintr()
    session.expect_exact("(stopped)")
    session.expect(PROMPT)
    session.sendline("Say hello.")
    session.expect("Hello there.")
    session.expect(PROMPT)
    session.sendeof()
    session.expect(pexpect.EOF)


def test_only_a_plain_yes_is_one(chat, server, workspace):
    session = chat(server)
    for answer in ("", "n", "\x04"):
        session.expect(PROMPT)
        session.sendline("Save kept.txt.")
        session.expect(ASKED)
        session.sendline("yeah")
        session.expect("is not one of the answers")
        session.expect(ASKED)
        session.sendline(answer) if answer != "\x04" else session.sendeof()
        session.expect("the user said no")
    session.expect(PROMPT)
    assert not (workspace / "kept.txt").exists()


def test_what_was_typed_ahead_is_no_answer(chat, server, workspace):
    session = chat(server)
    session.expect(PROMPT)
    session.sendline("Save kept.txt.\ny")
    session.expect(ASKED)
    session.sendline("n")
    session.expect("the user said no")
    assert not (workspace / "kept.txt").exists()


def test_a_plain_terminal_is_sent_no_escapes(chat, server):
    session = chat(server)
    session.expect(PROMPT)
    session.sendline("Quote notes.txt, please.")
    shown = session.before
    session.expect(PROMPT)
    assert "\x1b" not in shown + session.before


def test_lines_pasted_together_are_one_question(chat, server):
    session = chat(server, "--plain", term="xterm")
    session.expect_exact("> ")
    session.send("\x1b[200~Say hello.\nAnd nothing else.\x1b[201~\r")
    session.expect("Hello there.")
    session.expect_exact("> ")
    session.sendline("/exit")
    session.expect(pexpect.EOF)
    assert "Hello there." not in session.before


def test_commands(chat, server):
    session = chat(server)
    session.expect(PROMPT)
    session.sendline("/help")
    for command in ("/help", "/exit", "/new", "/tools"):
        session.expect_exact(f"  {command}")
    session.expect(PROMPT)
    session.sendline("/tools")
    session.expect_exact("read(path: string, offset?: integer, limit?: integer)")
    session.expect(PROMPT)
    session.sendline("/toolz")
    session.expect_exact("Did you mean /tools?")
    session.expect(PROMPT)
    session.sendintr()
    session.expect("Ctrl-D or type /exit to leave")
    session.expect(PROMPT)
    session.sendline("/exit")
    session.expect(pexpect.EOF)
    session.wait()
    assert session.exitstatus == 0


def test_a_server_that_is_not_there_does_not_end_the_session(chat, server):
    session = chat(server._replace(base_url="http://127.0.0.1:9/v1"), vllm={"model": "any"})
    session.expect(PROMPT)
    session.sendline("Say hello.")
    session.expect("! No server at http://127.0.0.1:9/v1")
    session.expect(PROMPT)
    session.sendeof()
    session.expect(pexpect.EOF)
    session.wait()
    assert session.exitstatus == 0
