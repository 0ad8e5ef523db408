"""The patterns made from a table: each marker is known, whole and begun, and so are those of rows never seen."""

from hypothesis import given
from hypothesis import strategies as st

from src.parsing import ParsedCall, StreamParser, gathered
from src.parsing.formats.format_set import FORMAT_SET, FormatSet
from src.parsing.formats.table import FORMATS, Format
from src.parsing.formats.tag_syntax import TagSyntax
from tests.each import check_each, check_rows
from tests.parsing.laws import TOOLS, events_of

OPENERS = {row.opener for row in FORMATS if row.opener[:1] == "<" and row.opener[-1] in ">" and row.grammar != "text"}
WRAPPERS = sorted(OPENERS | {opener for row in FORMATS for opener in row.more_openers})

PIECES = st.lists(st.sampled_from([*"<[{(:`>=]◁Htoken \n", *WRAPPERS, "Here is my response:", "to="]), max_size=12)


@check_each(opener=WRAPPERS)
def test_a_wrapping_marker_is_known_in_any_case(opener):
    assert FORMAT_SET.opener_run.match(opener, 0)
    assert FORMAT_SET.opener_run.match(opener.upper(), 0)


@check_each(opener=WRAPPERS)
def test_a_call_behind_it_is_found_whole_and_piece_by_piece(opener):
    text = f'So: {opener} {{"name": "read", "arguments": {{"path": "a"}}}}'
    for cuts in ((), range(1, len(text))):
        found = [event for event in events_of(text, cuts) if isinstance(event, ParsedCall)]
        assert [event.call.name for event in found] == ["read"]


@check_each(opener=WRAPPERS)
def test_its_beginnings_are_known_as_such(opener):
    assert all(FORMAT_SET.opener.is_prefix(opener[:end], 0) for end in range(1, len(opener)))


@check_rows("text", ["<invoke name=", "<function=", "<function name=", '<tool_call name="', '<call tool="', "<invoke>"])
def test_an_element_that_names_the_tool_itself_is_begun_or_there(text):
    assert FORMAT_SET.lone_element.match(text, 0) or FORMAT_SET.lone_element.is_prefix(text, 0)


@check_rows("text", ["<invoker name=", "<functional=", "<div name=", "<tool_call names="])
def test_another_element_is_neither(text):
    assert not FORMAT_SET.lone_element.match(text, 0)
    assert not FORMAT_SET.lone_element.is_prefix(text, 0)


NEW_ROWS = (
    Format("dollars", "", "$call$", "json", "$end$", "", '$call$ {"name": "{name}", "arguments": {args}} $end$'),
    Format(
        "keys_and_values", "", "<fn_call>", "pairs", "</fn_call>", "", "<fn_call>{call}</fn_call>",
        syntax=TagSyntax("{name}\n", "<k>{key}</k><v>", "</v>\n", ""),
    ),
    Format(
        "use", "", "<use name=", "tags", "</use>", "", "{call}",
        syntax=TagSyntax('<use name="{name}">\n', '<with key="{key}">', "</with>\n", "</use>"),
    ),
    Format("labelled", "", "Use tool:", "named", "", "", "Use tool: {name}\nWith: {args}"),
    Format(
        "labelled_arguments", "", "CALL ", "tags", "DONE", "", "{call}DONE",
        syntax=TagSyntax("CALL {name}\n", "ARG {key}:\n", "\nEND ARG\n", ""),
    ),
)  # fmt: skip
WITH_NEW_ROWS = FormatSet((*FORMATS, *NEW_ROWS))
VALUES = ("Oslo", "a\nb", "It ends with {} here.", "{}", "x\n{}\ny")


def parse_with_new_rows(text, size):
    parser = StreamParser(TOOLS, formats=WITH_NEW_ROWS)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    return gathered(events + parser.close())


@check_rows("size", [1, 3, 10_000])
@check_rows("row", NEW_ROWS)
def test_a_row_never_seen_is_found_streamed_hidden_and_decoded(row, size):
    for value in VALUES:
        city = value.replace("{}", (row.syntax.value_end if row.syntax else row.closer).strip())
        found = parse_with_new_rows(f"Let me look.\n{row.write('get_weather', {'city': city})}\nSo.", size)
        assert [(call.name, call.arguments, call.origin) for call in found.calls] == [
            ("get_weather", {"city": city}, row.name)
        ]
        assert not found.calls[0].guessed
        assert found.content.split() == ["Let", "me", "look.", "So."]


@check_rows("row", NEW_ROWS)
def test_a_row_never_seen_that_is_cut_off_does_not_run(row):
    text = row.write("get_weather", {"city": "Oslo"})
    found = parse_with_new_rows(text[: text.index("Oslo") + 2], 4)
    assert (found.calls, len(found.malformed)) == ((), 1)


@check_rows("text", ["It costs $5.", "RECALL get_weather", "I use tools: two", "<use name>", "CALLS"])
def test_text_that_only_resembles_a_new_row_is_shown(text):
    assert parse_with_new_rows(text, 1).content == text


def test_an_id_between_the_markers_before_a_name_is_part_of_the_block():
    text = '<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>read<|tool_call:args|>{"path": "a"}<|tool_call:end|>'
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert ([(call.name, call.arguments) for call in found.calls], found.content) == ([("read", {"path": "a"})], "")


@given(text=PIECES.map("".join))
def test_the_first_search_finds_what_the_pattern_finds(text):
    found, wanted = FormatSet().find_anchor(text), FORMAT_SET.anchor.search(text)
    assert (found and found.span()) == (wanted and wanted.span())


def test_words_alone_need_no_pattern():
    formats = FormatSet()
    assert formats.find_anchor("the sum of 2 and 2 is 4.") is None
    assert "anchor" not in vars(formats)
