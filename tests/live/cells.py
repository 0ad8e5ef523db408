"""The matrix: how a model may write one call, on every kind of server, streamed and whole.

    VLLM_BOT_RIG=../shared/rig python -m tests.live.cells

runs its tests alone (about five minutes) and prints the table, as a run of all live tests does too.
The server's grammars are left out (`strict_tools`, `text_protocol.constrained`): under them a model cannot write most of
this.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from src.model.recovery import RECOVERED_NOTICE

QUESTION = "Cell {}: what do the notes say?"
CONTENT = "The heron stands in the reeds."
ANSWER = "It says: {{results}}"
TEXT_CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "notes.txt"}}'
HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "notes.txt"}}\n</tool_call>'

EMISSIONS: Mapping[str, tuple[str, ...]] = {  # what the model says before the answer, turn by turn
    "clean native (Hermes)": (HERMES,),
    "TOOL_CALL": (TEXT_CALL,),
    "Qwen XML": ("<tool_call>\n<function=read>\n<parameter=path>\nnotes.txt\n</parameter>\n</function>\n</tool_call>",),
    "Python dict in tags": ("<tool_call>\n{'name': 'read', 'arguments': {'path': 'notes.txt'}}\n</tool_call>",),
    "bare JSON": ('{"name": "read", "parameters": {"path": "notes.txt"}}',),
    "pythonic": ("[read(path='notes.txt')]",),
    "Mistral list": ('[TOOL_CALLS] [{"name": "read", "arguments": {"path": "notes.txt"}}]',),
    "GLM": ("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>notes.txt</arg_value>\n</tool_call>",),
    "inside <think>": (f"<think>\nI should read it.\n{HERMES}\n</think>",),
    "text, then Hermes": (f"I will read the notes.\n{HERMES}",),
    "malformed, can be mended": ('<tool_call>\n{"name": "read", "arguments": {"path": "notes.txt",}\n</tool_call>',),
    "malformed, then right": ('<tool_call>\n{"name": "read", "arguments": {"path": \n</tool_call>', TEXT_CALL),
    "no call": (),
}
MENTION = f"A call begins with <tool_call>. {CONTENT}"  # what is said where there is no call

# Kind of server, as in rig.py -> heading.
SERVERS: Mapping[str, str] = {
    "hermes": "hermes",
    "no parser": "no parser",
    "wrong parser": "wrong parser",
    "thinking": "reasoning",
    "strict, hermes": "strict: hermes",
    "strict": "strict: no parser",
    "strict, wrong parser": "strict: wrong",
    "strict, thinking": "strict: reasoning",
    "tokens": "tokens",
    "tokens, wrong parser": "tokens: wrong",
    "tokens, strict": "tokens: strict",
}


def rules() -> list[dict[str, object]]:
    """For the rig: what the model says to each question."""
    said = {name: [*turns, ANSWER] if turns else [MENTION] for name, turns in EMISSIONS.items()}
    return [{"match": re.escape(QUESTION.format(name)), "turns": turns} for name, turns in said.items()]


class Cell(NamedTuple):
    emission: str
    server: str
    stream: bool


CELLS = [Cell(emission, server, stream) for server in SERVERS for emission in EMISSIONS for stream in (True, False)]
FOUND: dict[Cell, str] = {}  # filled by the tests


def how(stderr: str) -> str:
    """How the call was found, from what DEBUG=1 says; * where it was had back, ! where the model was corrected."""
    format_ = re.search(r"^\[DEBUG\] read: format (\w+)", stderr, re.MULTILINE)
    native, text = "Function calling format detected" in stderr, "(text-based parsing)" in stderr
    found = format_[1] if format_ else "native" if native else "text" if text else "-"
    return found + "*" * (RECOVERED_NOTICE in stderr) + "!" * ("Malformed call" in stderr)


def table(found: Mapping[Cell, str]) -> Iterable[str]:
    """In Markdown: one entry where streamed and whole agree."""
    yield f"| the model writes | {' | '.join(SERVERS.values())} |"
    yield "|---" * (len(SERVERS) + 1) + "|"
    for emission in EMISSIONS:
        entries = []
        for server in SERVERS:
            each = [found.get(Cell(emission, server, stream), "?") for stream in (True, False)]
            entries.append(each[0] if each[0] == each[1] else " / ".join(each))
        yield f"| {emission} | {' | '.join(entries)} |"


if __name__ == "__main__":
    import pytest

    sys.exit(pytest.main(["-q", "--no-header", "tests/live/test_cells.py"]))
