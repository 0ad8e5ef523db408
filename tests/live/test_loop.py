"""The loop on a server with native calls and on one without: what runs, what is refused, how it ends."""

from __future__ import annotations

import asyncio
import re

import pytest

from .rig import API_KEY

# Or the grammar lets the model make no such mistake; see test_recovery.py for what it does.
UNCONSTRAINED = {"text_protocol": {"constrained": "off"}, "vllm": {"strict_tools": False}}
BOTH = pytest.mark.parametrize("server", ["hermes", "no parser"], indirect=True)
REFUSED = "nobody is there to be asked"


@BOTH
def test_two_calls_in_one_turn_are_both_run_in_order(program, server):
    answer = program.ask(server, "Quote notes.txt and list.txt, please.", debug="1")
    assert answer.code == 0
    runs = [line for line in answer.stderr.splitlines() if line.startswith("  read(")]
    assert runs == [
        '  read(path="notes.txt") -> 1\tThe heron stands in the reeds.',
        '  read(path="list.txt") -> 1\trope, lamp, bread',
    ]
    assert "rope, lamp, bread" in answer.stdout
    found = {
        "hermes": "[DEBUG] Function calling format detected: 2 calls",
        "no parser": "[DEBUG] Tool calls found: 2  (text-based parsing)",
    }
    assert found[server.kind] in answer.debug
    calls = [{"name": "read", "args": {"path": path}} for path in ("notes.txt", "list.txt")]
    assert f"[DEBUG] Tool calls: {calls}" in answer.debug
    assert "[DEBUG] Iteration 3" not in answer.debug


@BOTH
def test_with_yes_a_file_is_written_changed_and_run(program, server, workspace):
    answer = program.ask(server, "Write, change and run a program.", "--yes")
    assert answer.code == 0
    assert answer.stdout.startswith("It printed: ")
    assert "hello 2\n" in answer.stdout
    assert (workspace / "greet.py").read_text() == "print('hello {}'.format(1 + 1))\n"


@BOTH
def test_without_yes_nothing_is_written_and_the_model_is_told_why(program, server, workspace):
    answer = program.ask(server, "Save hello.txt.")
    assert answer.code == 5
    assert REFUSED in answer.stdout
    assert f"-> Not run: {REFUSED}" in answer.stderr
    assert not (workspace / "hello.txt").exists()


@BOTH
def test_without_yes_a_command_changes_nothing(program, server, workspace):
    answer = program.ask(server, "Run touch ran.txt.")
    assert answer.code == 0
    assert "read-only for access=read" in answer.stdout
    assert not (workspace / "ran.txt").exists()


@BOTH
def test_a_command_that_the_user_allowed_runs_unasked(program, server):
    answer = program.ask(server, "Run cat list.txt.", security={"allowed_commands": ["cat list.txt"]})
    assert answer.code == 0
    assert "rope, lamp, bread" in answer.stdout


@BOTH
def test_an_unknown_tool_is_answered_with_those_there_are_and_the_loop_goes_on(program, server):
    answer = program.ask(server, "Call a tool that is not there.", **UNCONSTRAINED)
    assert answer.code == 0
    assert answer.stdout.startswith("I was told: ")
    assert "read" in answer.stdout.partition("raed")[2]


@BOTH
def test_wrong_arguments_are_answered_with_the_right_ones(program, server):
    answer = program.ask(server, "Call a tool wrongly.", **UNCONSTRAINED)
    assert answer.code == 0
    assert answer.stdout.startswith("I was told: ")
    assert re.search(r"\bpath\b.*\boffset\b.*\blimit\b", answer.stdout)


@pytest.mark.parametrize("server", ["hermes", "no parser", "strict"], indirect=True)
def test_after_max_tool_turns_the_model_sums_up_and_the_user_is_told(program, server):
    answer = program.ask(server, "Never stop reading notes.txt.", agent={"max_tool_turns": 2}, debug="1")
    assert answer.code == 3
    assert answer.stdout == "In short: I read the notes.\n"
    assert "! Stopped after 2 turns with tool calls (agent.max_tool_turns); asking for a summary." in answer.notices
    assert "[DEBUG] Iteration 3" in answer.debug
    assert "[DEBUG] Iteration 4" not in answer.debug


@BOTH
def test_an_answer_cut_off_by_max_tokens_is_said_to_be_cut(program, server):
    answer = program.ask(server, "Count to four hundred.", vllm={"max_tokens": 20})
    assert answer.code == 3
    assert answer.stdout.startswith("1 2 3")
    assert (
        "! The answer was cut off at max_tokens (vllm.max_tokens, or the model's context). Ask to go on for the rest."
        in answer.notices
    )


@pytest.mark.parametrize("server", ["strict"], indirect=True)
def test_a_question_longer_than_the_context_is_one_message(program, server):
    answer = program.ask(server, "word " * 4000)
    assert (answer.stdout, answer.code) == ("", 1)
    said, hint = answer.stderr.splitlines()
    assert re.fullmatch(r"vllm-bot: The conversation has [\d,]+ tokens and the model's context 3,000: .*", said)
    assert hint == "Use /compact or /new, or ask for less at once."


@pytest.mark.parametrize("server", ["no parser"], indirect=True)
class TestTheApiKey:
    """The rig's server without a parser asks for one."""

    def test_debug_2_shows_what_goes_over_the_wire_but_never_the_key(self, program, server):
        answer = program.ask(server, "Quote notes.txt, please.", debug="2")
        assert answer.code == 0
        assert '"messages":[{"role":"system"' in answer.stderr
        assert "data: [DONE]" in answer.stderr
        assert API_KEY not in answer.stderr + answer.stdout

    def test_a_missing_key_is_one_message_that_names_the_setting(self, program, server):
        answer = program.ask(server._replace(api_key=""), "Say hello.")
        assert (answer.stdout, answer.code) == ("", 1)
        assert "HTTP 401" in answer.stderr
        assert "VLLM_API_KEY" in answer.stderr
        assert "Traceback" not in answer.stderr

    def test_a_wrong_key_is_not_repeated(self, program, server):
        answer = program.ask(server._replace(api_key="wrong-key-in-the-test"), "Say hello.", debug="2")
        assert answer.code == 1
        assert "wrong-key-in-the-test" not in answer.stderr + answer.stdout


@BOTH
def test_an_agent_on_asyncio_runs_both_calls_of_a_turn(server):
    pytest.importorskip("aiohttp")
    from src import AsyncServer, tool

    texts = {"notes.txt": "The heron stands in the reeds.", "list.txt": "rope, lamp, bread"}

    @tool(risk="low")
    async def read(path: str) -> str:
        """Read a file."""
        return texts[path]

    async def ask():
        async with AsyncServer(server.base_url, api_key=server.api_key) as asked:
            return await asked.agent([read]).answer("Quote notes.txt and list.txt, please.")

    result = asyncio.run(ask())
    assert [call.result.value for call in result.calls] == list(texts.values())
    assert "rope, lamp, bread" in result.text
