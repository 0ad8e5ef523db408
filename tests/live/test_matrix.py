"""One question, one real tool call, on every kind of server, with and without native function calling.

What a user must see is the same each time: the file's content in the answer. Only the way differs.
"""

from __future__ import annotations

import pytest

from src.model.recovery import RECOVERED_NOTICE
from src.negotiation.call_path import NOTICES, ROLES_MERGED, SYSTEM_FOLDED

QUESTION = "Quote notes.txt, please."
CONTENT = "The heron stands in the reeds."
CALL = "[DEBUG] Tool calls: [{'name': 'read', 'args': {'path': 'notes.txt'}}]"
NATIVE = "[DEBUG] Function calling format detected: 1 calls"
TEXT = "[DEBUG] Tool calls found: 1  (text-based parsing)"


def notices(*texts: str) -> list[str]:
    return [f"! {line}" for text in texts for line in text.splitlines()]


FALLBACK = notices(NOTICES["text"])
TEMPLATE = notices(NOTICES["template"])
FOLDED = notices(ROLES_MERGED, SYSTEM_FOLDED)
LOST = notices(
    RECOVERED_NOTICE, "The model's calls came in the text, in the format hermes; --tool-call-parser hermes reads it."
)

UNPINNED = {"strict_tools": False}  # a grammar would not let the model write in the wrong format

CASES = [  # server, enable_function_calling, how the call is found, what the user is told
    ("hermes", True, NATIVE, []),
    ("hermes", False, TEXT, []),
    ("no parser", True, TEXT, TEMPLATE),
    ("no parser", False, TEXT, []),
    ("strict", True, TEXT, FALLBACK),
    ("strict", False, TEXT, []),
    ("strict, hermes", True, TEXT, []),  # the server takes `tools`, but its template shows the model none
    ("strict, hermes", False, TEXT, []),
    ("wrong parser", True, TEXT, LOST),
    ("wrong parser", False, TEXT, []),
    ("no system role", True, TEXT, FALLBACK + FOLDED),
    ("no system role", False, TEXT, FOLDED),
]
IDS = [f"{server}: {'native' if native else 'text'}" for server, native, _, _ in CASES]


def test_a_user_is_told_which_flags_would_make_calls_native():
    assert "--enable-auto-tool-choice" in NOTICES["text"]
    assert "--tool-call-parser" in NOTICES["text"]


@pytest.mark.parametrize(("server", "native", "found", "told"), CASES, indirect=["server"], ids=IDS)
def test_the_file_is_read_and_its_content_is_in_the_answer(program, server, native, found, told):
    answer = program.ask(server, QUESTION, debug="1", vllm={"enable_function_calling": native, **UNPINNED})
    assert CONTENT in answer.stdout
    assert answer.code == 0
    assert f'  read(path="notes.txt") -> 1\t{CONTENT}' in answer.stderr.splitlines()
    assert answer.notices == told
    asked, found_as, called, *_, stopped, again, ended = answer.debug
    assert [asked, found_as, called, again] == ["[DEBUG] Iteration 1", found, CALL, "[DEBUG] Iteration 2"]
    assert stopped.startswith("[DEBUG] Stop reason: tool_use")
    assert ended.startswith("[DEBUG] Stop reason: end_turn")


@pytest.mark.parametrize(("server", "native", "found", "told"), CASES, indirect=["server"], ids=IDS)
def test_without_debug_there_is_the_call_and_nothing_else_to_see(program, server, native, found, told):
    option = [] if native else ["--no-function-calling"]
    answer = program.ask(server, QUESTION, *option, vllm=UNPINNED)
    assert answer.stdout.startswith("It says: ")
    assert f"\t{CONTENT}\n" in answer.stdout
    assert "TOOL_CALL" not in answer.stdout + answer.stderr
    assert "<tool_call>" not in answer.stdout + answer.stderr
    assert answer.stderr.splitlines() == [
        *told,
        "I will look.",
        f'  read(path="notes.txt") -> 1\t{CONTENT}',
    ]
