"""A call in tags, or with tokens for quotes, leaves while it is written.

What has left is the beginning of the whole reading's call, or no call is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from src.parsing import GivenText, StreamParser
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.classify import make_id_source
from src.parsing.formats.table import FORMATS, Format
from src.parsing.landing.decisions import (
    CallBegins,
    CallBreaks,
    CallEnds,
    CallPiece,
    Decision,
    Hold,
    Landing,
    WholeCall,
)
from src.types.messages import ToolCall, ToolDefinition
from tests.each import check_rows

from .test_decisions import split

EDIT = ToolDefinition(
    "edit",
    "Edit a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "count": {"type": "integer"},
            "old": {"type": "string"},
            "new": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["path"],
    },
)
INDEX = ToolIndex([EDIT])
TAG_ROWS = [row for row in FORMATS if row.syntax and "{call}" in row.template]
QUOTE_ROWS = [row for row in FORMATS if "{members}" in row.template]
ROWS = TAG_ROWS + QUOTE_ROWS
ENDS = [f"{row.quote}{end}" for row in QUOTE_ROWS for end in ("", ",", ", new: ", "}", f", old:{row.quote}")]
TAGS = sorted({tag for row in TAG_ROWS for tag in (*row.syntax.frame_value("old"), *row.syntax.frame_call("edit"))})
LONG = "A line that no result holds, and that is long enough to show that the call is no echo of any.\n"
TEXT = st.lists(
    st.sampled_from(
        [LONG, "a < b", "\n", " ", '"', "<", "</", "<li>", "&lt;", "é😀", "null", "...", "\\n", *TAGS, *ENDS]
    ),
    max_size=6,
).map("".join)
VALUES = st.fixed_dictionaries(
    {"path": TEXT},
    optional={"count": st.integers(), "old": TEXT, "lines": st.lists(st.integers(), max_size=3), "new": TEXT},
)
CUTS = st.lists(st.integers(0, 3000), max_size=25)


def decide(pieces: Sequence[str], results: Sequence[str] = ()) -> list[Decision]:
    given = list(map(GivenText, results))
    parser = StreamParser(INDEX, new_id=make_id_source(), given=given, previews=True)
    landing = Landing(parser, INDEX, given)
    decisions: list[Decision] = []
    for piece in pieces:
        for event in parser.feed(piece):
            decisions += landing.decide(event)
    for event in parser.close():
        decisions += landing.decide(event)
    return decisions + landing.close()


def read_sent(decisions: Sequence[Decision]) -> list[Any]:
    """The arguments that the client can read of each call that left."""
    sent: list[Any] = []
    pieces = ""
    for decision in decisions:
        if isinstance(decision, CallBegins):
            pieces = ""
        elif isinstance(decision, CallPiece):
            pieces += decision.arguments
        elif isinstance(decision, CallEnds):
            sent.append(json.loads(pieces))
            assert sent[-1] == decision.call.arguments
        elif isinstance(decision, WholeCall):
            sent.append(decision.call.arguments)
    return sent


def read_whole(text: str) -> list[ToolCall]:
    """The calls of the text that are safe."""
    parser = StreamParser(INDEX, new_id=make_id_source())
    landing = Landing(parser, INDEX)
    decisions = [each for event in [*parser.feed(text), *parser.close()] for each in landing.decide(event)]
    return [each.call for each in [*decisions, *landing.close()] if isinstance(each, WholeCall)]


@given(st.sampled_from(ROWS), VALUES, st.sampled_from(["", "\n", " more", "\n</parameter>", "</edit>"]), CUTS)
def test_what_leaves_is_the_call_of_the_whole_reading(row: Format, values, behind, cuts):
    text = row.write("edit", values) + behind
    assert read_sent(decide(split(text, cuts))) == [call.arguments for call in read_whole(text)]


@given(st.sampled_from(ROWS), VALUES, CUTS)
def test_a_call_breaks_only_if_the_whole_reading_has_no_safe_one(row: Format, values, cuts):
    text = row.write("edit", values)
    if any(isinstance(decision, CallBreaks) for decision in decide(split(text, cuts))):
        assert not read_whole(text)


@given(st.sampled_from(ROWS), VALUES, CUTS)
def test_any_chunking_of_tags_decides_on_the_same_calls(row: Format, values, cuts):
    text = row.write("edit", values)
    assert read_sent(decide(split(text, cuts))) == read_sent(decide([text])) == read_sent(decide([*text]))


@given(st.sampled_from(ROWS), VALUES, st.sampled_from(["For example: ", "The file says `", '{"a": "', "> "]))
def test_nothing_leaves_of_tags_that_are_presented(row: Format, values, lead):
    assert not any(isinstance(each, CallBegins) for each in decide([lead, *row.write("edit", values)]))


@given(st.sampled_from(ROWS), st.lists(st.integers(0, 300), max_size=8))
def test_nothing_leaves_of_tags_that_repeat_a_result(row: Format, cuts):
    call = row.write("edit", {"path": "a.txt", "new": LONG})
    assert not any(isinstance(each, CallBegins) for each in decide(split(call, cuts), [f"The log has:\n{call}"]))


def write(*, new: str, count: str = "1") -> str:
    return (
        "<tool_call>\n<function=edit>\n<parameter=path>\na.txt\n</parameter>\n"
        f"<parameter=count>\n{count}\n</parameter>\n<parameter=new>\n{new}"
    )


def join_pieces(decisions: Sequence[Decision]) -> str:
    return "".join(each.arguments for each in decisions if isinstance(each, CallPiece))


def feed(text: str) -> str:
    """What has left after a text that goes on."""
    parser = StreamParser(INDEX, new_id=make_id_source(), previews=True)
    landing = Landing(parser, INDEX)
    decisions: list[Decision] = []
    for character in text:
        for event in parser.feed(character):
            decisions += landing.decide(event)
    return join_pieces(decisions)


def test_a_string_grows_behind_a_number_that_comes_last():
    assert feed(write(new=LONG)) == json.dumps({"path": "a.txt", "new": LONG[:-1]})[:-2]


@check_rows("end", ["<", "</", "</param", "</parameter", "</parameter>", "</parameter>\n</function>", "\n"])
def test_what_may_close_a_value_does_not_leave(end):
    assert feed(write(new=LONG + "x" + end)) == json.dumps({"path": "a.txt", "new": LONG + "x"})[:-2]


@check_rows("text", ["a < b", "a<b;", "a </ >", "x\ny"])
def test_what_begins_no_tag_leaves(text):
    assert feed(write(new=LONG + text)) == json.dumps({"path": "a.txt", "new": LONG + text})[:-2]


def test_a_call_that_has_begun_breaks_where_a_number_does_not_fit():
    decisions = decide([*write(new=LONG, count="many"), "\n</parameter>\n</function>\n</tool_call>"])
    assert isinstance(decisions[-1], CallBreaks)


def test_the_rest_of_a_call_does_not_leave_once_its_value_goes_on_behind_it():
    text = write(new=LONG) + "\n</parameter>\n</function>\n</tool_call>"
    decisions = decide([*text, *"\nmore </parameter>\n</function>\n</tool_call>"])
    assert any(isinstance(each, CallBegins) for each in decisions)
    assert not any(isinstance(each, (CallEnds, WholeCall, Hold)) for each in decisions)
    assert any(isinstance(each, CallBreaks) for each in decisions)
