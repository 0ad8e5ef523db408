"""What is decided of an answer while it is written: the laws that all front ends inherit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.parsing import GivenText, StreamParser
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.classify import make_id_source
from src.parsing.formats.table import FORMATS
from src.parsing.landing.begun_call import MIN_PROOF_CHARS
from src.parsing.landing.decisions import (
    CallBegins,
    CallBreaks,
    CallEnds,
    CallPiece,
    Decision,
    Hold,
    Landing,
    Show,
    Waits,
    WholeCall,
)
from src.types.messages import ToolDefinition
from tests.each import check_rows
from tests.parsing.laws import PIECES, TOOLS

WRITE = ToolDefinition(
    "write",
    "Write a file.",
    {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
)
INDEX = ToolIndex([*TOOLS, WRITE])
LONG = 'It is a text that no result holds, "quoted" and\nlong enough to show it: \\n, é. ' * 3
CALL = f"<tool_call>\n{json.dumps({'name': 'write', 'arguments': {'path': 'a.txt', 'content': LONG}})}\n</tool_call>"
TAGGED = "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"


def decide(pieces: Sequence[str], waits: Waits = "unsure", results: Sequence[str] = (), *, close: bool = True) -> Any:
    given = list(map(GivenText, results))
    parser = StreamParser(INDEX, new_id=make_id_source(), given=given, previews=True)
    landing = Landing(parser, INDEX, given, waits=waits)
    decisions = [decision for piece in pieces for event in parser.feed(piece) for decision in landing.decide(event)]
    if close:
        decisions += [decision for event in parser.close() for decision in landing.decide(event)] + landing.close()
    return decisions


def split(text: str, cuts: Sequence[int]) -> list[str]:
    bounds = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def write(format: str) -> str:
    (row,) = (row for row in FORMATS if row.name == format)
    return row.write("read", {"path": "a.txt"})


def join(decisions: Sequence[Decision]) -> str:
    return "".join(each.text if isinstance(each, Show) else getattr(each, "raw", "") for each in decisions)


TEXTS = st.lists(st.sampled_from([*PIECES, CALL, TAGGED, CALL[:150], "\n"]), max_size=8).map("".join)
CUTS = st.lists(st.integers(0, 3000), max_size=25)


@given(TEXTS, CUTS, st.sampled_from(["none", "unsure", "all"]))
def test_the_decisions_hold_all_of_the_text(text, cuts, waits):
    assert join(decide(split(text, cuts), waits)) == text


@given(TEXTS, CUTS)
def test_a_call_that_begins_ends_or_breaks_before_anything_else_is_decided(text, cuts):
    is_open = False
    for decision in decide(split(text, cuts)):
        if is_open:
            assert isinstance(decision, (CallPiece, CallEnds, CallBreaks))
        is_open = isinstance(decision, (CallBegins, CallPiece))
    assert not is_open


@given(TEXTS, CUTS)
def test_the_pieces_of_a_call_that_ends_are_its_arguments(text, cuts):
    pieces = ""
    for decision in decide(split(text, cuts)):
        if isinstance(decision, CallBegins):
            pieces = ""
        elif isinstance(decision, CallPiece):
            pieces += decision.arguments
        elif isinstance(decision, CallEnds):
            assert json.loads(pieces) == decision.call.arguments


@given(TEXTS, CUTS)
def test_any_chunking_decides_on_the_same_text_and_calls(text, cuts):
    def describe(decisions: Sequence[Decision]) -> list[Any]:
        parts: list[Any] = []
        for decision in decisions:
            if isinstance(decision, (WholeCall, CallEnds)):
                parts.append((decision.call.name, decision.call.arguments))
            elif isinstance(decision, CallBreaks):  # of a block that is held where it comes whole
                parts.append(decision.raw)
            elif text := getattr(decision, "text", "") or getattr(decision, "raw", ""):
                if parts and isinstance(parts[-1], str):
                    parts[-1] += text
                else:
                    parts.append(text)
        return parts

    assert describe(decide(split(text, cuts), "none")) == describe(decide([text], "none"))


STREAMED = (
    "apertus", "functiongemma", "gemma4", "gorilla", "lfm2", "llama4_pythonic", "llama_builtin", "olmo3", "qwen_bracket",
)  # fmt: skip


@check_rows("name", STREAMED)
def test_a_call_that_is_not_in_json_leaves_while_it_is_written(name):
    (row,) = (row for row in FORMATS if row.name == name)
    decisions = decide([*row.write("write", {"path": "a.txt", "content": LONG})])
    assert sum(isinstance(each, CallPiece) for each in decisions) > len(LONG) / 2
    assert [each.call.arguments for each in decisions if isinstance(each, CallEnds)] == [
        {"path": "a.txt", "content": LONG}
    ]


def test_a_long_call_leaves_while_it_is_written():
    decisions = decide([*CALL[:200]], close=False)
    assert decisions[0].name == "write"
    assert sum(len(piece.arguments) for piece in decisions[1:]) > MIN_PROOF_CHARS


@pytest.mark.parametrize("waits, kinds", [("none", [WholeCall, Show]), ("unsure", []), ("all", [])])
def test_a_call_whose_values_nothing_escapes_waits_and_so_does_what_stands_behind_it(waits, kinds):
    decisions = decide([write("gemma4"), "\nIt is read.\nAnd so on."], waits, close=False)
    assert list(map(type, decisions)) == kinds


def test_a_call_is_held_once_what_follows_shows_that_its_value_went_on():
    decisions = decide([write("function_tag"), "\nmore of it </function>", " and so on."])
    assert [type(each) for each in decisions if isinstance(each, (Hold, WholeCall))] == [Hold]


def test_a_call_that_repeats_a_result_does_not_begin():
    assert not any(isinstance(each, CallBegins) for each in decide([*CALL], results=[f"The log says:\n{CALL}"]))


def test_a_call_of_which_a_string_is_new_begins_though_another_stands_in_a_result():
    new = "Something that no result holds, and that is long enough to show it, with or without what quoting changes."
    call = json.dumps({"name": "write", "arguments": {"path": LONG, "content": new}})
    decisions = decide([*f"<tool_call>{call}</tool_call>"], results=[LONG])
    assert isinstance(decisions[0], CallBegins)


@pytest.mark.parametrize("lead", ["For example: ", "The file says `"])
def test_a_call_that_is_presented_does_not_begin(lead):
    assert not any(isinstance(each, CallBegins) for each in decide([lead, *CALL]))


@check_rows("key", ["name", "function", "tool", "tool_name"])
def test_a_call_begins_whatever_the_key_of_its_name(key):
    call = json.dumps({key: "write", "args": {"content": LONG}})
    assert isinstance(decide([*f"<tool_call>{call}</tool_call>"])[0], CallBegins)


@pytest.mark.parametrize("row", [row for row in FORMATS if row.name in ("hermes", "mistral")])
def test_a_call_that_broke_is_followed_by_calls_that_wait(row):
    broken = CALL[:150] + '", "limit": }}}}\n</tool_call>'
    decisions = decide([*broken, *row.write("write", {"path": "b", "content": LONG})], close=False)
    assert isinstance(decisions[-1], CallBreaks)
