"""One block: followed to its end, cut off, previewed while it is written, given back as text."""

import json

import pytest

from src.parsing import Malformed, ParsedCall, StreamParser, extract_tool_calls, gathered
from src.parsing.formats.table import FORMATS
from src.parsing.stream.block import MAX_DATA_CHARS, MAX_STRICT_CHARS
from src.parsing.stream.brackets import MAX_BLOCK_CHARS
from src.types.events import ToolCallDelta
from tests.each import check_each, check_rows
from tests.parsing.laws import TOOLS, events_of, join_all, join_text, summarize

CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'


def list_calls(events):
    return [event.call for event in events if isinstance(event, ParsedCall)]


def list_malformed(events):
    return [event.malformed for event in events if isinstance(event, Malformed)]


class TestCutOff:
    @pytest.mark.parametrize("size", [1, 5, 10_000])
    def test_a_block_that_never_ends_is_malformed_and_keeps_its_raw_text(self, size):
        text = 'Now: TOOL_CALL: {"name": "read", "args": {"path": "a'
        events = events_of(text, range(size, len(text), size))
        assert join_text(events) == "Now: "
        assert [each.raw for each in list_malformed(events)] == [text[5:]]

    def test_a_missing_last_brace_is_added_where_the_arguments_are_whole(self):
        call = extract_tool_calls(CALL[:-1], TOOLS).calls[0]
        assert (call.arguments, call.repaired) == ({"path": "a.txt"}, ("missing closers",))

    def test_nothing_is_added_where_max_tokens_cut_it(self):
        assert not extract_tool_calls(CALL[:-1], TOOLS, truncated=True).calls

    def test_a_block_that_lost_its_end_does_not_swallow_the_next(self):
        events = events_of(f"{CALL[:-1]}\n\nAnd another:\n{CALL}")
        assert len(list_calls(events)) == 2


class TestPreviews:
    def test_a_call_being_written_is_previewed_with_the_id_it_will_have(self):
        events = events_of(CALL, range(1, len(CALL)), previews=True)
        first = next(event for event in events if isinstance(event, ToolCallDelta))
        assert first.call_index == 0
        assert first.name == "read"
        assert first.id == next(event.call.id for event in events if isinstance(event, ParsedCall))

    def test_the_preview_holds_the_block_as_the_model_writes_it(self):
        events = events_of(CALL, range(1, len(CALL)), previews=True)
        text = "".join(event.arguments_delta for event in events if isinstance(event, ToolCallDelta))
        assert CALL.removeprefix("TOOL_CALL: ").startswith(text)
        assert len(text) >= len(CALL) - 13

    def test_an_escape_that_is_split_stands_in_the_preview_once(self):
        call = 'TOOL_CALL: {"name": "read", "args": {"path": "a \\\\ \\"b\\" c"}}'
        events = events_of(call, range(1, len(call)), previews=True)
        text = "".join(event.arguments_delta for event in events if isinstance(event, ToolCallDelta))
        assert call.removeprefix("TOOL_CALL: ").startswith(text)
        assert len(text) >= len(call) - 13

    def test_previews_change_nothing_else(self):
        plain = [event for event in events_of(CALL, [20, 30], previews=True) if not isinstance(event, ToolCallDelta)]
        assert summarize(plain) == summarize(events_of(CALL))

    @check_rows(
        "text, kind",
        [
            (CALL, "json"),
            ('[TOOL_CALLS]read{"path": "a.txt"}', "named"),
            ('<|tool_call_start|>[read(path="a.txt")]', "keywords"),
            ('<<function>>read(path="a.txt")', "keywords"),
            ('[read(path="a.txt")]', ""),
            ('<|tools_prefix|>[{"read": {"path": "a.txt"}}]', "json"),
            (f"For example: {CALL}", ""),
            ('{"name": "read", "args": {"path": "a.txt"}}', ""),
        ],
    )
    def test_a_block_is_certainly_a_call_where_its_format_asks_for_one_and_nothing_presents_it(self, text, kind):
        parser = StreamParser(TOOLS, previews=True)
        for character in text:
            parser.feed(character)
        assert parser.certain_kind == kind


class TestEager:
    """With `eager` a call does not wait for what may close its block."""

    @check_each(row=[row for row in FORMATS if row.opener])
    def test_the_events_hold_all_of_the_text_and_the_same_call(self, row):
        text = f"First.\n{row.example}\nThen."
        parser = StreamParser(TOOLS, eager=True)
        events = [event for char in text for event in parser.feed(char)] + parser.close()
        assert "".join(getattr(event, "raw", "") or getattr(event, "text", "") for event in events) == text
        assert gathered(events).calls == extract_tool_calls(text, TOOLS).calls

    def test_a_call_comes_with_its_last_brace(self):
        text = '<tool_call>{"name": "read", "arguments": {"path": "a"}}'
        assert isinstance(StreamParser(TOOLS, eager=True).feed(text)[0], ParsedCall)
        assert StreamParser(TOOLS).feed(text) == []


class TestGivenBack:
    def test_what_only_looked_like_a_call_is_text_again(self):
        text = 'The setting {"name": "colour", "value": 3} stays.'
        assert extract_tool_calls(text, TOOLS).content == text

    def test_a_call_inside_what_was_no_block_is_found(self):
        found = extract_tool_calls(f'{{"name": "read", "note": [{CALL}', TOOLS)
        assert [call.name for call in found.calls] == ["read"]

    def test_the_closing_marker_belongs_to_the_block(self):
        found = extract_tool_calls(
            '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\nDone.', TOOLS
        )
        assert found.content.strip() == "Done."


