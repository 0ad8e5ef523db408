"""A row is all that a format needs: rows never seen are read, streamed, written and held to a grammar."""

import json
import random

import pytest

from src.negotiation.formats.structural_tags import make_structural_tag
from src.parsing import StreamParser, gathered
from src.parsing.formats.format_set import FormatSet
from src.parsing.formats.table import FORMATS
from src.types.messages import Named
from tests.each import check_each, check_rows
from tests.parsing.formats.odd_rows import ODD_ROWS
from tests.parsing.laws import READ, TOOLS, WEATHER, join_all
from tests.thorough import is_thorough, take_turns

WITH_ROW = {row.name: FormatSet((*FORMATS, row)) for row in ODD_ROWS}
WITH_ALL = FormatSet((*FORMATS, *ODD_ROWS))


def divide(text, sizes):
    """The text in pieces of these sizes, which are used in turns."""
    start, pieces = 0, []
    while start < len(text):
        pieces.append(text[start : start + sizes[len(pieces) % len(sizes)]])
        start += len(pieces[-1])
    return pieces


def parse(text, formats, sizes, **options):
    """The sum of the events, which have lost nothing of the text."""
    parser = StreamParser(TOOLS, formats=formats)
    events = [event for piece in divide(text, sizes) for event in parser.feed(piece)] + parser.close(**options)
    assert join_all(events) == text
    return gathered(events)


CUTS = (
    (10_000,),
    (1,),
    *(tuple(random.Random(seed).choices((1, 2, 3, 5, 8, 13), k=50)) for seed in range(5 if is_thorough() else 1)),
)


def calls_of(extraction):
    return [(call.name, call.arguments, call.origin, call.guessed) for call in extraction.calls]


def check_calls(found, row, expected, shown=""):
    assert calls_of(found) == [(name, arguments, row.name, False) for name, arguments in expected]
    assert (found.content.split(), found.malformed) == (shown.split(), ())


LOOK_UP = ("get_weather", {"city": "Oslo"})
READ_FILE = ("read", {"path": "src/a b.txt"})


@pytest.mark.thorough
@check_each(row=ODD_ROWS, sizes=CUTS)
def test_one_call_is_read_in_any_pieces(row, sizes):
    check_calls(parse(row.write(*LOOK_UP), WITH_ROW[row.name], sizes), row, [LOOK_UP])


@pytest.mark.thorough
@check_rows("row, sizes", take_turns(ODD_ROWS, CUTS))
def test_one_call_is_read_beside_all_other_odd_rows(row, sizes):
    check_calls(parse(row.write(*LOOK_UP), WITH_ALL, sizes), row, [LOOK_UP])


@pytest.mark.thorough
@check_each(row=ODD_ROWS, sizes=CUTS)
def test_two_calls_in_a_row_are_both_read(row, sizes):
    text = f"{row.write(*LOOK_UP)}\n{row.write(*READ_FILE)}"
    check_calls(parse(text, WITH_ROW[row.name], sizes), row, [LOOK_UP, READ_FILE])


@pytest.mark.thorough
@check_each(row=ODD_ROWS, sizes=CUTS)
def test_a_call_amid_text_leaves_the_text_alone(row, sizes):
    text = f"Let me look.\n{row.write(*READ_FILE)}\nDone, I think."
    check_calls(parse(text, WITH_ROW[row.name], sizes), row, [READ_FILE], "Let me look. Done, I think.")


@check_each(row=ODD_ROWS, sizes=CUTS)
def test_a_call_that_is_cut_off_does_not_run(row, sizes):
    text = row.write(*LOOK_UP)
    found = parse(text[: text.index("Oslo") + 2], WITH_ROW[row.name], sizes, truncated=True)
    assert (found.calls, len(found.malformed)) == ((), 1)


@check_each(row=ODD_ROWS)
def test_a_plain_text_is_the_same_with_the_row_as_without(row):
    text = (
        "It costs 5 % (or 3 §), <!-- so -->, a << b >> c, ~~~, ((x)), {{y}}, [[z]], /tools, -->, 🔧 and ¤.\n=== end ==="
    )
    for sizes in CUTS:
        assert parse(text, WITH_ROW[row.name], sizes).content == text


def make_tags(row):
    return [make_structural_tag(row, TOOLS, choice) for choice in ("auto", "required", Named("read"))]


@check_each(row=ODD_ROWS)
def test_the_row_makes_a_grammar_that_begins_with_its_marker(row):
    for tag in make_tags(row):
        form = json.loads(tag)["format"]
        assert row.write("read", {}).startswith(form["triggers"][0])
        assert all(each["begin"].startswith(form["triggers"][0]) for each in form["tags"])


@check_each(row=ODD_ROWS)
def test_xgrammar_compiles_the_grammar_of_the_row(row):
    xgrammar = pytest.importorskip("xgrammar")
    for tag in make_tags(row):
        assert xgrammar.Grammar.from_structural_tag(tag)


@check_each(row=[row for row in ODD_ROWS if row.grammar == "text"], sizes=CUTS)
def test_plain_text_as_the_input_ends_where_the_row_says(row, sizes):
    text = f"{row.write('read', {}).replace('{}', 'a.txt')}\n"
    found = parse(text, WITH_ROW[row.name], sizes)
    assert [(call.name, call.arguments) for call in found.calls] == [("read", {"path": "a.txt"})]
    assert not found.content.strip()


def test_the_tools_of_the_tests_are_those_that_the_calls_name():
    assert (WEATHER.name, READ.name) == (LOOK_UP[0], READ_FILE[0])