def test_a_call_of_any_length_is_read_whole():
    for size in (10, MAX_STRICT_CHARS, 10 * MAX_STRICT_CHARS):
        (call,) = extract_tool_calls(CALL.replace("a.txt", "x" * size) + " Done.", TOOLS).calls
        assert (call.arguments, call.repaired) == ({"path": "x" * size}, ())


class TestTooLong:
    """A block of more than MAX_BLOCK_CHARS, in pieces and at the end of the text."""

    def test_a_block_that_is_too_long_is_malformed_and_what_follows_is_text(self):
        text = 'TOOL_CALL: {"name": "read", "args": {"path": "' + "x" * MAX_BLOCK_CHARS
        cuts = range(100, len(text) + 3_000_000, 1_000_000)
        events = events_of(text + "y" * 3_000_000, [cut for cut in cuts if cut < len(text)])
        (found,) = list_malformed(events)
        assert found.reason == f"The block is longer than {MAX_BLOCK_CHARS} characters."
        assert join_text(events).strip("xy") == ""
        assert join_all(events) == text + "y" * 3_000_000

    def test_the_limit_is_noticed_in_a_string_that_comes_in_small_pieces(self):
        parser = StreamParser(TOOLS)
        parser.feed('TOOL_CALL: {"name": "read", "args": {"path": "')
        piece = '\\"' + "x" * 1_998
        events = [event for _ in range(8_300) for event in parser.feed(piece)]
        assert len(list_malformed(events + parser.close())) == 1


class TestData:
    """A JSON document is no call, and is shown as it comes."""

    DOCUMENT = json.dumps(
        {"id": 1, "description": "x", "items": [{"id": n, "type": "y" * 20} for n in range(400)]}, indent=1
    )

    @check_rows("fence", ["", "```json\n"])
    @check_rows("size", [1, 7, 100])
    def test_an_object_of_data_is_held_back_for_few_characters(self, fence, size):
        parser, text, shown = StreamParser(TOOLS), fence + self.DOCUMENT, 0
        for at in range(0, len(text), size):
            shown += len(join_text(parser.feed(text[at : at + size])))
            assert at + size - shown <= len(fence) + MAX_DATA_CHARS + size
        assert shown + len(join_text(parser.close())) == len(text)

    def test_any_pieces_give_the_same(self):
        for text in (self.DOCUMENT, f"```json\n{self.DOCUMENT}\n```\n", self.DOCUMENT * 4):
            whole = summarize(events_of(text))
            assert summarize(events_of(text, range(300, len(text), 333))) == whole
            assert summarize(events_of(text[:2_000], range(1, 2_000))) == summarize(events_of(text[:2_000]))
            assert join_text(events_of(text)) == text

    @check_rows("data",
        [
            {"read": {"title": "x", "pages": ["y" * 40] * 30}},
            {"name": "read", "title": "x", "pages": ["y" * 40] * 30},
            {"books": [{"name": "read the book", "pages": ["y" * 40] * 30}]},
            {"read": {"args": {"title": "x", "pages": ["y" * 40] * 30}}},
            {"name": "read", "arguments": {"path": "x"}, "result": ["y" * 40] * 30},
            {"books": {"name": "read", "pages": ["y" * 40] * 30}},
            ["read", *["y" * 40] * 30],
            {"read": "y" * 40, "description": ["y" * 40] * 30},
            {"read": {"path": {"title": "x", "pages": ["y" * 40] * 30}}},
        ])  # fmt: skip
    def test_data_with_the_name_of_a_tool_leaves_too(self, data):
        text, parser, shown = json.dumps(data), StreamParser(TOOLS), 0
        for at, character in enumerate(text):
            shown += len(join_text(parser.feed(character)))
            assert at + 1 - shown <= 2 * MAX_DATA_CHARS
        assert shown + len(join_text(parser.close())) == len(text)

    def test_a_long_call_whose_name_comes_early_is_one(self):
        call = json.dumps({"id": "1", "name": "read", "arguments": {"path": "x" * 5_000}})
        for cuts in ((), range(1, len(call))):
            assert len(gathered(events_of(call, cuts)).calls) == 1

    @check_rows(
        "call",
        [
            '{"read": {"path": "%s"}}',
            '{"tool_calls": [{"type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"%s\\"}"}}]}',
            '[{"name": "read", "arguments": {"path": "%s"}}]',
            '[{"action": "read", "action_input": {"path": "a \\"quoted\\" {word} %s"}}]',
            '[read(path="%s")]',
            '[read({"path": "%s"})]',
            '["read", {"path": "%s"}]',
            "{'name': 'read', 'arguments': {'path': '%s'}}",
            '{"name": "read", "path": "%s"}',
        ],
    )
    def test_a_long_call_is_one_in_every_shape(self, call):
        for cuts in ((), range(1, 5_000)):
            assert len(gathered(events_of(call % ("x" * 5_000), cuts)).calls) == 1

    def test_a_short_call_whose_name_comes_last_is_one(self):
        call = json.dumps({"arguments": {"path": "x" * (MAX_DATA_CHARS - 60)}, "name": "read"})
        assert len(gathered(events_of(call, range(1, len(call)))).calls) == 1
